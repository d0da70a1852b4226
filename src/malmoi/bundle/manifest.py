"""`malmoi.json`: what a model is and how to run it, with the hash of each file of its folder."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import BundleCorrupt, BundleError
from ..io.files import parse_json
from ..io.fingerprint import (
    check_format,
    check_whole,
    find_changed,
    hash_folder,
    is_inside,
    seal,
    write_json,
)
from ..text.cleanup import SAFE, STEPS

MANIFEST = "malmoi.json"
FORMAT = 1
POOLINGS = ("cls", "mean", "max", "mean_sqrt_len", "weightedmean", "lasttoken")
# BERT's own: [CLS] through the dense layer and tanh that it was pretrained with. Bundles have it as
# cls and a Dense module, which sentence-transformers knows.
POOLER = "pooler"
PRECISIONS = ("float32", "float16", "int8")
ACTIVATIONS = ("identity", "sigmoid", "softmax")

_REMEDY = "Export the model again with: malmoi model export"


@dataclass(frozen=True)
class Kind:
    """One kind of bundle; its class, "module:class", is imported when a bundle is opened."""

    runner: str
    hint: str


KINDS: dict[str, Kind] = {
    "encoder": Kind("malmoi.encoders.transformer:Encoder", "malmoi.load"),
    "static": Kind("malmoi.encoders.static:StaticEncoder", "malmoi.load"),
    "reranker": Kind("malmoi.heads.reranker:Reranker", "malmoi.load or malmoi rerank"),
    "tagger": Kind("malmoi.heads.tagger:Tagger", "malmoi.load or malmoi tag"),
    "classifier": Kind("malmoi.heads.classifier:Classifier", "malmoi.load or malmoi classify"),
    "answerer": Kind("malmoi.heads.answerer:Answerer", "malmoi.load or malmoi answer"),
}


@dataclass(frozen=True)
class Manifest:
    """What is needed to run a bundle, and what a user wants to know about it.

    - `pooling`: one name, or several joined by "+" whose vectors are concatenated.
    - `unpooled`: what pooling leaves out: nothing, or the tokens of a "prompt".
    - `layers`: the number of hidden-state outputs `layer_0 … layer_n` of the graph.
    - `activation`: makes scores of a reranker's or classifier's `dimension` outputs, of which
      there is one, or one for each of the `labels`.
    - `beside`: the encoder whose similarity is blended with a reranker's score, and both weights.
    """

    kind: str = "encoder"
    name: str = ""
    architecture: str = ""
    pooling: str = "mean"
    normalize: bool = True
    dimension: int = 0
    max_tokens: int = 512
    vocabulary: int = 0
    layers: int = 0
    precision: str = "float32"
    graph: str = "onnx/model.onnx"
    clean: tuple[str, ...] = SAFE
    prompts: dict[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    unpooled: tuple[str, ...] = ()
    matryoshka: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    activation: str = ""
    beside: dict[str, Any] = field(default_factory=dict)
    languages: tuple[str, ...] = ()
    licence: str = ""
    training: dict[str, Any] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read and check `folder/malmoi.json`."""
        path = folder / MANIFEST
        try:
            data = parse_json(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise BundleCorrupt(
                f"{path} cannot be read as JSON ({type(error).__name__}); expected a malmoi "
                f"manifest. {_REMEDY}"
            ) from error
        manifest = cls.from_json(data, where=str(path))
        check_whole(data, where=str(path), remedy=_REMEDY, error=BundleCorrupt)
        return manifest

    @classmethod
    def from_json(cls, data: object, *, where: str) -> "Manifest":
        """Make a manifest from parsed JSON; `where` names it in messages."""
        found = check_format(data, FORMAT, where=where, remedy=_REMEDY, error=BundleError)
        specs = [spec for spec in dataclasses.fields(cls) if spec.name in found]
        manifest = cls(**{spec.name: _typed(found[spec.name], spec, where) for spec in specs})
        manifest.check(where)
        return manifest

    def check(self, where: str) -> None:
        """Raise a BundleError for the first field outside its range."""
        for name, values, known in (
            ("kind", [self.kind], tuple(KINDS)),
            ("pooling", self.pooling.split("+"), POOLINGS),
            ("precision", [self.precision], PRECISIONS),
            ("activation", [self.activation] if self.activation else [], ACTIVATIONS),
            ("clean", self.clean, tuple(STEPS)),
            ("unpooled", self.unpooled, ("prompt",)),
        ):
            for value in values:
                if value not in known:
                    listed = " and ".join(filter(None, (", ".join(known[:-1]), known[-1])))
                    raise BundleError(
                        f'{where} says {name} "{value}"; known are {listed}. {_REMEDY}'
                    )
        for name in ("dimension", "max_tokens"):
            if getattr(self, name) < 1:
                raise BundleError(
                    f"{where} says {name} {getattr(self, name)}; expected 1 or more. {_REMEDY}"
                )
        for path in (self.graph, *self.files):
            if not is_inside(path):
                raise BundleError(
                    f"{where} names the file {path!r}; expected one inside the bundle. {_REMEDY}"
                )

    def to_json(self) -> dict[str, Any]:
        """Give the manifest as JSON-ready data, empty fields left out."""
        data: dict[str, Any] = {"format": FORMAT}
        for spec in dataclasses.fields(self):
            value = getattr(self, spec.name)
            if value not in ("", (), {}, None) or spec.name in ("kind", "name"):
                data[spec.name] = list(value) if isinstance(value, tuple) else value
        return data

    def write(self, folder: Path) -> "Manifest":
        """Hash every file of the folder and write `malmoi.json`; gives the manifest written."""
        manifest = dataclasses.replace(self, files=hash_folder(folder, without=MANIFEST))
        manifest.check(str(folder / MANIFEST))
        write_json(folder / MANIFEST, seal(manifest.to_json()))
        return manifest

    def verify(self, folder: Path) -> None:
        """Compare every file with its hash; the first that differs raises BundleCorrupt.

        So does a file that may be opened and has no hash: the graph and what stands next to it,
        and the settings of the folder.
        """
        graph = folder / self.graph
        opened = {graph, folder / "tokenizer.json", *folder.glob("*.json")} - {folder / MANIFEST}
        opened |= {path for path in graph.parent.glob("*") if graph.parent != folder}
        for file in sorted(opened):
            name = file.relative_to(folder).as_posix()
            if name not in self.files and file.is_file():
                raise BundleCorrupt(
                    f"{folder / MANIFEST} lists no hash of {name}; expected one of every file that "
                    "is opened. Copy the whole folder again, or export the model again with: "
                    "malmoi model export"
                )
        path = find_changed(folder, self.files)
        if path is None:
            return
        if path.is_file():
            found = (
                f"{path} is not the file that {MANIFEST} describes (its sha256 differs: cut short, "
                "changed or damaged)"
            )
        else:
            name = path.relative_to(folder).as_posix()
            found = f"{folder} lacks {name}, which its {MANIFEST} lists"
        raise BundleCorrupt(
            f"{found}. Copy the whole folder again, or export the model: malmoi model export"
        )


def _typed(value: object, spec: "dataclasses.Field[Any]", where: str) -> Any:
    """Check a JSON value against the type of its field; lists become tuples."""
    default = spec.default
    if default is dataclasses.MISSING and spec.default_factory is not dataclasses.MISSING:
        default = spec.default_factory()
    if isinstance(default, tuple) and isinstance(value, list):
        return tuple(value)
    expected = str if default is None else type(default)
    if (default is None and value is None) or (
        isinstance(value, expected) and (expected is bool or not isinstance(value, bool))
    ):
        return value
    raise BundleError(
        f'{where} has {json.dumps(value)} in "{spec.name}"; expected {expected.__name__}. {_REMEDY}'
    )
