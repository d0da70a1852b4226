"""A transformers folder, with no modules around the model: its head, as config.json tells it."""

import re
from pathlib import Path
from typing import Any

from ..errors import BundleError
from . import sentence_transformers as foreign
from .manifest import Manifest
from .sentence_transformers import ForeignFolder, read_json

# Heads of language models: they predict words, which no vector needs.
_LANGUAGE_MODEL = re.compile(r"(ForMaskedLM|ForCausalLM|ForPreTraining|LMHeadModel)$")
_HEADS = {"ForTokenClassification": "tagger", "ForQuestionAnswering": "answerer"}
_SHARED = "config_sentence_transformers.json"
_POOLING = "1_Pooling/config.json"
OUTSIDE = "O"


def find_kind(folder: Path) -> str:
    """Say what a model folder makes of token states: the kind of bundle that it is or becomes.

    It is an "encoder", a "static" one, a "reranker", a "classifier", a "tagger" or an "answerer";
    raises a BundleError for a head that no bundle has, because without it the model would be
    another one.
    """
    if find_static(folder) is not None:
        return "static"
    if is_cross_encoder(folder):
        return "reranker"
    if foreign.is_foreign(folder):  # an encoder, whatever its transformer was made from
        return "encoder"
    config = read_json(folder / "config.json", missing={})
    name = _class_of(config)
    if not name or name.endswith(("Model", "Encoder")) or is_language_model(config):
        return "encoder"
    if name.endswith("ForSequenceClassification"):
        return "reranker" if _reads_pairs(config) else "classifier"
    for ending, kind in _HEADS.items():
        if name.endswith(ending):
            return kind
    raise BundleError(
        f"{folder / 'config.json'} names the class {name}; known are encoders, language models, "
        f"…ForSequenceClassification, …{' and …'.join(_HEADS)}. Without its head it would be "
        f"another model: to use its encoder alone, malmoi model export {folder} OUT --kind encoder"
    )


def find_static(folder: Path) -> Path | None:
    """Find the folder with the table of a static model, sentence-transformers' or model2vec's."""
    if (folder / foreign.MODULES).is_file():
        modules = read_json(folder / foreign.MODULES)
        first = modules[0] if isinstance(modules, list) and modules else {}
        if isinstance(first, dict) and str(first.get("type", "")).endswith(".StaticEmbedding"):
            return foreign.inside(folder, str(first.get("path", "")))
    config = read_json(folder / "config.json", missing={})
    return folder if config.get("model_type") == "model2vec" else None


def is_cross_encoder(folder: Path) -> bool:
    """Whether sentence-transformers saved a folder as a cross-encoder, with its head."""
    return folder.is_dir() and bool(_shared(folder).get("model_type") == "CrossEncoder")


def is_language_model(config: dict[str, Any]) -> bool:
    """Tell whether a config.json names a language model, whose head is not missed."""
    return bool(_LANGUAGE_MODEL.search(_class_of(config)))


def read_labels(config: dict[str, Any], *, count: int | None = None) -> tuple[str, ...]:
    """Name a sequence classifier's labels, `count` of them if known; a lone score has none."""
    named = config.get("id2label") or {}
    # transformers leaves two labels without names of their own out of config.json.
    count = count or len(named) or int(config.get("num_labels") or 2)
    if count == 1:
        return ()
    return tuple(str(named.get(str(i), f"LABEL_{i}")) for i in range(count))


def read_activation(folder: Path, config: dict[str, Any]) -> str:
    """Find what follows a lone score: named in three places over the years, a sigmoid if not."""
    stated = (
        _shared(folder).get("activation_fn")
        or (config.get("sentence_transformers") or {}).get("activation_fn")
        or config.get("sbert_ce_default_activation_function")
        or "Sigmoid"
    )
    name = str(stated).rsplit(".", 1)[-1].lower()
    if name not in ("identity", "sigmoid"):
        raise BundleError(
            f"{folder} has the activation {name!r} after its score; known are identity and "
            "sigmoid. Such a model cannot be used."
        )
    return name


def check_exclusive(folder: Path, config: dict[str, Any]) -> None:
    """Raise a BundleError for a classifier whose labels do not exclude each other."""
    labels = len(read_labels(config))
    problem = config.get("problem_type") or "single_label_classification"
    if labels < 2 or problem != "single_label_classification":
        raise BundleError(
            f"{folder / 'config.json'} has {labels or 1} labels and the problem_type {problem}; "
            "expected two or more of which one is right. Other classifiers cannot be used; one "
            "score is a reranker's (malmoi model export --kind reranker)."
        )


_MARKED = (
    re.compile(r"(?P<mark>[BI])[-_](?P<type>.+)"),
    re.compile(r"(?P<type>.+)[-_](?P<mark>[BI])"),
)


def read_tags(path: Path) -> tuple[list[int], tuple[str, ...]]:
    """Read a config.json's labels as a tagger names them, "O" first, and the place of each.

    "B-PER", "B_PER" and "PER-B" are the same. Raises a BundleError for other schemes.
    """
    named = read_json(path).get("id2label") or {}
    given = [str(named.get(str(i), "")) for i in range(len(named))]
    found = [_marked(label) for label in given]
    begun = {label[2:] for label in found if label.startswith("B-")}
    lone = [label for label in found if label != OUTSIDE and label[2:] not in begun]
    if found.count(OUTSIDE) != 1 or len(set(found)) < len(found) or lone:
        raise BundleError(
            f"{path} has the labels {', '.join(given) or 'none'}; expected O, and B-X and perhaps "
            "I-X of each type X. Taggers with other labels cannot be used."
        )
    order = sorted(range(len(found)), key=lambda i: (found[i] != OUTSIDE, i))
    return order, tuple(found[i] for i in order)


def read_transformers_folder(
    folder: Path, graph: str, *, pooling: str | None
) -> tuple[ForeignFolder, list[int]]:
    """Read a folder whose ONNX graph is at `graph`; the list is that of `read_tags`.

    An encoder's steps are empty where neither the option nor a file says how it pools.
    """
    path = folder / "config.json"
    config, kind = read_json(path), find_kind(folder)
    order: list[int] = []
    fields: dict[str, Any] = {}
    steps: tuple[str, ...] = ()
    if kind == "encoder":
        stated = pooling
        if stated is None and (folder / _POOLING).is_file():
            stated = foreign.read_pooling(folder / _POOLING)
        steps = ("pool", "normalize") if stated else ()
        fields = {"pooling": stated or "mean"} | foreign.read_prompts(folder)
    elif kind == "tagger":
        order, labels = read_tags(path)
        fields = {"labels": labels, "activation": "softmax"}
    elif kind == "answerer":  # graphs of others have two outputs, and the class says so
        fields = {"labels": ("start", "end")}
    else:
        labels = read_labels(config)
        activation = "softmax" if labels else read_activation(folder, config)
        fields = {"labels": labels, "activation": activation}
        if kind == "classifier":
            check_exclusive(folder, config)
    manifest = Manifest(
        kind=kind,
        name=folder.name,
        architecture=str(config.get("model_type", "")),
        dimension=len(fields.get("labels", ())) or 1,
        max_tokens=foreign.read_max_tokens(folder, config, {}),
        vocabulary=int(config.get("vocab_size", 0)),
        graph=graph,
        **fields,
    )
    return ForeignFolder(folder, manifest, steps), order


def _class_of(config: dict[str, Any]) -> str:
    named = config.get("architectures") or [""]
    return str(named[0] if isinstance(named, list) else named)


def _reads_pairs(config: dict[str, Any]) -> bool:
    """Tell whether a sequence classifier compares two texts: it has one score, or NLI's labels."""
    labels = read_labels(config)
    named = {label.lower() for label in labels}
    return not labels or "sentence_transformers" in config or bool(named & {"entailment", "함의"})


def _marked(label: str) -> str:
    for pattern in _MARKED:
        match = pattern.fullmatch(label)
        if match is not None:
            return f"{match['mark']}-{match['type']}"
    return OUTSIDE if label == OUTSIDE else f"?-{label}"


def _shared(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_json(folder / _SHARED, missing={})
    return found
