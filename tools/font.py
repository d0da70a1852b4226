"""Make the small Korean font that figures are drawn with: Hangul and Latin out of NanumGothic.

    python tools/font.py NanumGothic.ttf src/malmoi/mining/font/MalmoiGothic.ttf

The SIL Open Font License reserves the name Nanum to the original, so the subset has one of its own.
"""

import sys

from fontTools import subset
from fontTools.ttLib import TTFont

FAMILY = "Malmoi Gothic"


def letters() -> list[int]:
    """ASCII, Latin-1, dashes and quotes, jamo, and all 11,172 syllables."""
    found = [
        *range(0x20, 0x7F),
        *range(0xA0, 0x100),
        *range(0x2010, 0x2027),
        *range(0x3131, 0x3164),
    ]
    found += [0x2190, 0x2192, 0x2212, 0x2248, 0x2260, 0x2264, 0x2265, 0x20A9, 0x300C, 0x300D]
    found += range(0xAC00, 0xD7A4)
    return found


def main(source: str, out: str) -> None:
    """Subset, rename and write the font."""
    font = TTFont(source)
    options = subset.Options(
        hinting=False, layout_features=[], name_IDs=[0, 1, 2, 3, 4, 5, 6, 13, 14]
    )
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=letters())
    cutter.subset(font)
    licence = "This Font Software is licensed under the SIL Open Font License, Version 1.1."
    for record in list(font["name"].names):
        if record.nameID == 13:
            font["name"].setName(licence, 13, record.platformID, record.platEncID, record.langID)
        if record.nameID in (1, 3, 4, 6):
            text = FAMILY if record.nameID != 6 else FAMILY.replace(" ", "")
            font["name"].setName(
                text, record.nameID, record.platformID, record.platEncID, record.langID
            )
    font.save(out)


if __name__ == "__main__":
    main(*sys.argv[1:3])
