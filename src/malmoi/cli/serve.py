"""`malmoi serve`: models, corpora and lexicons over HTTP with a page, or as tools (MCP)."""

import logging
from pathlib import Path
from typing import Annotated

from ..errors import DataError, require
from .options import ModelOption, Threads, more, opt


def serve(
    model: ModelOption = None,
    reranker: Annotated[
        str | None, opt("A cross-encoder; late interaction without, none for none.")
    ] = None,
    corpus: Annotated[list[Path] | None, opt("A corpus to search; may be repeated.")] = None,
    lexicon: Annotated[list[str] | None, opt("A lexicon to link with; may be repeated.")] = None,
    samples: Annotated[bool, opt("Serve the samples where no corpus or lexicon is named.")] = True,
    api_keys: Annotated[Path | None, opt("A file of keys, made with: malmoi key add")] = None,
    audit: Annotated[
        Path | None, more("A file of who asked for what, as JSON lines without texts.")
    ] = None,
    host: Annotated[str, opt("The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, opt("0 takes a free one.", min=0, max=65535)] = 8010,
    host_name: Annotated[
        list[str] | None, more("A name that browsers may use for this server.")
    ] = None,
    cors: Annotated[list[str] | None, more("An origin whose pages may call: https://…")] = None,
    allow_upload: Annotated[
        bool,
        opt("Let pages add files to a corpus; a new one is made if needed.", "--allow-upload"),
    ] = False,
    upload_megabytes: Annotated[
        int, more("Of one upload, all its files together.", min=1, max=60)
    ] = 20,
    upload_files: Annotated[int, more("Files of one upload.", min=1, max=200)] = 20,
    batching: Annotated[bool, more("Encode requests that arrive together in one batch.")] = True,
    timeout: Annotated[float, more("Seconds a request may take.", min=0.1)] = 60.0,
    access_log: Annotated[
        bool, more("A line for each request, without its text.", "--access-log")
    ] = False,
    mcp: Annotated[
        bool, opt("Offer search, link and similarity to an assistant on stdin and stdout.", "--mcp")
    ] = False,
    threads: Threads = None,
) -> None:
    """Serve embeddings, search, reranking and linking over HTTP, with a page to look at."""
    # long because every option has a line of its own
    if mcp:
        _serve_mcp(corpus or [], lexicon or [], model, threads)
        return
    for module in ("starlette", "pydantic", "uvicorn", "prometheus_client"):
        require(module, extra="serve", purpose="the server")
    from ..serve import server
    from ..serve.settings import Batching, Limits, ServerSettings, Uploads
    from ..serve.state import load_resources

    _log_with_times()
    settings = ServerSettings(
        host=host,
        port=port,
        keys=api_keys,
        audit=audit,
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


def _serve_mcp(
    corpora: list[Path], lexicons: list[str], model: str | None, threads: int | None
) -> None:
    """Offer tools by the Model Context Protocol."""
    from ..corpus import Corpus
    from ..encoders import load
    from ..integrations.mcp import make_server  # needs malmoi[mcp]
    from ..terms import Linker

    missing = next((path for path in corpora if not path.exists()), None)
    if missing is not None:
        raise DataError(f"there is no corpus {missing}; expected a file made by: malmoi index")
    encoder = load(model, threads=threads)
    opened = {path.name.removesuffix(".malmoi"): Corpus.open(path, encoder) for path in corpora}
    linkers = {Path(name).name.removesuffix(".lexicon"): Linker(name, encoder) for name in lexicons}
    make_server(encoder, opened, linkers).run("stdio")


def _log_with_times() -> None:
    """Log requests and failures with their time, unlike the messages of a command."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    for name in ("malmoi.serve.access", "malmoi.serve.middleware"):
        logger = logging.getLogger(name)
        logger.handlers[:] = logging.getLogger().handlers
        logger.propagate = False
