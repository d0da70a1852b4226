"""docs/results.md and its Korean twin, made from bench/results: `python bench/run.py --page`.

A claim names the command that measures it; the page shows the newest record of that command. A
claim with several commands puts their figures into one table, with the label of each in its
columns. Small claims share one table, a row each.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.common import ROOT, Row

RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "results.md"
KOREAN_PAGE = ROOT / "docs" / "results.ko.md"
TITLES = ROOT / "bench" / "results.ko.tsv"
LONGEST = 215  # lines
Record = dict[str, Any]
RUN = "python bench/run.py "
UNITS = ("s", "ms", "core ms", "MB", "MiB", "GiB", "%")


@dataclass(frozen=True)
class Claim:
    """A table of the page: its title and its commands by label.

    `columns` are the columns to show, the rows' own heading first; all if none are named. `most`
    ends the table after so many rows. `small` makes the claim a row of the table of small claims.
    """

    title: str
    commands: dict[str, str] | str
    columns: Sequence[str] = ()
    most: int | None = None
    small: bool = False

    def by_label(self) -> dict[str, str]:
        return {"": self.commands} if isinstance(self.commands, str) else self.commands

    def rows(self, record: Record) -> list[Row]:
        """The rows of a record with the columns that are shown, without those that have none."""
        figures: list[Row] = record["figures"][: self.most]
        if not self.columns:
            return figures
        cut = [{key: row[key] for key in self.columns if key in row} for row in figures]
        return [row for row in cut if len(row) > 1]


_QUALITY = (
    "search_quality --data {} --half test --queries 2000 --reranker none "
    "--words morphemes,word-morphemes"
)
_TAGGING = (
    "malmoi train recipes/{0}.toml --data DATA --set schedule.bf16=true; "
    "malmoi evaluate runs/{0}/bundle --task tagging --data ner/{0}-test.tsv"
)
_STS = "--data sts/korsts-dev.tsv|sts/korsts-test.tsv --sides "
_UNKNOWN = (
    "unknown notes/korean-drug-leaflets.txt terms/kcd9.tsv terms/drugs.tsv "
    "sts/klue-sts-train.tsv --model ko-en-small"
)
CLAIMS = [
    Claim(
        "Encoding on the weights of all-MiniLM-L6-v2",
        RUN + "speed --rounds 15",
        columns=(
            "way",
            *("sentences/s", "× sentences"),
            *("200-token paragraphs/s", "× 200-token paragraphs"),
            *("one sentence, ms", "× one sentence"),
        ),
    ),
    Claim("The same on one thread, by processor time", RUN + "one_core", small=True),
    Claim("Process start to the first vector; what is installed", RUN + "start --rounds 3"),
    Claim("Memory while a million lines are encoded (int8)", RUN + "memory", small=True),
    Claim("The same vectors as sentence-transformers", RUN + "same_vectors", small=True),
    Claim(
        "The static model's speed",
        RUN + "static_speed ko-en-small ko-en-static",
        columns=("way", "sentences/s", "×"),
        small=True,
    ),
    Claim("Rerankers next to CrossEncoder", RUN + "rerank_speed", columns=("way", "×"), small=True),
    Claim(
        "Exported architectures next to sentence-transformers (random weights, but minilm's and "
        "ko-en-small's)",
        RUN + "architectures",
        columns=(
            *("architecture", "float32: largest difference", "int8: least cosine"),
            *("float16: least cosine", "float32, MB", "int8, MB"),
            *("float32, core s", "int8, core s", "float32, peak MiB", "int8, peak MiB"),
            *("float32, × by processor time", "int8, × by processor time"),
            *("float32, refused", "int8, refused", "float16, refused"),
        ),
    ),
    Claim(
        "XLM-R large at the size of bge-m3 (random weights)",
        RUN + "architectures bge-m3 --precisions float32,int8",
        columns=(
            *("float32: largest difference", "int8: least cosine", "float32, peak MiB"),
            *("int8, peak MiB", "float32, × by the clock", "int8, × by the clock"),
        ),
        small=True,
    ),
    Claim(
        "The shipped models on STS (Spearman × 100)",
        RUN + "shipped --test",
        columns=(
            *("model", "MB", "KorSTS dev", "KorSTS test", "STS-B test"),
            *("Korean–English test", "English–Korean test"),
        ),
    ),
    Claim(
        "Models that people use for Korean, and their speed on one core",
        RUN + "peers --rounds 2 --sentences 64",
    ),
    Claim(
        "ko-en-small on other held-out parts",
        "watched while training by recipes/ko-en-small.toml",
        small=True,
    ),
    Claim("Korean with English nouns", RUN + "mixed --model ko-en-small", small=True),
    Claim(
        "Words the tokenizer does not know",
        RUN + _UNKNOWN,
        columns=("file", "lines", "lines with one", "after spelling", "words", "words after"),
        small=True,
    ),
    Claim(
        "Words in their sentence (KoBEST WiC)",
        "malmoi evaluate --task senses --data wic-dev.tsv --train wic-train.tsv --table",
        small=True,
    ),
    Claim("Training next to sentence-transformers", RUN + "train_throughput", small=True),
    Claim(
        "Sentence-BERT's lesson (Spearman × 100)",
        {"dev": RUN + "lesson --bf16", "test": RUN + "lesson --bf16 --test"},
        columns=("model", "KorSTS", "STS-B"),
        most=10,  # the steps' p values follow
    ),
    Claim(
        "Entities, exact (BioBERT: 88.3 and 86.4 on the first two test sets)",
        {
            "": _TAGGING.format("ncbi-disease"),
            " ": _TAGGING.format("bc5cdr-disease"),
            "  ": "malmoi train recipes/klue-ner.toml --data DATA --set schedule.bf16=true",
        },
    ),
    Claim(
        "Perplexity of hidden words in notes",
        "malmoi train recipes/notes-pretrain.toml --data DATA --set schedule.bf16=true",
        small=True,
    ),
    Claim(
        "Long notes by windows (MTSamples, test)",
        {
            what: f"malmoi train recipes/mtsamples-{what}.toml --data DATA --set schedule.bf16=true"
            for what in ("surgery", "specialties")
        },
        small=True,
    ),
    Claim(
        "Search among 932,000 vectors, one query at a time",
        RUN + "search_speed --count 932000 --queries 60",
    ),
    Claim(
        "The same with faiss, 200,000 vectors",
        RUN + "search_speed --count 200000 --queries 60 --faiss",
        small=True,
    ),
    Claim(
        "Graph or flat index (ms of processor time a query)",
        RUN + "search_graph --sizes 50000,100000,200000",
        columns=(
            *("rows", "exact, ms", "flat, ms", "graph, ms"),
            *("flat, recall", "graph, recall", "build, s", "graph, MB"),
        ),
    ),
    Claim(
        "Share of the true ten nearest that smaller vectors find",
        RUN + "search_sizes --count 50000 --queries 100",
        small=True,
    ),
    Claim(
        "What a search finds (nDCG@10, test half)",
        {
            "ParaKQC": RUN + _QUALITY.format("parakqc"),
            "chatbot": RUN + _QUALITY.format("chatbot"),
        },
        columns=("way", "ndcg@10", "ndcg@10 against dense"),
    ),
    Claim("A corpus of 932,000 documents", RUN + "corpus_cost --count 932000", small=True),
    Claim(
        "Answers, 831 steps on made questions (per cent)",
        RUN + "answers runs/bundle --questions runs/ko-qa-data --most 400",
        small=True,
    ),
    Claim(
        "A question over 1,000 documents",
        RUN + "answer_speed '…/bundle'",
        columns=("way", "questions", "processor p50, core ms"),
        small=True,
    ),
    Claim("Indexing next to encoding alone", RUN + "corpus_cost --rate 80000", small=True),
    Claim(
        "A million documents on one core",
        RUN + "scale_cost",
        columns=("stage", "measured on", "a core second", "MB a million", "a query, core ms"),
        small=True,
    ),
    Claim("Purity of clusters", RUN + "clusters", small=True),
    Claim(
        "Topics next to BERTopic on the same vectors, 600 texts",
        RUN + "topics",
        small=True,
    ),
    Claim(
        "Keywords next to KeyBERT on the same vectors",
        RUN + "keyword_quality",
        columns=("documents, way", "found", "part", "words"),
        small=True,
    ),
    Claim("The most similar pair of raw sentences", RUN + "mining pair", small=True),
    Claim("All pairs of a million vectors above 0.9", RUN + "mining million", small=True),
    Claim("Hard negatives among a million texts", RUN + "mining negatives", small=True),
    Claim("A lexicon of 400,000 names", RUN + "lexicon_size", small=True),
    Claim("Linking speed over KCD-9", RUN + "linking_speed --count 512 --rounds 3", small=True),
    Claim(
        "Linking to MEDIC (BioSyn with SapBERT: 92.4 and 93.5 at 1 on test)",
        {
            "": RUN + "linking_public --part test",
            " ": RUN + "linking_public --part devel",
        },
    ),
    Claim(
        "Linking across languages, codes held out", RUN + "linking_pairs --count 1000", small=True
    ),
    Claim(
        "Linking to KCD-9 by kind of mention (dev)",
        RUN + "linking_weights --count 400 --steps 0",
        columns=("kind", "at 1 / 5 / 10"),
        small=True,
    ),
    Claim(
        "What English notes say of marked mentions (malmoi's rules were worked on with them)",
        RUN + "notes_context --medspacy '…/python'",
        small=True,
    ),
    Claim("NIL decided", RUN + "linking_public --nil --spelling", small=True),
    Claim(
        "The server under 64 clients",
        RUN + "serve --seconds 30 --rounds 1",
        columns=(
            *("server", "requests/s", "malmoi is ×", "p50, ms", "p99, ms"),
            *("a lone client's p50, ms", "processor a request, ms", "errors"),
        ),
    ),
    Claim("Hostile requests", RUN + "serve_hostile", small=True),
    Claim(
        "Single bits flipped in files",
        RUN + "flips",
        small=True,
    ),
    Claim(
        "Everything at once: load, kills, limits",
        RUN + "soak --minutes 30",
        columns=(
            *("minutes", "requests", "5xx", "tracebacks", "right vectors", "wrong vectors"),
            *("documents acknowledged", "documents lost", "files acknowledged", "files lost"),
            *("faults of the corpus", "restarts"),
            *("of these on a read-only mount", "recovery, s", "recovery, s of processor"),
            "standstill by the clock, p99, ms",
            "standstill by the clock, most, ms",
            "standstill without waiting for a core, p99, ms",
            "standstill without waiting for a core, most, ms",
            "standstill work of the loop, p99, ms",
            "standstill work of the loop, most, ms",
            *("memory grew, ×", "memory grew, × at most"),
        ),
        small=True,
    ),
    Claim(
        "Writers and nodes killed again and again",
        {
            "SQLite": RUN + "corpus_kill --kills 400",
            "Milvus Lite": RUN + "milvus_kill",
            "a node of Ray": RUN + "ray_kill",
        },
        small=True,
    ),
    Claim("A corpus of more than two gigabytes", RUN + "large_corpus", small=True),
]


def records() -> list[Record]:
    """All records, the oldest first."""
    found = []
    for path in sorted(RESULTS.glob("*.jsonl")):
        found += [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return sorted(found, key=lambda record: record["date"])


def make(found: Iterable[Record]) -> str:
    """The page. Claims without a record are left out."""
    newest = {record["command"]: record for record in found}  # later ones replace earlier ones
    shown = {
        claim.title: {label: newest[c] for label, c in claim.by_label().items() if c in newest}
        for claim in CLAIMS
    }
    machines = Counter(_machine(r) for claim in shown.values() for r in claim.values())
    usual = machines.most_common(1)[0][0] if machines else ""
    lines = [*_head(usual), ""]
    small = [claim for claim in CLAIMS if claim.small and shown[claim.title]]
    for claim in CLAIMS:
        if not claim.small and shown[claim.title]:
            lines += [*_table(claim, shown[claim.title], usual), ""]
    if small:
        lines += ["## In one line each", "", "| claim | figures | measured by |", "|---|---|---|"]
    for claim in small:
        records = shown[claim.title]
        cells: dict[object, str] = {}  # a row that a later command measured again replaces it
        for label, record in records.items():
            for row in claim.rows(record):
                first = next(iter(row.values()))
                key = (label.strip(), first if isinstance(first, str) else len(cells))
                cells[key] = (f"{label}: " if label.strip() else "") + _inline(row)
        figures = "<br>".join(cells.values())
        origins = "<br>".join(_origin(record, usual) for record in records.values())
        origin = origins.replace("|", "\\|")
        lines.append(f"| {claim.title} | {figures} | {origin} |")
    return "\n".join(lines).rstrip() + "\n"


def in_korean(made: str) -> str:
    """The page with its headings in Korean; rows, columns, commands and figures stay."""
    titles = dict(line.split("\t") for line in TITLES.read_text("utf-8").splitlines()[1:])
    head, rest = made.split("\n\n## ", 1)
    machine = head.rpartition("Unless a line says otherwise: ")[2]
    lines = [KOREAN_HEAD.format(machine.replace(" cores of ", "코어, ").rstrip(".")), ""]
    for line in ("## " + rest).splitlines():
        if line.startswith("## "):
            line = "## " + titles.get(line[3:], line[3:])
        elif line.startswith("| "):
            title, *more = line[2:-2].split(" | ")
            if title == "claim":
                more = [titles[one] for one in more]
            line = "| " + " | ".join([titles.get(title, title), *more]) + " |"
        lines.append(line)
    return "\n".join(lines) + "\n"


KOREAN_HEAD = """# 결과

`python bench/run.py --page`가 `bench/results/`의 기록으로 만듭니다. 손으로 고치지 마십시오.
범위가 있는 수치는 중앙값과 그 회차의 최솟값·최댓값이거나, 값과 95 % 구간입니다. ×는 비율이고,
견주는 방법들은 한 번의 실행에서 번갈아 돕니다. 커밋은 잰 커밋이고, 이 쪽보다 오래된 수치는
기록한 커밋입니다. 제목만 한국어이고 행, 열, 명령, 수치는 [영어 쪽](results.md)과 같습니다.
까닭: [결정들](decisions/README.ko.md). 따로 적지 않았으면: {}."""


def _head(machine: str) -> Iterator[str]:
    yield "# Results"
    yield ""
    yield "Made by `python bench/run.py --page` from the records in `bench/results/`; do not edit."
    yield "A figure with a range is a median with the least and the greatest of its rounds, or a"
    yield "value with its 95 % interval. × is a ratio: the ways take turns in one run. The commit"
    yield "is the one that was measured; of figures older than this page, the one that recorded"
    yield "them. Reasons: [decisions](decisions/README.md)."
    yield f"Unless a line says otherwise: {machine}."


def _table(claim: Claim, found: dict[str, Record], usual: str) -> Iterator[str]:
    """The lines of a table, with its commands above it."""
    yield f"## {claim.title}"
    origins = [
        (f"{label}: " if label.strip() else "") + _origin(record, usual)
        for label, record in found.items()
    ]
    yield "<br>\n".join(origins)
    rows: dict[str, Row] = {}
    heading = ""
    for label, record in found.items():
        for row in claim.rows(record):
            (heading, name), *rest = row.items()
            labelled = {f"{key} {label}".rstrip(): value for key, value in rest}
            rows.setdefault(_figure(name), {}).update(labelled)
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    yield ""
    yield "| " + " | ".join([heading, *columns]) + " |"
    yield "|---" * (1 + len(columns)) + "|"
    for name, row in rows.items():
        yield "| " + " | ".join([name, *(_figure(row.get(key)) for key in columns)]) + " |"


def _inline(row: Row) -> str:
    """A row in a cell: what it is about, then each figure with its heading and unit."""
    said = [_with_unit(key, value) for key, value in row.items()]
    first = next(iter(row.values()))
    return f"{first}: {' · '.join(said[1:])}" if isinstance(first, str) else " · ".join(said)


def _with_unit(heading: str, value: object) -> str:
    """A figure as prose says it: "peak, GiB" of 1.4 is "peak 1.4 GiB"."""
    name, _, unit = heading.rpartition(", ")
    if heading == "×" or heading.startswith("× "):
        middle, _, around = _figure(value).partition(" ")
        return " ".join(filter(None, [f"{middle}×", around, heading[2:]]))
    if unit in UNITS:
        return " ".join(filter(None, [name, _figure(value), unit]))
    return (
        f"{_figure(value)} {heading}" if heading.endswith("/s") else f"{heading} {_figure(value)}"
    )


def _origin(record: Record, usual: str) -> str:
    """The command, the commit, the date, and what has to be known of the run."""
    command = record["command"]
    parts = [f"`{command}`" if command.startswith(("python", "malmoi")) else command]
    parts += [record["commit"], record["date"]]
    if _machine(record) != usual:
        parts.append(_machine(record))
    if "load" in record:
        parts.append(f"load {record['load']['before'][0]} → {record['load']['after'][0]}")
    return " · ".join([*parts, *filter(None, [record.get("note")])])


def _machine(record: Record) -> str:
    return f"{record['machine']['cores']} cores of {record['machine']['cpu']}"


def _figure(value: object) -> str:
    """A figure as the page shows it: thousands apart, a list of three as value and range."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}".replace("-", "−")
    if isinstance(value, list) and len(value) == 3:
        middle, low, high = map(_figure, value)
        return f"{middle} [{low}–{high}]"
    return ", ".join(map(_figure, value)) if isinstance(value, list) else str(value)
