"""Korean word vectors as GloVe's text form, from the morpheme vectors that kiwipiepy's model holds.

    python recipes/prepare/cong_vectors.py --data DATA --out cong.txt
    malmoi evaluate ko-en-small --task sts --data korsts-dev.tsv --against static:cong.txt

`words/kiwi-cong.npz` has 70,488 morphemes; those of content words (nouns, verbs, adjectives, roots,
foreign words) are written, the commonest of several with one form.
"""

import argparse
from pathlib import Path

import numpy as np

from malmoi.io.files import writing
from malmoi.io.tables import read_rows

CONTENT = ("NNG", "NNP", "VV", "VA", "XR", "SL", "MAG")


def main() -> None:
    """Write the vectors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    arrays = np.load(options.data / "words/kiwi-cong.npz")
    vectors = arrays["output"] * arrays["output_scale"].reshape(-1, 1).astype(np.float32)
    seen: set[str] = set()
    with writing(options.out) as file:
        for row in read_rows(options.data / "words/kiwi-cong-vocab.tsv"):
            form = row["form"].strip()
            if row["tag"] not in CONTENT or not form or " " in form or form in seen:
                continue
            seen.add(form)
            numbers = " ".join(f"{value:.5g}" for value in vectors[int(row["id"])])
            file.write(f"{form} {numbers}\n".encode())


if __name__ == "__main__":
    main()
