"""One figure: drawn with matplotlib, without a screen, with readable Korean.

malmoi ships a font with every Hangul syllable, so that no figure is full of empty boxes; fonts of
the system are used for what it lacks, Chinese characters for example.
"""

import contextlib
import functools
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..errors import OptionError, require
from ..io.files import writing

logger = logging.getLogger(__name__)

FONT = "Malmoi Gothic"
# Fonts with Hanja that come with Linux, macOS and Windows, or are free to install.
SYSTEM_FONTS = (
    "Pretendard",
    "Noto Sans CJK KR",
    "Noto Sans KR",
    "NanumGothic",
    "NanumBarunGothic",
    "Nanum Gothic",
    "Apple SD Gothic Neo",
    "AppleGothic",
    "Malgun Gothic",
    "Source Han Sans KR",
    "UnDotum",
    "Baekmuk Dotum",
    "Noto Serif CJK KR",
    "Batang",
)
ENDINGS = (".png", ".svg", ".pdf")


@functools.cache
def fonts() -> tuple[str, ...]:
    """The font families for figures: malmoi's own first, then those of the system."""
    manager = _matplotlib(".font_manager")
    manager.fontManager.addfont(Path(__file__).parent / "font/MalmoiGothic.ttf")
    installed = set(manager.get_font_names())
    return (FONT, *(name for name in SYSTEM_FONTS if name in installed), "DejaVu Sans")


def label(text: str) -> str:
    """Make any text safe to draw: on one line, and not read as mathematics.

    >>> label("값 $1\\n")
    '값 \\\\$1'
    """
    return " ".join(text.split()).replace("$", r"\$")


def short(text: str, length: int = 40) -> str:
    """Cut a text for a label.

    >>> short("가나다라마", 3)
    '가나…'
    """
    return text if len(text) <= length else text[: length - 1] + "…"


@contextlib.contextmanager
def drawing(path: str | Path) -> Iterator[Any]:
    """Give a new figure to draw on, which is then written as .png, .svg or .pdf."""
    path = Path(path)
    check_figure(path)
    # A Figure without pyplot needs no screen and leaves no global state.
    matplotlib, figures = _matplotlib(""), _matplotlib(".figure")
    # The minus sign of Unicode is missing from many Korean fonts; the hyphen is in all.
    look = {"font.family": list(fonts()), "svg.fonttype": "path", "axes.unicode_minus": False}
    with matplotlib.rc_context(look):
        figure = figures.Figure(layout="constrained")
        yield figure
        drawn = io.BytesIO()
        with warnings.catch_warnings():  # letters beyond any font are boxes, not an error
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            figure.savefig(drawn, format=path.suffix.lower()[1:], dpi=150)
    with writing(path) as file:
        file.write(drawn.getvalue())
    logger.info(f"wrote {path}")


def save_figure(path: str | Path, draw: Callable[[Any, Callable[[str], str]], None]) -> None:
    """Draw on a new figure and write it: `draw` gets the figure, and `label` for its texts."""
    with drawing(path) as figure:
        draw(figure, label)


def check_figure(path: Path) -> None:
    """Raise if a figure cannot be written there; to be called before a long run."""
    if path.suffix.lower() not in ENDINGS:
        raise OptionError(
            f"{path.name} ends in {path.suffix or 'nothing'}; known are {', '.join(ENDINGS)}. "
            "Choose one of these endings."
        )
    _matplotlib("")


def _matplotlib(module: str) -> Any:
    return require(f"matplotlib{module}", extra="plots", purpose="drawing a figure")
