"""`malmoi mcp`: search, link and similarity for assistants, by the Model Context Protocol."""

from pathlib import Path
from typing import Annotated

from ..corpus import Corpus
from ..encoders import load
from ..errors import DataError
from ..terms import Linker
from .options import ModelOption, Threads, opt


def mcp(
    corpus: Annotated[list[Path] | None, opt("A corpus to search; may be given again.")] = None,
    lexicon: Annotated[list[str] | None, opt("A lexicon to link to; may be given again.")] = None,
    model: ModelOption = None,
    threads: Threads = None,
) -> None:
    """Offer search, link and similarity to an assistant, over stdin and stdout."""
    from ..integrations.mcp import make_server  # needs malmoi[mcp]

    missing = next((path for path in corpus or () if not path.exists()), None)
    if missing is not None:
        raise DataError(f"there is no corpus {missing}; expected a file made by: malmoi index")
    encoder = load(model, threads=threads)
    corpora = {
        path.name.removesuffix(".malmoi"): Corpus.open(path, encoder) for path in corpus or ()
    }
    lexicons = {
        Path(name).name.removesuffix(".lexicon"): Linker(name, encoder) for name in lexicon or ()
    }
    make_server(encoder, corpora, lexicons).run("stdio")
