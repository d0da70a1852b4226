"""`malmoi vocabulary`: the tokens that a model knows."""

import re
from collections.abc import Iterable
from typing import Annotated

from typer import BadParameter

from ..bundle.bundle import find_model, open_bundle
from ..bundle.manifest import KINDS
from ..runtime.tokenizer import read_tokenizer
from .options import arg, opt
from .output import Row, prints_rows


@prints_rows
def vocabulary(
    model: Annotated[
        str | None, arg("A bundle, a model folder, a shipped name; ko-en-small if left out.")
    ] = None,
    grep: Annotated[str | None, opt("Only tokens with this regular expression in them.")] = None,
) -> Iterable[Row]:
    """Print a model's vocabulary, one token a row with its id."""
    try:
        wanted = re.compile(grep or "")
    except re.error as error:
        raise BadParameter(
            f"--grep is {grep!r}, which is no regular expression ({error}); expected letters, or "
            "a pattern such as ^배"
        ) from error
    bundle = open_bundle(find_model(model), kinds=tuple(KINDS))
    known = read_tokenizer(bundle.tokenizer).get_vocab(with_added_tokens=True)
    for token, number in sorted(known.items(), key=lambda item: (item[1], item[0])):
        if wanted.search(token):
            yield {"id": number, "token": token}
