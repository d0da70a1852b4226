"""One call for every task: a model, a file, a Report."""

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bundle.manifest import sha256
from ..errors import OptionError
from . import (
    bootstrap,
    linking,
    mentions,
    nli,
    notes,
    pairs,
    rerank,
    retrieval,
    searches,
    senses,
    sts,
    tagging,
    transfer,
)
from .examples import ExampleSource, Roles
from .models import name_of
from .probes import FOLDS
from .report import Outcome, Report, make_report

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """What tasks can be told; each uses what concerns it.

    All: `columns`, `sides` and `strict` (see `read_examples`). retrieval and rerank: `ks`,
    `documents` (a file of more texts to search among), and the prompts of an encoder that reads
    queries and documents differently. rerank: the `encoder` that proposes, and how many, `top`.
    nli and transfer: `train`, a file for the probe, or the number of `folds`; senses: `train`, a
    file to find thresholds on. linking: the `lexicon` to link to, the `types` of mentions to
    keep, and a file for the `errors`.
    """

    columns: Roles | None = None
    sides: str | None = None
    strict: bool = False
    ks: tuple[int, ...] = retrieval.KS
    documents: str | Path | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    encoder: object | None = None
    top: int = rerank.TOP
    train: str | Path | None = None
    folds: int = FOLDS
    lexicon: str | Path | None = None
    types: tuple[str, ...] = ()
    errors: str | Path | None = None
    seed: int = 0


@dataclass(frozen=True)
class _Ready:
    """A task with its file read: what to do with a model, and what to say of the settings."""

    source: ExampleSource
    measure: Callable[[object], Outcome]
    settings: Mapping[str, Any]
    # What the report compares with beside the models that were named.
    others: Callable[[], list[tuple[str, Outcome]]] = list


def evaluate(
    model: object,
    task: str,
    data: str | Path,
    *,
    against: Sequence[object] = (),
    settings: Settings | None = None,
    rounds: int = bootstrap.ROUNDS,
) -> Report:
    """Measure a model by a task on a file, and compare it with others on the same rows.

    `model` and those of `against` are anything with `encode(texts)` or `score(pairs)`. `rounds`
    of bootstrap give the intervals and say whether a difference is significant; 0 leaves both
    out.
    """
    if task not in TASKS:
        raise OptionError(f"task is {task!r}; known are {', '.join(TASKS)}. Choose one of these.")
    settings = settings or Settings()
    ready = TASKS[task](data, settings)
    ours = ready.measure(model)
    name, *names = _distinct([name_of(one) for one in (model, *against)])
    theirs = [(title, ready.measure(other)) for title, other in zip(names, against, strict=True)]
    report = make_report(
        task,
        name,
        ours,
        ready.source,
        against=[*ready.others(), *theirs],
        settings=ready.settings,
        rounds=rounds,
        seed=settings.seed,
    )
    for note in report.notes:
        logger.info(note)
    return report


def _distinct(names: Sequence[str]) -> list[str]:
    """Number names that come again, so that a table's rows can be told apart.

    >>> _distinct(["small", "large", "small"])
    ['small', 'large', 'small (2)']
    """
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def _read_options(settings: Settings) -> dict[str, Any]:
    return {
        "columns": settings.columns,
        "sides": settings.sides,
        "strict": settings.strict,
    }


def _sts(data: str | Path, settings: Settings) -> _Ready:
    examples = sts.read(data, **_read_options(settings))
    return _Ready(examples.source, lambda model: sts.measure(model, examples.rows), {})


def _pairs(data: str | Path, settings: Settings) -> _Ready:
    examples = pairs.read(data, **_read_options(settings))
    return _Ready(examples.source, lambda model: pairs.measure(model, examples.rows), {})


def _searches(data: str | Path, settings: Settings) -> tuple[searches.Searches, ExampleSource]:
    found, source = searches.read(data, documents=settings.documents, **_read_options(settings))
    prompted = dataclasses.replace(
        found, query_prompt=settings.query_prompt, document_prompt=settings.document_prompt
    )
    return prompted, source


def _retrieval(data: str | Path, settings: Settings) -> _Ready:
    found, source = _searches(data, settings)

    def measure(model: object) -> Outcome:
        return retrieval.measure(model, found, ks=settings.ks)

    return _Ready(source, measure, {"ks": list(settings.ks)})


def _rerank(data: str | Path, settings: Settings) -> _Ready:
    encoder = settings.encoder
    if encoder is None:
        raise OptionError(
            "no encoder was named; expected one that proposes what is to be reranked. "
            "Name it with --encoder."
        )
    found, source = _searches(data, settings)
    before: list[Outcome] = []

    def measure(model: object) -> Outcome:
        after, own = rerank.measure(model, encoder, found, top=settings.top, ks=settings.ks)
        before[:] = [own]
        return after

    shown = {"ks": list(settings.ks), "top": settings.top, "encoder": name_of(encoder)}
    return _Ready(
        source, measure, shown, lambda: [(f"{name_of(encoder)} alone", own) for own in before]
    )


def _probing(module: Any) -> Callable[[str | Path, Settings], _Ready]:
    """The task of a module whose probe is cross-validated or fitted on a file of its own."""

    def ready(data: str | Path, settings: Settings) -> _Ready:
        examples = module.read(data, **_read_options(settings))
        train = None
        if settings.train is not None:
            train = module.read(settings.train, **_read_options(settings))

        def measure(model: object) -> Outcome:
            rows = train.rows if train else None
            outcome: Outcome = module.measure(
                model, examples.rows, train=rows, folds=settings.folds, seed=settings.seed
            )
            return outcome

        shown = {"train": train.source.sha256} if train else {"folds": settings.folds}
        return _Ready(examples.source, measure, shown)

    return ready


def _linking(data: str | Path, settings: Settings) -> _Ready:
    if settings.lexicon is None:
        raise OptionError(
            "no lexicon was named; expected one to link to. Name it with --lexicon, or make one "
            "with: malmoi lexicon build"
        )
    cases, source = mentions.read(
        data, columns=settings.columns, types=settings.types, strict=settings.strict
    )
    task = linking.LinkingTask(settings.lexicon, cases, settings.ks, settings.errors)
    shown = {"ks": list(settings.ks), "lexicon": task.lexicon.identity}
    return _Ready(source, task.measure, shown, lambda: [("spelling alone", task.spelling())])


def _tagging(data: str | Path, settings: Settings) -> _Ready:
    texts = tagging.read(data, strict=settings.strict)
    source = ExampleSource(Path(data).name, sha256(Path(data)), len(texts), {})
    return _Ready(source, lambda model: tagging.measure(model, texts), {})


def _notes(data: str | Path, settings: Settings) -> _Ready:
    columns = dict(settings.columns or {"text": "text", "label": "label"})
    source = notes.describe(data, columns, strict=settings.strict)
    rules: list[tuple[str, Outcome]] = []

    def measure(model: object) -> Outcome:
        own, others = notes.measure(model, data, columns)
        rules[:] = rules or others
        return own

    return _Ready(source, measure, {}, lambda: rules)


TASKS: dict[str, Callable[[str | Path, Settings], _Ready]] = {
    "sts": _sts,
    "pairs": _pairs,
    "retrieval": _retrieval,
    "rerank": _rerank,
    "nli": _probing(nli),
    "transfer": _probing(transfer),
    "senses": _probing(senses),
    "tagging": _tagging,
    "linking": _linking,
    "notes": _notes,
}
