"""The recipes of encoders, rerankers, taggers, classifiers and of pretraining, key by key."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator
from pydantic import model_validator as check

from ...bundle.manifest import POOLINGS
from ...errors import OptionError
from ..objective import Objective, find_objective
from ..schema import (
    CLEAN,
    SEED,
    AboveZero,
    BaseRecipe,
    CleanSteps,
    Count,
    Dimensions,
    Evaluation,
    Many,
    Names,
    Output,
    PairSchedule,
    PartShare,
    Positive,
    RecipeTable,
    Schedule,
    Seed,
    Share,
    Two,
    check_titles,
    key,
    needed,
)

RERANKER_TASKS = ("sts", "pairs", "nli")
InnerShare = Annotated[float, Field(gt=0, lt=1)]
Shares = dict[Literal["dev", "test"], InnerShare]


class Negatives(RecipeTable):
    """negatives: files of what is confused and is not the same."""

    files: Names = needed("The files, under the data root.", min_length=1)
    columns: dict[str, str] = needed("The columns a and b, each a concept or a name.")
    where: dict[str, str] = key({}, "Use only the rows with these values, by column.")


class Data(RecipeTable):
    """[[data]]: files of one form, and what is learnt from them."""

    files: Names = needed("The files (.tsv, .csv, .jsonl), under the data root.", min_length=1)
    columns: dict[str, str] = needed("The files' columns by role: a, b, negative, score, label …")
    objective: str = key("", "What is learnt; the recipe's own objective when left out.")
    range: Two[float] | None = key(None, "The lowest and highest score; 0 and 1 when left out.")
    labels: Names = key((), "The classes in order; found in the files when left out.")
    where: dict[str, str] = key({}, "Use only the rows with these values, by column.")
    without: dict[str, Names] = key({}, "Leave out the rows with one of these values, by column.")
    triplets: dict[str, str] = key({}, "The labels positive and negative; joins rows of one a.")
    weight: AboveZero = key(1.0, "How often an epoch sees each row; 0.5 takes half of them.")
    limit: Count = key(0, "Only the first rows; 0 means all.")
    hold_out: PartShare = key(0.0, "align: leave out this share of the concepts.")
    negatives: Many[Negatives] = key((), "align: files of concepts that are confused.")
    options: dict[str, Any] = key({}, "Options of the objective, such as scale.")

    @check(mode="after")
    def _fits(self) -> Self:
        if self.range is not None and not self.range[0] < self.range[1]:
            raise OptionError(f"range is {list(self.range)}; expected [least, most]. Swap them.")
        if len(set(self.labels)) < len(self.labels):
            raise OptionError("labels names one twice; expected each once. Remove the second.")
        for negatives in self.negatives:
            if set(negatives.columns) != {"a", "b"}:
                raise OptionError(
                    f"negatives have the columns {', '.join(negatives.columns) or 'none'}; "
                    "expected the columns a and b. Write columns = { a = …, b = … }."
                )
        return self


class Recipe(BaseRecipe):
    """An encoder or a reranker, trained on one data set or several."""

    base: str = needed("The model to start from: a folder, a shipped bundle, a hub id, package:…")
    data: Many[Data] = needed("The data sets, one or more.", min_length=1)
    output: Output = needed("Where the run writes.")
    kind: Literal["encoder", "reranker"] = key("encoder", "A reranker reads two texts at once.")
    pooling: str | None = key(None, "cls, mean, max …, joined by +; the base's if left out.")
    max_tokens: int | None = key(None, "Longer texts are cut; the base's limit when left out.")
    clean: CleanSteps | None = key(None, CLEAN)
    dropout: float = key(-1.0, "Dropout while training; below 0 the base's own.", lt=1)
    layers: Count = key(0, "Keep only so many layers, from the embeddings up; 0 keeps all.")
    base_share: PartShare = key(0.0, "Mix this share of the base's weights back in (encoders).")
    seed: Seed = key(1, SEED)
    objective: str = key("", "The objective of every [[data]] that names none.")
    matryoshka: Dimensions = key((), "Train these prefixes of the vector too; the whole one first.")
    schedule: PairSchedule = key(PairSchedule(), "How long and how fast.")
    evaluation: Many[Evaluation] = key((), "What measures the model during training.")

    @check(mode="before")
    @classmethod
    def _share_objective(cls, table: Any) -> Any:
        if not isinstance(table, dict) or not isinstance(table.get("data"), list | tuple):
            return table
        shared = table.get("objective", "")
        entries = [
            entry | {"objective": shared}
            if isinstance(entry, dict) and entry.get("objective", "") == ""
            else entry
            for entry in table["data"]
        ]
        return table | {"data": entries}

    @field_validator("pooling")
    @classmethod
    def _is_known(cls, pooling: str | None) -> str | None:
        for name in pooling.split("+") if pooling else ():
            if name not in POOLINGS:
                raise OptionError(
                    f'pooling is "{name}"; known are {", ".join(POOLINGS)}. Choose one, or join '
                    "several with +."
                )
        return pooling

    @check(mode="after")
    def _fits(self) -> Self:
        if self.base_share and self.kind != "encoder":
            raise OptionError(
                f"base_share is {self.base_share} and the kind {self.kind}; expected it for an "
                "encoder only. Remove the key."
            )
        for i, measure in enumerate(self.evaluation):
            if self.kind == "reranker" and measure.task not in RERANKER_TASKS:
                raise OptionError(
                    f'evaluation[{i}].task is "{measure.task}"; known for a reranker are '
                    f"{', '.join(RERANKER_TASKS)}. Choose one."
                )
        check_titles((one.title for one in self.evaluation), "[[evaluation]]")
        for i, entry in enumerate(self.data):
            self._check_data(entry, f"data[{i}]")
        return self

    def _check_data(self, entry: Data, where: str) -> None:
        if not entry.objective:
            raise OptionError(f"{where}: no objective; expected one here or above. Add the key.")
        objective = find_objective(entry.objective, where=where)
        if self.kind not in objective.kinds:
            raise OptionError(
                f"{where}: objective {objective.name} is for {' and '.join(objective.kinds)}; the "
                f"recipe's kind is {self.kind}. Choose another objective."
            )
        objective.settle(entry.options, where=where)
        _check_columns(entry, objective, where)
        for name, value, role in (
            ("range", entry.range, "score"),
            ("labels", entry.labels, "label"),
        ):
            if value and role not in needed_columns(entry, objective):
                raise OptionError(
                    f"{where}: {name} is for a {role}; {objective.name} reads none. Remove it."
                )
        if not objective.reader and (entry.hold_out or entry.negatives):
            raise OptionError(
                f"{where}: hold_out and negatives are for names with concepts; the objective is "
                f'{objective.name}. Remove them, or set objective = "align".'
            )


def needed_columns(entry: Data, objective: Objective) -> tuple[str, ...]:
    """Name the columns that an entry must map."""
    if entry.triplets:
        return ("a", "b", "label")
    return (*objective.texts, objective.label) if objective.label else objective.texts


def _check_columns(entry: Data, objective: Objective, where: str) -> None:
    required = needed_columns(entry, objective)
    known = (*required, *objective.optional)
    if entry.triplets:
        takes = "negative" in (*objective.texts, *objective.optional)
        if not takes or set(entry.triplets) != {"positive", "negative"}:
            raise OptionError(
                f"{where}: triplets is {entry.triplets} for {objective.name}; expected the labels "
                '{ positive = "…", negative = "…" } and the objective triplet or in-batch.'
            )
        known = required
    reads = f"{objective.name} reads {', '.join(known)}"
    for name in required:
        if name not in entry.columns:
            raise OptionError(f"{where}: columns has no {name}; {reads}. Add it.")
    for name in entry.columns:
        if name not in known:
            raise OptionError(f"{where}: columns has {name}; {reads}. Remove it.")


def check_parts(
    files: Iterable[str], train: Iterable[str], dev: Iterable[str], shares: dict[Any, float]
) -> None:
    """Check that data are either divided by shares, or given as train and dev files."""
    if bool(files) == bool(train):
        raise OptionError(
            f"data has {'both files and train' if files else 'no files'}; expected files, which "
            "are divided by shares, or train, dev and test. Name one of the two."
        )
    if train and not dev:
        raise OptionError("data.dev is missing; expected files that choose the best. Add the key.")
    if files and not sum(shares.values()) < 1:
        raise OptionError(
            f"data.shares leave nothing to train on ({sum(shares.values()):g} in all); expected "
            "less than 1 together. Lower one."
        )


class TagData(RecipeTable):
    """[data]: files with marked entities, by part or to be divided."""

    train: Names = key((), "Files to learn from.")
    dev: Names = key((), "Files that choose the best checkpoint.")
    test: Names = key((), "Files that judge the finished bundle, once.")
    files: Names = key((), "Instead of these three: files that are divided by the seed.")
    shares: Shares = key({"dev": 0.1, "test": 0.2}, "The shares of dev and test in files.")
    scheme: Literal["auto", "iob1", "iob2", "bioes"] = key("auto", "How entities are labelled.")
    types: Names = key((), "Learn only these types of entities; all when empty.")
    limit: Count = key(0, "Only the first texts; 0 means all.")


class Tagging(BaseRecipe):
    """A tagger: a linear layer over an encoder's tokens finds entities."""

    base: str = needed("The encoder to start from.")
    data: TagData = needed("The marked texts.")
    output: Output = needed("Where the run writes.")
    objective: Literal["tag"] = key("tag", "Chooses this kind of recipe.")
    max_tokens: int | None = key(None, "Tokens of a window; the base's limit when left out.")
    clean: CleanSteps | None = key(None, CLEAN)
    unit: Literal["word", "piece"] = key(
        "word", "What gets a label; piece if entities end in words."
    )
    dropout: PartShare = key(0.1, "Dropout while training.")
    balance: Share = key(0.0, "Weigh labels by rarity: 0 not at all, 1 so that all count the same.")
    weights: dict[str, float] = key({}, 'Factors of single labels, as { "O" = 0.5 }.')
    head_rate: AboveZero = key(1.0, "The head's learning rate, as a multiple of the encoder's.")
    seed: Seed = key(1, SEED)
    schedule: Schedule = key(Schedule(), "How long and how fast.")

    @check(mode="after")
    def _fits(self) -> Self:
        data = self.data
        check_parts(data.files, data.train, data.dev, data.shares)
        if data.files and "dev" not in data.shares:
            raise OptionError("data.shares has no dev; expected its share, to choose by. Add it.")
        return self


class NoteData(RecipeTable):
    """[data]: notes with labels, divided by patient or given by part."""

    columns: dict[Literal["text", "label", "patient"], str] = needed(
        "text and label, maybe patient."
    )
    files: Names = key((), "Files that are divided by patient into shares.")
    train: Names = key((), "Instead of files: those to learn from.")
    dev: Names = key((), "Files that choose the best checkpoint, the rule and the temperature.")
    test: Names = key((), "Files that judge the finished bundle, once.")
    shares: Shares = key({}, "The shares of dev and test in files; 0.15 each when left out.")
    positive: Names = key((), "Labels that are one class; all others are the second.")
    labels: Names = key((), "Use only these labels.")
    largest: Count = key(0, "Use only so many of the most frequent labels; 0 means all.")
    decide: Literal["note", "patient"] = key("note", "What gets one decision.")
    limit: Count = key(0, "Only the first documents; 0 means all.")


class Classification(BaseRecipe):
    """A classifier of long notes: windows learn their note's label, a rule decides over them."""

    base: str = needed("The encoder to start from.")
    data: NoteData = needed("The notes.")
    output: Output = needed("Where the run writes.")
    objective: Literal["classify"] = key("classify", "Chooses this kind of recipe.")
    max_tokens: int | None = key(None, "Tokens of a window; the base's limit when left out.")
    clean: CleanSteps | None = key(None, CLEAN)
    layers: Count = key(0, "Keep only so many layers, from the embeddings up; 0 keeps all.")
    dropout: PartShare = key(0.1, "Dropout while training.")
    balance: bool = key(True, "Weigh labels by rarity, so that all count the same.")
    rule: Literal["joint", "max", "mean", "first", "attention"] = key(
        "joint", "How windows decide; the c of joint is chosen on dev."
    )
    windows: Count = key(0, "The most windows of a document in an epoch; 0 means all.")
    seed: Seed = key(1, SEED)
    schedule: PairSchedule = key(PairSchedule(), "How long and how fast.")

    @check(mode="after")
    def _fits(self) -> Self:
        data = self.data
        check_parts(data.files, data.train, data.dev, data.shares)
        for name in ("text", "label"):
            if name not in data.columns:
                raise OptionError(f"data.columns has no {name}; expected it. Add the column.")
        return self


class LeaveOut(RecipeTable):
    """[[data.leave_out]]: documents that must not be learnt from, by their id or their text."""

    files: Names = needed("The files, under the data root.")
    id: str = key("", "The column with ids, to be compared with that of the data.")
    columns: Names = key((), "Instead of id: the columns whose text is compared.")

    @check(mode="after")
    def _has_one(self) -> Self:
        if bool(self.id) == bool(self.columns):
            raise OptionError("id or columns is needed, one of them; expected one key. Add it.")
        return self


class TextFiles(RecipeTable):
    """[[data.also]]: more files, with columns of their own."""

    files: Names = needed("Text (.txt) or tables (.jsonl, .tsv, .csv).", min_length=1)
    columns: Names = key(("text",), "The columns of a table that are joined to one document.")
    id: str = key("", "The column with ids, for leave_out.")
    lines: bool = key(False, "In .txt: every line is a document, not only a sentence.")


class TextData(TextFiles):
    """[data]: the text to learn from."""

    also: Many[TextFiles] = key((), "More files, of another form.")
    held_out: InnerShare = key(0.05, "The share of documents that perplexity is measured on.")
    leave_out: Many[LeaveOut] = key((), "Documents that must not be learnt from.")
    limit: Count = key(0, "Only the first documents; 0 means all.")

    @property
    def parts(self) -> tuple[TextFiles, ...]:
        """All files, each with how it is read."""
        return (self, *self.also)


class Masking(RecipeTable):
    """[masking]: what is hidden."""

    share: InnerShare = key(0.15, "The share of tokens that is hidden.")
    words: Literal["whitespace", "morphemes", "pieces"] = key("whitespace", "What is hidden whole.")
    next_sentence: bool = key(False, "Learn, too, whether one segment follows another.")


class Scratch(RecipeTable):
    """[scratch]: the BERT that is made if no base is named."""

    layers: Positive = key(4, "Layers.")
    hidden: Positive = key(256, "The size of the states; a multiple of heads.")
    heads: Positive = key(4, "Attention heads.")
    vocabulary: int = key(8000, "Tokens of the tokenizer that is learnt.", ge=100)

    @check(mode="after")
    def _fits(self) -> Self:
        if self.hidden % self.heads:
            raise OptionError(
                f"heads is {self.heads} and hidden {self.hidden}; expected a hidden that heads "
                "divides. Change one of them."
            )
        return self


class Pretraining(BaseRecipe):
    """Masked-word pretraining, from a base or from nothing."""

    data: TextData = needed("The text.")
    output: Output = needed("Where the run writes.")
    base: str = key("", "The encoder to continue from; a new one is made when left out.")
    objective: Literal["pretrain"] = key("pretrain", "Chooses this kind of recipe.")
    max_tokens: int = key(128, "Tokens of a sequence.", ge=8)
    clean: CleanSteps | None = key(None, CLEAN)
    dropout: PartShare = key(0.1, "Dropout while training.")
    extend: Count = key(0, "Add so many new tokens to the base's tokenizer.")
    head_steps: Count = key(0, "Train only the head for so many steps; a fresh one spoils a base.")
    measured: Positive = key(256, "Held-out sequences that are measured.")
    seed: Seed = key(1, SEED)
    masking: Masking = key(Masking(), "What is hidden.")
    scratch: Scratch = key(Scratch(), "The new encoder, without a base.")
    schedule: Schedule = key(Schedule(), "How long and how fast.")
