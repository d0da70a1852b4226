"""What a distillation recipe must keep to; the first slip is one clear line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import OptionError
from ..recipe import LAYERS, TASKS, check_clean, check_evaluations, check_seed
from ..recipe import PRECISIONS as BUNDLES
from ..toml_table import read_table, unknown_key
from .recipe import (
    INITS,
    METHODS,
    PRECISIONS,
    STARTS,
    WORDS,
    Distillation,
    HeldRows,
    LessonRecipe,
    Parallel,
    StageSchedule,
    Tune,
)


@dataclass(frozen=True)
class Kind:
    """A kind of task: the columns it needs, those it may have, its usual batch."""

    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    size: int = 64


KINDS = {
    "scores": Kind(("left", "right", "score"), size=40),
    "pairs": Kind(("a", "b"), ("label", "key")),
    "groups": Kind(("group", "text")),
    "senses": Kind(("a", "b"), ("same", "target", "sense_a", "sense_b"), size=26),
    "names": Kind(("name",), ("concept", "synonym"), size=64),
    "translations": Kind(size=96),
    "likeness": Kind(size=48),
    "neighbours": Kind(size=36),
    "links": Kind(size=80),
    "swaps": Kind(size=48),
    "teacher": Kind(),
}


def make_distillation(table: dict[str, Any], *, where: str = "the recipe") -> Distillation:
    """Make a distillation recipe from parsed TOML, and check it."""
    recipe = read_table(Distillation, table, where=where)
    check_seed(recipe.seed, where=where)
    check_evaluations(recipe.evaluation, where=where)
    check_clean(recipe.clean, where=where)
    try:
        _check(recipe)
        for i, entry in enumerate(recipe.parallel):
            _check_parallel(entry, f"parallel[{i}]")
        for i, task in enumerate(recipe.task):
            _check_task(recipe, task, f"task[{i}]")
        _check_learning(recipe.distil, "distil")
        for i, stage in enumerate(recipe.tune):
            _check_tune(recipe, stage, f"tune[{i}]")
            _check_mix(stage.mix, i, f"tune[{i}].mix")
        _check_mix(recipe.mix, len(recipe.tune), "mix")
    except OptionError as error:
        raise OptionError(f"{where}: {error}") from error
    return recipe


def _check(recipe: Distillation) -> None:
    _choose(recipe.precision, PRECISIONS, "precision")
    _choose(recipe.align.method, METHODS, "align.method")
    _choose(recipe.output.layers, LAYERS, "output.layers")
    for precision in recipe.output.precision:
        _choose(precision, BUNDLES, "output.precision")
    for i, measure in enumerate(recipe.evaluation):
        _choose(measure.task, TASKS["encoder"], f"evaluation[{i}].task")
    if not recipe.parallel or not any(entry.weight for entry in recipe.parallel):
        raise OptionError("no [[parallel]] has a weight; expected one or more. Add one.")
    if recipe.tune and not recipe.task:
        raise OptionError("[[tune]] has no [[task]] to learn; expected one or more. Add one.")
    _distinct([entry.title for entry in recipe.parallel], "[[parallel]]")
    _distinct([task.title for task in recipe.task], "[[task]]")
    align = recipe.align
    for key, value in (
        *((f"matryoshka[{i}]", size) for i, size in enumerate(recipe.matryoshka)),
        ("align.epochs", align.epochs),
        ("align.learning_rate", align.learning_rate),
        ("align.batch", align.batch),
        ("align.longest", align.longest),
        ("align.rounds", align.rounds),
        ("distil.tokens", recipe.distil.tokens),
        ("distil.temperature", recipe.distil.temperature),
        ("held_out.pairs", recipe.held_out.pairs if recipe.held_out else 1),
    ):
        _above(key, value)
    _share("distil.source_share", recipe.distil.source_share)
    if recipe.vocabulary:
        _check_vocabulary(recipe)


def _check_vocabulary(recipe: Distillation) -> None:
    vocabulary = recipe.vocabulary
    assert vocabulary is not None
    _choose(vocabulary.init, INITS, "vocabulary.init")
    _choose(vocabulary.words, WORDS, "vocabulary.words")
    _above("vocabulary.size", vocabulary.size)
    _above("vocabulary.fewest", vocabulary.fewest)
    try:
        re.compile(vocabulary.reuse)
    except re.error as error:
        raise OptionError(
            f"vocabulary.reuse is no pattern ({error}); expected a regular expression. Mend it."
        ) from error
    for kind in ("text", "terms"):
        for i, entry in enumerate(getattr(vocabulary, kind)):
            key = f"vocabulary.{kind}[{i}]"
            _filled(entry.files, f"{key}.files")
            _filled(entry.columns, f"{key}.columns")
            _check_held(entry.held_out, key)
            _above(f"{key}.weight", entry.weight)


def _check_parallel(entry: Parallel, key: str) -> None:
    _filled(entry.files, f"{key}.files")
    _filled(entry.source, f"{key}.source")
    _check_held(entry.held_out, key)
    if len(entry.source) != len(entry.target):
        raise OptionError(
            f"{key} has {len(entry.source)} source and {len(entry.target)} target columns; "
            "expected as many. Name them in pairs."
        )
    for name in ("weight", "align", "pieces", "limit"):
        if getattr(entry, name) < 0:
            raise OptionError(f"{key}.{name} is below 0; expected 0 or more. Correct it.")
    if entry.words is not None and not 0 <= entry.words[0] <= entry.words[1]:
        raise OptionError(f"{key}.words is {list(entry.words)}; expected [fewest, most].")


def _check_task(recipe: Distillation, task: LessonRecipe, key: str) -> None:
    _choose(task.kind, tuple(KINDS), f"{key}.kind")
    kind = KINDS[task.kind]
    known = (*kind.needed, *kind.optional)
    for name, value in task.columns.items():
        if name not in known:
            raise unknown_key(name, list(known), f"{key}.columns of {task.kind}")
        _check_column(task, name, value, f"{key}.columns.{name}")
    for name in kind.needed:
        if name not in task.columns:
            raise OptionError(
                f"{key}.columns has no {name}; {task.kind} reads {', '.join(known)}. Add it."
            )
    if kind.needed:
        _filled(task.files, f"{key}.files")
    for i, more in enumerate(task.also):
        _filled(more.files, f"{key}.also[{i}].files")
        _check_held(more.held_out, f"{key}.also[{i}]")
        if set(more.columns) != set(task.columns):
            raise OptionError(
                f"{key}.also[{i}].columns names {', '.join(more.columns) or 'nothing'}; expected "
                f"the task's {', '.join(task.columns) or 'files to have columns'}. Correct it."
            )
    if "label" in task.columns and not task.positive:
        raise OptionError(f"{key} has a label and no positive; expected its value. Add the key.")
    _check_words(task, key)
    for name in (*task.parallel, *task.draws):
        if name not in (titles := [entry.title for entry in recipe.parallel]):
            raise unknown_key(name, titles, f"{key}.parallel")
    _check_held(task.held_out, key)
    for name in ("run", "tokens", "highest"):
        _above(f"{key}.{name}", getattr(task, name))
    for name in ("source_share", "teacher_share", "drop", "mixed", "dropped"):
        _share(f"{key}.{name}", getattr(task, name))
    if task.weight < 0 or task.size < 0 or task.most < 0:
        raise OptionError(f"{key} has a weight, size or most below 0; expected 0 or more. Mend it.")


def _check_words(task: LessonRecipe, key: str) -> None:
    """Check columns of which a task needs one or the other."""
    senses = ("target" in task.columns, "sense_a" in task.columns, "sense_b" in task.columns)
    if task.kind == "senses" and not ("same" in task.columns or all(senses)):
        raise OptionError(
            f"{key}.columns says nothing of the senses; expected same, or target, sense_a and "
            "sense_b. Add them."
        )
    if task.kind == "names" and not {"concept", "synonym"} & set(task.columns):
        raise OptionError(f"{key}.columns has no concept and no synonym; expected one. Add it.")
    for name in ("each", "near"):
        if getattr(task, name) < 2:
            raise OptionError(f"{key}.{name} is {getattr(task, name)}; expected 2 or more.")


def _check_column(task: LessonRecipe, name: str, value: object, key: str) -> None:
    several = task.kind == "scores" and name in ("left", "right")
    if isinstance(value, str):
        return
    if not several or not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        expected = "a column or a list of them" if several else "a column's name"
        raise OptionError(f"{key} is {value!r}; expected {expected}. Correct it.")


def _check_learning(stage: StageSchedule, key: str) -> None:
    if not stage.steps and not stage.minutes:
        raise OptionError(f"{key} has neither steps nor minutes; expected one. Add a key.")
    for name in ("steps", "minutes", "frozen_layers", "old_rows", "new_rows", "weight_decay"):
        if getattr(stage, name) < 0:
            raise OptionError(f"{key}.{name} is below 0; expected 0 or more. Correct it.")
    for name in ("learning_rate", "clip", "longest"):
        _above(f"{key}.{name}", getattr(stage, name))
    for name in ("warmup", "floor", "average"):
        _share(f"{key}.{name}", getattr(stage, name))


def _check_tune(recipe: Distillation, stage: Tune, key: str) -> None:
    _check_learning(stage, key)
    # A stage hands on the layers that moved in it; the others must be the base's in all stages.
    if stage.frozen_layers != recipe.distil.frozen_layers:
        raise OptionError(
            f"{key}.frozen_layers is {stage.frozen_layers} and that of distil "
            f"{recipe.distil.frozen_layers}; expected the same in every stage. Correct it."
        )
    _choose(stage.start, STARTS, f"{key}.start")
    _share(f"{key}.dropout", stage.dropout)
    _above(f"{key}.together", stage.together)
    titles = [task.title for task in recipe.task]
    turns = [name for names in stage.turns for name in names if name]
    for name in (*stage.weights, *stage.sizes, *stage.factors, *stage.lead, *turns):
        if name not in titles:
            raise unknown_key(name, titles, f"{key} names a task")
    weights = [stage.weights.get(task.title, task.weight) for task in recipe.task]
    if min(weights) < 0 or not (any(weights) or stage.lead or turns):
        raise OptionError(f"{key}: no task has a weight above 0; expected one. Correct them.")
    for name, size in stage.sizes.items():
        _above(f"{key}.sizes.{name}", size)


def _check_mix(mix: dict[str, float], tunes: int, key: str) -> None:
    known = ["distil", *(f"tune-{number}" for number in range(1, tunes + 1))]
    for name in mix:
        if name not in known:
            raise unknown_key(name, known, key)
    # One share may be below 0: a little beyond the last stage, away from the one before.
    if mix and not sum(mix.values()) > 0:
        raise OptionError(f"the shares of {key} add up to 0 or less; expected more. Correct them.")


def _check_held(held: HeldRows | None, key: str) -> None:
    if held is not None and held.one_in < 2:
        raise OptionError(f"{key}.held_out.one_in is {held.one_in}; expected 2 or more.")


def _distinct(titles: list[str], key: str) -> None:
    for title in titles:
        if titles.count(title) > 1:
            raise OptionError(
                f"two {key} are called {title}; expected a name for each. Add the key name to one."
            )


def _filled(value: Sequence[str], key: str) -> None:
    if not value:
        raise OptionError(f"{key} is empty; expected one name or more. Add one.")


def _above(key: str, value: float) -> None:
    if not value > 0:
        raise OptionError(f"{key} is {value}; expected more than 0. Correct it.")


def _share(key: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise OptionError(f"{key} is {value}; expected 0 to 1. Correct it.")


def _choose(value: str, known: tuple[str, ...], key: str) -> None:
    if value not in known:
        raise OptionError(f'{key} is "{value}"; known are {", ".join(known)}. Choose one.')
