"""`malmoi serve`: an HTTP server and a page; `malmoi key`: a key for it."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from ..errors import require
from .options import ModelOption, Threads
from .output import say


def serve(
    model: ModelOption = None,
    reranker: Annotated[
        str | None, typer.Option(help="A reranker; the shipped one by itself, none for none.")
    ] = None,
    corpus: Annotated[
        list[Path] | None, typer.Option(help="A corpus to search; may be repeated.")
    ] = None,
    lexicon: Annotated[
        list[str] | None, typer.Option(help="A lexicon to link with; may be repeated.")
    ] = None,
    samples: Annotated[
        bool, typer.Option(help="Serve the samples where no corpus or lexicon is named.")
    ] = True,
    api_keys: Annotated[
        Path | None, typer.Option(help="A file of keys, made with: malmoi key")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8010,
    host_name: Annotated[
        list[str] | None, typer.Option(help="A name that browsers may use for this server.")
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option(help="An origin whose pages may call: https://…")
    ] = None,
    allow_upload: Annotated[
        bool,
        typer.Option(
            "--allow-upload", help="Let pages add files to a corpus; a new one is made if needed."
        ),
    ] = False,
    upload_megabytes: Annotated[
        int, typer.Option(min=1, max=60, help="Of one upload, all its files together.")
    ] = 20,
    upload_files: Annotated[int, typer.Option(min=1, max=200, help="Files of one upload.")] = 20,
    batching: Annotated[
        bool, typer.Option(help="Encode requests that arrive together in one batch.")
    ] = True,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds a request may take.")] = 60.0,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="A line for each request, without its text.")
    ] = False,
    threads: Threads = None,
) -> None:
    """Serve embeddings, search, reranking and linking over HTTP, with a page to look at."""
    # long because every option has a line of its own
    for module in ("starlette", "pydantic", "uvicorn", "httptools", "prometheus_client"):
        require(module, extra="serve", purpose="the server")
    from ..serve import server
    from ..serve.settings import Batching, Limits, ServerSettings, Uploads
    from ..serve.state import load_resources

    _log_with_times()
    settings = ServerSettings(
        host=host,
        port=port,
        keys=api_keys,
        cors=tuple(cors or ()),
        host_names=tuple(host_name or ()),
        limits=Limits(seconds=timeout),
        batching=Batching(together=batching),
        uploads=Uploads(files=upload_files, bytes=upload_megabytes << 20) if allow_upload else None,
    )
    resources = load_resources(
        model,
        reranker=reranker,
        corpora=corpus or (),
        lexicons=lexicon or (),
        samples=samples,
        create=allow_upload,
        threads=threads,
    )
    server.serve(resources, settings, access_log=access_log)


def _log_with_times() -> None:
    """Log requests and failures with their time, unlike the messages of a command."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    for name in ("malmoi.serve.access", "malmoi.serve.middleware"):
        logger = logging.getLogger(name)
        logger.handlers[:] = logging.getLogger().handlers
        logger.propagate = False


def key(
    name: Annotated[str, typer.Argument(help="Who the key is for: letters, digits, dot, dash.")],
    file: Annotated[Path, typer.Option("--file", "-f", help="The file that keeps its hash.")],
    rate: Annotated[int, typer.Option(min=1, help="Requests a minute.")] = 600,
) -> None:
    """Make an API key: it is printed once, and the file keeps its hash alone."""
    from ..serve.api_keys import make_key

    typer.echo(make_key(name, file, rate=rate))
    say(f"{file} keeps the hash of the key for {name}; the key itself cannot be shown again")
