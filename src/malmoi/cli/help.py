"""Help for people: commands in groups, an example each, and Korean where the reader's language is.

English is what the commands say themselves. `korean.tsv` holds the sentences in Korean: a test
fails where one is missing. MALMOI_LANG (ko or en) decides, or else the locale.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_PANELS = {
    "Vectors and similarity": "encode similarity words vocabulary terms compare",
    "Documents and search": "index search rerank answer corpus",
    "Clinical text": "link redact lexicon",
    "What texts are about": "keywords cluster mine classify tag",
    "Make and measure models": "train evaluate export negatives info",
    "Serve": "serve key mcp",
}
PANELS = {name: panel for panel, names in _PANELS.items() for name in names.split()}

EXAMPLES = {
    "encode": "malmoi encode notes.txt --out notes.npy",
    "similarity": 'malmoi similarity "고양이가 잔다" "The cat sleeps" --calibrated --table',
    "words": 'malmoi words "배를 탔다" "배가 달다" --word 배 --layers 3 --table',
    "vocabulary": "malmoi vocabulary ko-en-small --grep ^배",
    "terms": "malmoi terms 당뇨병 --among sample -k 5 --table",
    "index": "malmoi index docs.db reports/ --include '*.pdf'",
    "search": 'malmoi search docs.db "환불 규정" --rerank --within 200ms --table',
    "link": 'malmoi link sample "DM nephropathy" --table',
    "redact": "malmoi redact notes/ --out hidden/",
    "rerank": 'malmoi rerank "환불 규정" answers.txt -k 3 --table',
    "compare": 'malmoi compare runs/nli/bundle "비가 온다" "땅이 젖는다"',
    "tag": 'malmoi tag runs/ncbi-disease/bundle "Familial adenomatous polyposis" --table',
    "answer": 'malmoi answer runs/ko-qa/bundle "복용 간격은?" leaflet.pdf',
    "train": "malmoi train recipes/sts-cosent.toml --data DATA --set schedule.epochs=2",
    "evaluate": "malmoi evaluate ko-en-small --task sts --data sts.tsv --table",
    "classify": "malmoi classify runs/readmission/bundle note.txt --windows 3",
    "keywords": "malmoi keywords report.txt --top 5 --table",
    "cluster": "malmoi cluster answers.txt --map topics.html --table",
    "mine": "malmoi mine korean.txt english.txt --table",
    "negatives": "malmoi negatives pairs.tsv --out mined.tsv",
    "export": "malmoi export klue/bert-base my-encoder --pooling mean --precision int8",
    "info": "malmoi info ko-en-small",
    "serve": "malmoi serve --corpus docs.db --port 8080",
    "key": "malmoi key reader --file keys.json",
    "mcp": "malmoi mcp --corpus docs.db",
}


def language(environment: Mapping[str, str] = os.environ) -> str:
    """The language of help, "ko" or "en".

    >>> language({"LANG": "ko_KR.UTF-8"}), language({"LANG": "ko_KR.UTF-8", "MALMOI_LANG": "en"})
    ('ko', 'en')
    """
    for name in ("MALMOI_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environment.get(name, ""):
            return "ko" if value.lower().startswith("ko") else "en"
    return "en"


def example_of(name: str) -> str | None:
    """A command's example as the last line of its help."""
    return f"Example: {EXAMPLES[name]}" if name in EXAMPLES else None


def read_korean() -> dict[str, str]:
    """The sentences of help in Korean, by their English ones."""
    lines = (Path(__file__).parent / "korean.tsv").read_text("utf-8").splitlines()[1:]
    pairs = (line.partition("	") for line in lines)
    return {english: korean for english, _, korean in pairs}


def translate(command: Any, korean: Mapping[str, str] | None = None) -> Any:
    """Put the help of a command, its options and all commands below it into Korean."""
    table = read_korean() if korean is None else korean
    parts = (command.help or "").split("\n\n")
    command.help = "\n\n".join(table.get(" ".join(part.split()), part) for part in parts)
    if command.epilog:
        command.epilog = command.epilog.replace("Example:", table.get("Example:", "Example:"))
    panel = getattr(command, "rich_help_panel", None)
    if isinstance(panel, str):
        command.rich_help_panel = table.get(panel, panel)
    for option in command.params:
        _translate_option(option, table)
    own = command.get_help_option  # made anew where help is shown
    command.get_help_option = lambda context: _translate_option(own(context), table)
    shown = command.format_help
    command.format_help = lambda *arguments: _whole_words(shown, *arguments)
    for below in getattr(command, "commands", {}).values():
        translate(below, table)
    return command


def _whole_words(show: Callable[..., None], *arguments: object) -> None:
    """Show help whose wide letters are counted as two cells where lines end.

    rich counts letters there: of a line of Hangul that fits but for the space at its end it cuts
    the last letters and writes "…".
    """
    from rich.text import Text

    def strip_end(text: Text, size: int) -> None:
        blank = len(text.plain) - len(text.plain.rstrip())
        if (excess := min(blank, text.cell_len - size)) > 0:
            text.right_crop(excess)

    own = Text.rstrip_end
    Text.rstrip_end = strip_end  # type: ignore[method-assign, assignment]
    try:
        show(*arguments)
    finally:
        Text.rstrip_end = own  # type: ignore[method-assign]


def _translate_option(option: Any, table: Mapping[str, str]) -> Any:
    if (said := getattr(option, "help", None)) is not None:
        option.help = table.get(said, said)
        title = f"{option.param_type_name.capitalize()}s"  # Arguments, Options
        option.rich_help_panel = getattr(option, "rich_help_panel", None) or table.get(title)
    return option
