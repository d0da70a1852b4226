"""Write src/malmoi/data/hanja.tsv: every hanja by its Korean reading, from Unicode's Unihan.

    python tools/hanja_readings.py Unihan_Readings.txt

The file is in Unihan.zip of the Unicode Character Database (kHangul; Unicode License v3). Of
several readings the one taught at school is taken, else the first.
"""

import sys
from collections import defaultdict
from pathlib import Path

OUT = Path(__file__).parents[1] / "src/malmoi/data/hanja.tsv"


def main(path: str) -> None:
    """Read kHangul, and write a line a reading."""
    found: dict[str, str] = defaultdict(str)
    for line in Path(path).read_text("utf-8").splitlines():
        code, _, rest = line.partition("\tkHangul\t")
        if rest:
            readings = [one.partition(":") for one in rest.split()]
            taught = [syllable for syllable, _, source in readings if "E" in source]
            found[(taught or [readings[0][0]])[0]] += chr(int(code[2:], 16))
    lines = [f"{syllable}\t{''.join(sorted(hanja))}" for syllable, hanja in sorted(found.items())]
    OUT.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
