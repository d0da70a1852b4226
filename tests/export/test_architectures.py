"""Architectures that no list names, large weights, and heads: a folder becomes what it says."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

import malmoi
from malmoi.errors import BundleError
from malmoi.export import build as building
from malmoi.export import constants, graph
from malmoi.export.export import export
from malmoi.export.source import head_of
from malmoi.heads.windows import find_words
from malmoi.runtime.tokenizer import Batch
from tests.support.tiny import NEWER, TEXTS, assembled, headed, with_dense

Write = Callable[[str], Path]

pytestmark = [
    pytest.mark.filterwarnings("ignore::malmoi.errors.CutWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
]

LONG = [*TEXTS, " ".join(TEXTS)]  # longer than the windows of layers that see what is near


def judged(folder: Path, pooling: str = "mean") -> tuple[SentenceTransformer, np.ndarray]:
    """Put a tiny transformer and a pooling together, and encode in one padded batch."""
    model = assembled(folder, pooling, Normalize())
    return model, model.encode(LONG, batch_size=len(LONG), show_progress_bar=False)


@pytest.mark.parametrize("architecture", NEWER)
def test_an_architecture_is_tried(architecture: str, tiny: Write, tmp_path: Path) -> None:
    """Decoders pool the last token, and sentence-transformers pads them on the left."""
    source = tiny(architecture)
    pooling = "lasttoken" if architecture == "qwen3" else "mean"
    if architecture == "qwen3":
        source = shutil.copytree(source, tmp_path / "left")
        settings = json.loads((source / "tokenizer_config.json").read_text())
        (source / "tokenizer_config.json").write_text(
            json.dumps(settings | {"padding_side": "left"})
        )
    _, expected = judged(source, pooling)
    precision = "int8" if architecture == "modernbert" else "float32"
    export(source, tmp_path / "out", pooling=pooling, precision=precision)
    found = malmoi.load(tmp_path / "out").encode(LONG)
    if precision == "int8":
        assert (found * expected).sum(axis=1).min() > 0.99
    else:
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_large_weights_stay_in_a_file_of_their_own(
    precision: str, tiny: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same graph, whether its weights are written into it or next to it."""
    monkeypatch.setattr(constants, "_SMALL", 256)
    export(tiny("bert"), tmp_path / "one", precision=precision)
    monkeypatch.setattr(constants, "_SPLIT", 1000)
    manifest = export(tiny("bert"), tmp_path / "two", precision=precision)
    assert not (tmp_path / "one/onnx/model.onnx_data").exists()
    assert {"onnx/model.onnx", "onnx/model.onnx_data"} < manifest.files.keys()
    small, large = ((tmp_path / "two/onnx" / name).stat().st_size for name in GRAPHS)
    assert small < large / 2 or precision != "float32"
    one, two = (malmoi.load(tmp_path / name).encode(LONG) for name in ("one", "two"))
    np.testing.assert_array_equal(one, two)
    _, expected = judged(tiny("bert"))
    assert np.abs(two - expected).max() < {"float32": 1e-5, "float16": 5e-3, "int8": 0.1}[precision]
    onnx.checker.check_model(onnx.load(tmp_path / "one/onnx/model.onnx").SerializeToString())


GRAPHS = ("model.onnx", "model.onnx_data")


def test_a_model_larger_than_memory_is_refused_first(
    tiny: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "free_memory", lambda: 10_000_000)
    with pytest.raises(BundleError, match=r"takes about 0\.6 GB of memory .* 0\.0 GB are free"):
        export(tiny("bert"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_token_classifier_becomes_a_tagger(tmp_path: Path) -> None:
    """Labels are read at each word's first token, and "O" comes first."""
    folder = headed(tmp_path / "ner", "TokenClassification", ["DIS-B", "O", "TIME_B", "B-PER"])
    manifest = export(folder, tmp_path / "out")
    assert (manifest.kind, manifest.labels) == ("tagger", ("O", "B-DIS", "B-TIME", "B-PER"))
    tagger = malmoi.load(tmp_path / "out")
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    types = ["DIS", "", "TIME", "PER"]
    expected, found = [], []
    for text in TEXTS:
        encoded = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        offsets = [tuple(span) for span in encoded.pop("offset_mapping")[0].tolist()]
        with torch.no_grad():
            likely = model(**encoded).logits[0].argmax(dim=1).tolist()
        at = {
            start: types[label]
            for (start, end), label in zip(offsets, likely, strict=True)
            if end > start
        }
        expected += [(start, at[start]) for start, _ in find_words(text).tolist() if at[start]]
        found += [(entity.start, entity.type) for entity in tagger.tag(text)]
    assert found == expected and found


def test_a_classifier_of_single_texts(tmp_path: Path) -> None:
    folder = headed(tmp_path / "topics", "SequenceClassification", ["내과", "외과", "소아과"])
    manifest = export(folder, tmp_path / "out")
    assert (manifest.kind, manifest.labels) == ("classifier", ("내과", "외과", "소아과"))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    encoded = transformers.AutoTokenizer.from_pretrained(folder)(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        expected = model(**encoded).logits.softmax(dim=1)[0].tolist()
    decided = malmoi.load(tmp_path / "out").classify(TEXTS[0])
    assert list(decided.probabilities.values()) == pytest.approx(expected, abs=1e-4)


def test_what_a_head_makes_of_a_folder(tmp_path: Path) -> None:
    def named(name: str, **more: object) -> Path:
        (tmp_path / "config.json").write_text(json.dumps({"architectures": [name], **more}))
        return tmp_path

    nli = {"0": "contradiction", "1": "entailment"}
    assert head_of(named("XLMRobertaModel")) == head_of(named("BertForMaskedLM")) == "encoder"
    assert head_of(named("BertForSequenceClassification", id2label={"0": "x"})) == "reranker"
    assert head_of(named("BertForSequenceClassification", id2label=nli)) == "reranker"
    assert head_of(named("BertForSequenceClassification")) == "classifier"
    assert head_of(named("BertForQuestionAnswering")) == "answerer"
    for name in ("BertForMultipleChoice", "KoBertCRF"):
        with pytest.raises(BundleError, match=f"names the class {name}; known are encoders"):
            head_of(named(name))


def test_a_head_is_never_dropped_silently(tmp_path: Path) -> None:
    folder = headed(tmp_path / "ner", "TokenClassification", ["A", "B"])
    with pytest.raises(BundleError, match="has the labels A, B; expected O, and B-X"):
        export(folder, tmp_path / "out")
    config = json.loads((folder / "config.json").read_text()) | {"architectures": ["BertModel"]}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(BundleError, match=r"hold classifier\.bias, classifier\.weight"):
        export(folder, tmp_path / "out")
    assert export(folder, tmp_path / "out", kind="encoder").kind == "encoder"


def test_prompts_that_are_not_pooled(tiny: Write, tmp_path: Path) -> None:
    """A graph with a Dense module after a pooling that leaves instructions out."""
    with_dense(tmp_path / "model", tiny("bert"))
    prompt = {"query": "the ship: "}
    path = tmp_path / "model/1_Pooling/config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"pooling_mode": "mean", "include_prompt": False}))
    shared = tmp_path / "model/config_sentence_transformers.json"
    shared.write_text(json.dumps(json.loads(shared.read_text()) | {"prompts": prompt}))
    judge = SentenceTransformer(str(tmp_path / "model"), device="cpu", local_files_only=True)
    manifest = export(tmp_path / "model", tmp_path / "out")
    assert manifest.unpooled == ("prompt",)
    encoder = malmoi.load(tmp_path / "out")
    again = SentenceTransformer(str(tmp_path / "out"), device="cpu", local_files_only=True)
    for name in ("query", None):
        expected = judge.encode(TEXTS, prompt_name=name, show_progress_bar=False)
        np.testing.assert_allclose(encoder.encode(TEXTS, prompt=name), expected, atol=1e-5)
        np.testing.assert_allclose(
            again.encode(TEXTS, prompt_name=name, show_progress_bar=False), expected, atol=1e-5
        )
    plain = encoder.encode([prompt["query"] + text for text in TEXTS], prompt="")
    np.testing.assert_allclose(plain, encoder.encode(TEXTS, prompt="query"), atol=1e-5)


def test_a_question_answering_model_becomes_an_answerer(tmp_path: Path) -> None:
    folder = headed(tmp_path / "qa", "QuestionAnswering", ["start", "end"])
    manifest = export(folder, tmp_path / "out")
    assert (manifest.kind, manifest.dimension) == ("answerer", 2)
    answerer = malmoi.load(tmp_path / "out")
    encoded = transformers.AutoTokenizer.from_pretrained(folder)(
        TEXTS[4], TEXTS[1], return_tensors="pt", return_token_type_ids=True
    )
    model = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = model(**encoded)
    arrays = {name: array.numpy() for name, array in encoded.items()}
    names = ("input_ids", "attention_mask", "token_type_ids")
    batch = Batch(np.zeros(1, np.int64), *(arrays[name] for name in names))
    [found] = answerer._runner.session.run(batch, ["logits"])
    np.testing.assert_allclose(found[..., 0], expected.start_logits, atol=1e-4)
    np.testing.assert_allclose(found[..., 1], expected.end_logits, atol=1e-4)


def test_weights_are_not_copied_to_infer_shapes(
    tiny: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tracer would put them all into a graph: twice the weights in memory."""
    usual, seen = getattr(torch._C, graph._INFER), [0]

    def infer(traced: object, weights: dict[str, torch.Tensor], opset: int) -> object:
        seen.extend(one.numel() for one in weights.values())
        return usual(traced, weights, opset)

    monkeypatch.setattr(torch._C, graph._INFER, infer)
    monkeypatch.setattr(graph, "_SHAPED", 64)
    export(tiny("bert"), tmp_path / "out")
    assert 1 < max(seen) <= 64
    assert getattr(torch._C, graph._INFER) is infer
