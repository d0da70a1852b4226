"""A small lexicon in memory or on disk, and an encoder of hashed words for linking tests."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from malmoi.bundle.bundle import Manifest
from malmoi.runtime.pooling import to_precision
from malmoi.terms import Lexicon, build_lexicon

TABLE = """code\tkind\tko\ten
J18\theadword\t상세불명 병원체의 폐렴\tPneumonia, organism unspecified
J18.9\theadword\t상세불명의 폐렴\tPneumonia, unspecified
J12.9\theadword\t상세불명의 바이러스폐렴\tViral pneumonia, unspecified
C16\theadword\t위의 악성 신생물\tMalignant neoplasm of stomach
C16.9\theadword\t상세불명의 위의 악성 신생물\tMalignant neoplasm of stomach, unspecified
K74.6\theadword\t간의 기타 및 상세불명의 경변증\tOther and unspecified cirrhosis of liver
K74.6\tinclusion\t간경변증\tCirrhosis of liver
C22.9\theadword\t상세불명의 간의 악성 신생물\tMalignant neoplasm of liver, unspecified
E14\theadword\t상세불명의 당뇨병\tUnspecified diabetes mellitus
E14.2\theadword\t신장합병증을 동반한 상세불명의 당뇨병\tUnspecified diabetes, renal complications
I10\theadword\t본태성(원발성) 고혈압\tEssential(primary) hypertension
I50.0\theadword\t울혈성 심부전\tCongestive heart failure
R50.9\theadword\t상세불명의 열\tFever, unspecified
R05\theadword\t기침\tCough
N20.0\theadword\t신장의 결석\tCalculus of kidney
K37\theadword\t상세불명의 충수염\tUnspecified appendicitis
"""


class HashingEncoder:
    """Vectors of hashed character pairs: no meaning, but the same for the same text."""

    def __init__(
        self, name: str = "words", dimension: int = 64, *, manifest: Manifest | None = None
    ) -> None:
        self.name, self.dimension, self.manifest = name, dimension, manifest

    def encode(self, texts: Any, *, precision: str = "float32", progress: bool = False) -> Any:
        rows = np.stack([self._row(text) for text in texts])
        return to_precision(rows, precision)

    def _row(self, text: str) -> NDArray[np.float32]:
        row = np.zeros(self.dimension, np.float32)
        for a, b in zip(f" {text}", f"{text} ", strict=True):
            row[(ord(a) * 31 + ord(b)) % self.dimension] += 1
        length = float(np.linalg.norm(row))
        return row / np.float32(length or 1)


def write_lexicon(folder: Path) -> Path:
    """Build the lexicon on disk."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "table.tsv").write_text(TABLE, "utf-8")
    build_lexicon([folder / "table.tsv"], folder / "small.lexicon")
    return folder / "small.lexicon"


def open_lexicon(folder: Path) -> Lexicon:
    """Build and open it."""
    return Lexicon.open(write_lexicon(folder))
