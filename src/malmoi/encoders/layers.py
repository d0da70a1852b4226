"""Word vectors and chosen layers, which encoders with a transformer have."""

from collections.abc import Iterable, Iterator

from ..types import Floats
from .base import TextEncoder, as_list
from .segment import By
from .words import LayerReader, Layers, Merge, Word, no_layers


class LayerAccess:
    """Words in their sentence, for encoders whose hidden layers can be read."""

    reader: LayerReader

    def words(
        self,
        text: str,
        *,
        layers: Layers = "last",
        merge: Merge = "mean",
        by: By = "spaces",
        special: bool = False,
    ) -> list[Word]:
        """Give the words of a text, each with its vector (width,) and its tokens.

        - `layers`: "last", "second-to-last", "sum-last-4", "concat-last-4", "mean-all" and the
          like, a layer's number (0 is the embeddings), or several, which are concatenated.
        - `merge`: how one vector is made of a word's tokens.
        - `by`: where words end: at "spaces", by "morphemes" (배가 and 배를 share their noun), or
          at spans of your own.
        - `special`: give the model's special tokens too.
        """
        [found] = self.words_of([text], layers=layers, merge=merge, by=by, special=special)
        return found

    def words_of(
        self,
        texts: str | Iterable[str],
        *,
        layers: Layers = "last",
        merge: Merge = "mean",
        by: By = "spaces",
        special: bool = False,
    ) -> Iterator[list[Word]]:
        """Yield the words of each text, of one string once; options are those of `words`."""
        texts = [texts] if isinstance(texts, str) else texts
        return self.reader.words(texts, layers=layers, merge=merge, by=by, special=special)

    def encode_layers(
        self, texts: str | Iterable[str], *, layers: Layers = "last", pooling: str | None = None
    ) -> Floats:
        """Turn texts into unit vectors (n, width) pooled from chosen layers, named as in `words`.

        One string gives (width,). `pooling` is the model's own when left out.
        """
        vectors = self.reader.sentences(as_list(texts), layers=layers, pooling=pooling)
        return vectors[0] if isinstance(texts, str) else vectors


def layers_of(encoder: TextEncoder) -> LayerAccess:
    """Give an encoder as one whose layers can be read, or raise BundleError if it has none."""
    if isinstance(encoder, LayerAccess):
        return encoder
    raise no_layers(encoder.name)
