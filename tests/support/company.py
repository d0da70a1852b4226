"""Documents of a company that does not exist, and questions about them, for tests of search.

A question has a kind: "paraphrase" shares few words with its answer, "identifier" names a code, a
number or a model, "word" is one rare word or a compound whose parts stand apart, "other" is asked
in the other language. Its answer is a piece of text that only the right passage has.
"""

from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
_PARTS = (_HERE / "company.txt").read_text("utf-8").split("=== ")[1:]
# Each document's path and its text.
FILES: dict[str, str] = {name: text for name, _, text in (part.partition("\n") for part in _PARTS)}


@dataclass(frozen=True)
class Question:
    """A question, its kind, the file that answers it and a piece of text of the right passage."""

    kind: str
    text: str
    file: str
    answer: str


_LINES = (_HERE / "company.tsv").read_text("utf-8").splitlines()
QUESTIONS = [Question(*line.split("\t")) for line in _LINES]


def write_folder(folder: Path) -> Path:
    """Write the documents as files into a folder, two of them in cp949."""
    for number, (name, text) in enumerate(FILES.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="cp949" if number in (3, 19) else "utf-8")
    return folder
