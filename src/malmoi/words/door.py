"""What an encoder offers of words: the methods, whichever encoder has them."""

import functools
from collections.abc import Iterable, Iterator, Sequence

from ..pooling import Floats
from .cutting import By
from .layers import Layers, no_layers
from .read import Merge, Reader, Word


class WordEncoder:
    """Words in their sentence, for encoders whose hidden layers can be read."""

    name: str

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

        `layers` is "last", "second-to-last", "sum-last-4", "concat-last-4", "mean-all" and the
        like, a layer's number (0 is the embeddings), or several, whose states stand side by side.
        `merge` makes one vector of a word's pieces. `by` cuts at "spaces", or by "morphemes" so
        that 배가 and 배를 share their noun, or at spans of your own. `special` gives the model's
        special tokens too.
        """
        [found] = self.words_of([text], layers=layers, merge=merge, by=by, special=special)
        return found

    def words_of(
        self,
        texts: Iterable[str],
        *,
        layers: Layers = "last",
        merge: Merge = "mean",
        by: By = "spaces",
        special: bool = False,
    ) -> Iterator[list[Word]]:
        """Yield the words of each text; options are those of `words`."""
        return self.reader.words(texts, layers=layers, merge=merge, by=by, special=special)

    def encode_layers(
        self, texts: Sequence[str], *, layers: Layers = "last", pooling: str | None = None
    ) -> Floats:
        """Turn texts into unit vectors (n, width) pooled from chosen layers, named as in `words`.

        `pooling` is the model's own when left out.
        """
        return self.reader.sentences(list(texts), layers=layers, pooling=pooling)

    @functools.cached_property
    def reader(self) -> Reader:
        """What reads words and sentences out of the layers; raises where there are none."""
        found = self._open_reader()
        if found is None:
            raise no_layers(self.name)
        return found

    def _open_reader(self) -> Reader | None:
        return None
