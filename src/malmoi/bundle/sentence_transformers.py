"""Reads and writes the folder layout of sentence-transformers, which only this module knows.

Both generations are read: module types `sentence_transformers.models.*` and newer dotted paths,
`pooling_mode_mean_tokens: true` and `pooling_mode: "mean"`. The old ones are written, because
every reader knows them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import BundleCorrupt, BundleError
from ..io.files import parse_json
from ..io.fingerprint import is_inside
from ..text.cleanup import SAFE
from .manifest import POOLINGS, Manifest

MODULES = "modules.json"
_POOLING_KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_POOLING_NAMES = {"mean_sqrt_len_tokens": "mean_sqrt_len"} | {name: name for name in POOLINGS}
_ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "Sigmoid")


@dataclass(frozen=True)
class DenseSpec:
    """A Dense module: the file of its weights, and its activation function."""

    weights: Path
    activation: str


@dataclass(frozen=True)
class ForeignFolder:
    """A sentence-transformers folder in malmoi's terms.

    `root` holds the transformer itself (older folders keep it in "0_Transformer"). `steps`
    follow the token states, in order: "pool", "normalize" or a DenseSpec.
    """

    root: Path
    manifest: Manifest
    steps: tuple[str | DenseSpec, ...]


def is_foreign(folder: Path) -> bool:
    """Tell whether the folder is laid out by sentence-transformers."""
    return (folder / MODULES).is_file()


def is_classifier(folder: Path) -> bool:
    """Tell whether a transformer's folder has a sequence classifier's head, as rerankers do."""
    config = read_json(folder / "config.json", missing={})
    named = config.get("architectures") or [""]
    return str(named[0]).endswith("ForSequenceClassification")


def read_folder(folder: Path, graph: str) -> ForeignFolder:
    """Read a sentence-transformers folder whose ONNX graph is at `graph`."""
    modules = read_json(folder / MODULES)
    if not isinstance(modules, list) or not modules:
        raise _broken(folder / MODULES, "a list of modules")
    steps: list[str | DenseSpec] = []
    pooling, included = "mean", True
    root = folder
    if not all(isinstance(module, dict) for module in modules):
        raise _broken(folder / MODULES, "a list of modules")
    for module in sorted(modules, key=_place):
        kind = str(module.get("type", "")).rsplit(".", 1)[-1]
        path = inside(folder, str(module.get("path", "")))
        if kind == "Transformer":
            root = path
        elif kind == "Pooling":
            pooling = read_pooling(path / "config.json")
            # As in sentence-transformers, where instructions are read and not pooled.
            included = read_json(path / "config.json").get("include_prompt", True)
            steps.append("pool")
        elif kind == "Normalize":
            steps.append("normalize")
        elif kind == "Dense":
            steps.append(_read_dense(path))
        elif kind != "Dropout":  # dropout does nothing once a model is trained
            raise BundleError(
                f"{folder / MODULES} has a module {kind!r}; known are Transformer, Pooling, Dense, "
                "Normalize and Dropout. Models of other kinds (sparse, or a vector a token) cannot "
                "be used: choose one that gives a vector a text."
            )
    if steps.count("pool") > 1:
        raise BundleError(
            f"{folder / MODULES} has {steps.count('pool')} Pooling modules; expected one. Several "
            "poolings of one model are names in one module's configuration, joined."
        )
    if "pool" not in steps:
        raise BundleError(
            f"{folder / MODULES} has no Pooling module; expected one. A model that gives a vector "
            "a token (ColBERT) cannot be used: choose one that gives a vector a text."
        )
    manifest = _manifest(folder, root, graph, pooling, steps)
    if not included and manifest.prompts:
        manifest = replace(manifest, unpooled=("prompt",))
    return ForeignFolder(root, manifest, tuple(steps))


def _place(module: dict[str, Any]) -> int:
    found = module.get("idx", 0)
    return found if isinstance(found, int) else 0


def inside(folder: Path, name: str) -> Path:
    """Give a module's folder, which has to be in the model's."""
    path = folder / name
    if not is_inside(name) or not path.resolve().is_relative_to(folder.resolve()):
        raise BundleError(
            f"{folder / MODULES} names the folder {name!r}; expected one inside the model. Copy "
            "the whole folder again."
        )
    return path


def _manifest(
    folder: Path, root: Path, graph: str, pooling: str, steps: list[str | DenseSpec]
) -> Manifest:
    config = read_json(root / "config.json")
    hidden = int(config.get("hidden_size") or config.get("dim") or 0)
    settings = read_json(root / "sentence_bert_config.json", missing={})
    return Manifest(
        name=folder.name,
        architecture=str(config.get("model_type", "")),
        pooling=pooling,
        normalize="normalize" in steps,
        dimension=max(hidden, 1) * len(pooling.split("+")),  # a Dense module may change it
        max_tokens=read_max_tokens(root, config, settings),
        vocabulary=int(config.get("vocab_size", 0)),
        graph=graph,
        clean=(*SAFE, "lower") if settings.get("do_lower_case") else SAFE,
        **read_prompts(folder),
    )


def read_prompts(folder: Path) -> dict[str, Any]:
    """Read a folder's prompts and the name of the usual one, as fields of a manifest."""
    shared = read_json(folder / "config_sentence_transformers.json", missing={})
    prompts = {k: v for k, v in (shared.get("prompts") or {}).items() if v}
    return {"prompts": prompts, "default_prompt": shared.get("default_prompt_name")}


def read_max_tokens(root: Path, config: dict[str, Any], settings: dict[str, Any]) -> int:
    """Find the longest input, which has had three places over the years."""
    tokenizer = read_json(root / "tokenizer_config.json", missing={})
    positions = int(config.get("max_position_embeddings") or 512)
    if config.get("model_type") in ("roberta", "xlm-roberta", "mpnet", "camembert"):
        positions -= 2  # their first position is padding_idx + 1
    stated = settings.get("max_seq_length") or tokenizer.get("model_max_length") or positions
    return min(int(stated), positions)  # model_max_length may be 10**30 for "unknown"


def read_pooling(path: Path) -> str:
    """Read a Pooling module's configuration, old keys or new, as malmoi's name for it."""
    config = read_json(path)
    stated = config.get("pooling_mode")
    if stated is None:
        names = [name for key, name in _POOLING_KEYS.items() if config.get(key)] or ["mean"]
    else:
        names = [stated] if isinstance(stated, str) else list(stated)
    for name in names:
        if name not in _POOLING_NAMES:
            raise BundleError(
                f'{path} says pooling "{name}"; known are {", ".join(_POOLING_NAMES)}. '
                "Export the model again with: malmoi model export"
            )
    return "+".join(_POOLING_NAMES[name] for name in names)


def _read_dense(folder: Path) -> DenseSpec:
    config = read_json(folder / "config.json")
    weights = folder / "model.safetensors"
    activation = str(config.get("activation_function", "Identity")).rsplit(".", 1)[-1]
    if config.get("use_residual") or activation not in _ACTIVATIONS or not weights.is_file():
        raise BundleError(
            f"the Dense module {folder} has no model.safetensors, a residual or the activation "
            f"{activation!r}; known are {', '.join(_ACTIVATIONS)}. "
            "Export the model with: malmoi model export"
        )
    return DenseSpec(weights, activation.lower())


def write_layout(
    folder: Path,
    *,
    pooling: str,
    hidden: int,
    max_tokens: int,
    steps: Sequence[str],
    prompts: dict[str, str] | None = None,
    default_prompt: str | None = None,
    lower: bool = False,
    pool_prompts: bool = True,
) -> list[Path]:
    """Write the small files that make a transformer's folder a sentence-transformers one.

    `hidden` is the width of the token states; `steps` follow them, in order ("pool", "dense",
    "normalize"). `lower` asks for lower case before the tokenizer, and without `pool_prompts`
    pooling leaves prompts out. Gives each step's folder, where a Dense module's weights belong.
    """
    kinds = [{"pool": "Pooling", "dense": "Dense", "normalize": "Normalize"}[s] for s in steps]
    names = [f"{idx}_{kind}" for idx, kind in enumerate(kinds, start=1)]
    modules = [
        {"idx": idx, "name": str(idx), "path": name, "type": f"sentence_transformers.models.{kind}"}
        for idx, (name, kind) in enumerate([("", "Transformer"), *zip(names, kinds, strict=True)])
    ]
    for step, name in zip(steps, names, strict=True):
        (folder / name).mkdir(exist_ok=True)
        if step != "dense":
            config = _pooling_config(pooling, hidden) if step == "pool" else {}
            if step == "pool" and not pool_prompts:
                config["include_prompt"] = False
            write_json(folder / name / "config.json", config)
    write_json(folder / MODULES, modules)
    settings = {"max_seq_length": max_tokens, "do_lower_case": lower}
    write_json(folder / "sentence_bert_config.json", settings)
    shared = {
        "prompts": prompts or {},
        "default_prompt_name": default_prompt,
        "similarity_fn_name": "cosine",
    }
    write_json(folder / "config_sentence_transformers.json", shared)
    return [folder / name for name in names]


def _pooling_config(pooling: str, hidden: int) -> dict[str, Any]:
    active = pooling.split("+")
    keys: dict[str, Any] = {key: name in active for key, name in _POOLING_KEYS.items()}
    if active != [name for name in _POOLING_KEYS.values() if name in active]:
        # The old keys know one order of concatenated vectors; any other needs the new key.
        names = {name: key for key, name in _POOLING_NAMES.items() if key not in POOLINGS}
        keys["pooling_mode"] = [names.get(name, name) for name in active]
    return {"word_embedding_dimension": hidden} | keys


def write_json(path: Path, data: object) -> None:
    """Write data as readable JSON."""
    path.write_text(json.dumps(data, ensure_ascii=False, indent=2) + "\n", "utf-8")


def read_json(path: Path, *, missing: Any = None) -> Any:
    """Read a JSON file, an object (modules.json is a list); if it is not there, give `missing`.

    Where that is None, a missing file is an error.
    """
    if missing is not None and not path.is_file():
        return missing
    try:
        found = parse_json(path.read_text("utf-8-sig"))
    except FileNotFoundError as error:
        raise _broken(path, "this file") from error
    except (OSError, ValueError) as error:
        raise _broken(path, "JSON") from error
    if path.name != MODULES and not isinstance(found, dict):
        raise _broken(path, "a JSON object")
    return found


def _broken(path: Path, expected: str) -> BundleCorrupt:
    return BundleCorrupt(
        f"{path} is missing or not readable; expected {expected}. Copy the whole folder again."
    )
