"""Cross-encoders: the model in torch, its losses, its training, and its bundle, judged by torch."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import CrossEncoder
from torch import Tensor

import malmoi
from malmoi.bundle.bundle import Manifest
from malmoi.errors import BundleError, BundleNotFound, DataError, OptionError
from malmoi.export.heads import export_reranker
from malmoi.export.source import head_of
from malmoi.training.objectives.cross_encoder import (
    build_cross_encoder,
    cross_loss,
    labels_of,
    query_lists,
)
from malmoi.training.objectives.pairs import Data, TrainingExamples
from tests.support.cross_encoders import load_cross_encoder, save_cross_encoder
from tests.support.graphs import Run
from tests.support.logs import record_messages
from tests.support.tiny import ARCHITECTURES, TEXTS

Write = Callable[[str], Path]
PAIRS = [(a, b) for a in TEXTS for b in TEXTS[:4]]
SHORT = [pair for pair in PAIRS if len(pair[0]) + len(pair[1]) < 40]
NLI = ("entailment", "neutral", "contradiction")
WITH_TYPES = ("bert", "albert", "electra")

pytestmark = pytest.mark.filterwarnings("ignore::malmoi.errors.CutWarning")


def collate(
    model: Any, pairs: Sequence[tuple[str, str]], targets: Sequence[float] | Sequence[int]
) -> tuple[dict[str, Tensor], Tensor]:
    """Padded ids (n, length), segment ids where the model has them, and targets."""
    features: dict[str, Any] = model.preprocess(list(pairs))
    kind = torch.float32 if model.num_labels == 1 else torch.int64
    return features, torch.tensor(targets, dtype=kind)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Keep torch's threads from waiting for each other over matrices this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def shaken(model: CrossEncoder) -> CrossEncoder:
    """Make the head's weights large, so that scores differ."""
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for module in (model[2], model[4]):
            for parameter in module.parameters():
                parameter.add_(0.5 * torch.randn(parameter.shape, generator=random))
    return model.eval()


def classifier(base: Path, folder: Path, *, labels: int) -> Path:
    """A random sequence classifier of transformers' own, as a foreign reranker is."""
    config = transformers.AutoConfig.from_pretrained(base, num_labels=labels)
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    random = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=random))
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    return folder


def raw(model: CrossEncoder, pairs: list[tuple[str, str]] = PAIRS) -> Any:
    """The model's scores before any activation, (n, outputs)."""
    identity = torch.nn.Identity()
    found = model.predict(pairs, activation_fn=identity, show_progress_bar=False)
    return found.reshape(len(pairs), -1)


def logits(bundle: Path, pairs: list[tuple[str, str]] = PAIRS) -> Any:
    """The bundle's scores before any activation, (n, outputs)."""
    return malmoi.load(bundle)._outputs(pairs, progress=False)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_bundle_gives_torchs_scores(tiny: Write, tmp_path: Path, architecture: str) -> None:
    model = shaken(build_cross_encoder(tiny(architecture), labels=NLI, layers=1))
    save_cross_encoder(model, tmp_path / "torch")
    manifest = export_reranker(tmp_path / "torch", tmp_path / "bundle")
    expected = raw(model)
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(logits(tmp_path / "bundle"), expected, atol=1e-4)
    assert (manifest.kind, manifest.labels, manifest.dimension) == ("reranker", NLI, 3)
    assert manifest.activation == "softmax" and manifest.max_tokens == 64
    reranker = malmoi.load(tmp_path / "bundle")
    assert ("token_type_ids" in reranker._runner.session.inputs) == (architecture in WITH_TYPES)
    # The same folder is a sentence-transformers CrossEncoder, and can be trained on.
    again = load_cross_encoder(tmp_path / "bundle")
    assert labels_of(again) == NLI
    np.testing.assert_array_equal(raw(again), expected)


@pytest.mark.parametrize(
    ("architecture", "labels"), [("bert", 1), ("bert", 2), ("roberta", 2), ("xlm-roberta", 1)]
)
def test_a_foreign_classifier_becomes_a_reranker(
    tiny: Write, tmp_path: Path, architecture: str, labels: int
) -> None:
    folder = classifier(tiny(architecture), tmp_path / "foreign", labels=labels)
    # Two labels without names may be of single texts; whoever exports says what they are.
    assert head_of(folder) == ("reranker" if labels == 1 else "classifier")
    assert head_of(tiny(architecture)) == "encoder"
    manifest = export_reranker(folder, tmp_path / "bundle")
    judge = CrossEncoder(str(folder), device="cpu")
    np.testing.assert_allclose(logits(tmp_path / "bundle"), raw(judge), atol=1e-4)
    assert manifest.labels == (() if labels == 1 else ("LABEL_0", "LABEL_1"))
    if labels == 1:
        scores = malmoi.load(tmp_path / "bundle").score(PAIRS)
        np.testing.assert_allclose(scores, judge.predict(PAIRS), atol=1e-5)


def test_a_folder_that_sentence_transformers_saved_is_exported_too(
    tiny: Write, tmp_path: Path
) -> None:
    judge = CrossEncoder(
        str(classifier(tiny("bert"), tmp_path / "plain", labels=1)),
        device="cpu",
        activation_fn=torch.nn.Identity(),
    )
    judge.save_pretrained(str(tmp_path / "saved"), create_model_card=False)
    manifest = export_reranker(tmp_path / "saved", tmp_path / "bundle")
    assert manifest.activation == "identity"
    scores = malmoi.load(tmp_path / "bundle").score(PAIRS)
    np.testing.assert_allclose(scores, judge.predict(PAIRS), atol=1e-4)
    opened = CrossEncoder(str(tmp_path / "bundle"), device="cpu", local_files_only=True)
    np.testing.assert_array_equal(opened.predict(PAIRS), judge.predict(PAIRS))


def test_int8_runs_and_stays_near(tiny: Write, tmp_path: Path) -> None:
    model = shaken(build_cross_encoder(tiny("bert")))
    save_cross_encoder(model, tmp_path / "torch")
    told = record_messages()
    export_reranker(tmp_path / "torch", tmp_path / "small", precision="int8")
    expected, found = raw(model)[:, 0], logits(tmp_path / "small")[:, 0]
    assert np.corrcoef(expected, found)[0, 1] > 0.98
    assert any("8 bits move a raw score" in line for line in told)
    assert Manifest.read(tmp_path / "small").precision == "int8"


def test_the_head_is_dense_gelu_dropout_projection_on_cls(tiny: Write) -> None:
    model = shaken(build_cross_encoder(tiny("bert"), labels=NLI, dropout=0.3))
    features, _ = collate(model, SHORT, [0] * len(SHORT))
    arrays = {name: features[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    assert arrays["token_type_ids"].max() == 1
    cls = model[0].model(**arrays).last_hidden_state[:, 0]
    dense, last = model[2].linear, model[4].linear
    expected = torch.nn.functional.gelu(dense(cls)) @ last.weight.T + last.bias
    torch.testing.assert_close(model(features)["scores"], expected)
    assert model[3].dropout == 0.3
    model.train()
    assert not torch.equal(model(features)["scores"], model(features)["scores"])


def test_layers_keep_the_first_ones(tiny: Write) -> None:
    base = transformers.AutoModel.from_pretrained(tiny("bert"))
    model = build_cross_encoder(tiny("bert"), layers=1)
    kept = model[0].model
    assert len(kept.encoder.layer) == kept.config.num_hidden_layers == 1
    for name, parameter in kept.named_parameters():
        assert torch.equal(parameter, base.get_parameter(name)), name
    assert kept.pooler is None


def by_hand(scores: Tensor, targets: Tensor, objective: str) -> Tensor:
    """The losses as a textbook writes them, in double precision because 1 - p needs it."""
    scores, targets = (
        scores.double(),
        targets if objective == "cross-encoder-classification" else targets.double(),
    )
    if objective == "cross-encoder-classification":
        shares = scores.exp() / scores.exp().sum(dim=1, keepdim=True)
        return -torch.stack([shares[i, t].log() for i, t in enumerate(targets.tolist())]).mean()
    p = 1 / (1 + (-scores[:, 0]).exp())
    if objective == "mse":
        return ((p - targets) ** 2).mean()
    return -(targets * p.log() + (1 - targets) * (1 - p).log()).mean()


@pytest.mark.parametrize("objective", ["regression", "mse", "cross-encoder-classification"])
def test_losses_and_gradients_are_the_textbooks(tiny: Write, objective: str) -> None:
    labels = NLI if objective == "cross-encoder-classification" else ()
    model = shaken(build_cross_encoder(tiny("bert"), labels=labels))
    targets = [i % 3 for i in range(len(SHORT))] if labels else np.linspace(0, 1, len(SHORT))
    features, target = collate(model, SHORT, list(targets))
    found = []
    for loss in (cross_loss, by_hand):
        model.zero_grad()
        value = loss(model(dict(features))["scores"], target, objective=objective)
        value.backward()
        found.append((value.detach(), [p.grad.clone() for p in model.parameters()]))
    assert found[0][0].item() == pytest.approx(found[1][0].item(), rel=1e-5)
    for ours, theirs in zip(found[0][1], found[1][1], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_list_is_judged_by_the_softmax_over_its_own_query() -> None:
    scores = torch.tensor([[2.0], [0.5], [-1.0], [0.3], [0.1]])
    targets = torch.tensor([1.0, 0.0, 0.0, 0.5, 1.0])
    queries = torch.tensor([7, 3, 7, 3, 3])
    one = -torch.log_softmax(torch.tensor([2.0, -1.0]), 0)[0]
    logs = torch.log_softmax(torch.tensor([0.5, 0.3, 0.1]), 0)
    two = -(logs[1] * 0.5 + logs[2]) / 1.5
    found = cross_loss(scores, targets, objective="listwise", queries=queries)
    assert found.item() == pytest.approx(float((one + two) / 2), rel=1e-6)


def test_queries_without_a_better_text_are_left_out_of_lists() -> None:
    columns = np.array([[0, 1], [2, 3], [0, 4], [2, 5], [6, 7]], dtype=np.int32)
    labels = np.array([1, 0, 0, 0, 1], dtype=np.float32)
    entry = Data(files=("x.tsv",), columns={"a": "query"}, objective="listwise")
    examples = TrainingExamples([], columns, labels)
    assert [rows.tolist() for rows in query_lists(examples, entry)] == [[0, 2]]
    assert query_lists(examples, Data(files=("x.tsv",), objective="bce")) == []
    with pytest.raises(DataError, match="no text in query with different scores"):
        query_lists(TrainingExamples([], columns, np.ones(5, dtype=np.float32)), entry)


def test_what_is_trained_goes_on_from_its_folder_and_from_its_bundle(
    tiny: Write, tmp_path: Path
) -> None:
    model = shaken(build_cross_encoder(tiny("bert"), dropout=0.25, max_tokens=40))
    save_cross_encoder(model, tmp_path / "torch")
    export_reranker(tmp_path / "torch", tmp_path / "bundle", licence="MIT", training={"seed": 1})
    for folder in (tmp_path / "torch", tmp_path / "bundle"):
        again = load_cross_encoder(folder)
        assert again[3].dropout == 0.25 and again.max_seq_length == 40
        for ours, theirs in zip(again.parameters(), model.parameters(), strict=True):
            assert torch.equal(ours, theirs)
    manifest = export_reranker(tmp_path / "bundle", tmp_path / "second")
    assert manifest.licence == "MIT" and manifest.training == {"seed": 1}
    assert manifest.max_tokens == 40
    np.testing.assert_array_equal(logits(tmp_path / "second"), logits(tmp_path / "bundle"))


@pytest.mark.parametrize(
    "options",
    [
        {"layers": 0},
        {"layers": 3},
        {"max_tokens": 1000},
    ],
)
def test_options_outside_their_range_are_told(tiny: Write, options: Any) -> None:
    with pytest.raises(OptionError, match=r"expected|Choose"):
        build_cross_encoder(tiny("bert"), **options)


def test_folders_that_are_no_cross_encoder_are_told(tiny: Write, tmp_path: Path) -> None:
    with pytest.raises(BundleNotFound):
        build_cross_encoder(tmp_path / "none")
    with pytest.raises(BundleError, match="cross-encoder"):
        export_reranker(tiny("bert"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_labels_that_do_not_fit_the_head_are_told(tiny: Write, tmp_path: Path) -> None:
    folder = classifier(tiny("bert"), tmp_path / "odd", labels=3)
    config = json.loads((folder / "config.json").read_text())
    activation = {"activation_fn": "torch.nn.modules.activation.Tanh"}
    (folder / "config.json").write_text(json.dumps(config | {"id2label": {"0": "a"}}))
    with pytest.raises(BundleError, match="config"):
        export_reranker(folder, tmp_path / "out")
    config |= {"id2label": {"0": "a"}, "sentence_transformers": activation}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(BundleError, match="activation 'tanh'"):
        export_reranker(folder, tmp_path / "out")


def test_pickled_weights_are_refused(tiny: Write, tmp_path: Path) -> None:
    folder = classifier(tiny("bert"), tmp_path / "pickled", labels=1)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(BundleError, match="pickle"):
        export_reranker(folder, tmp_path / "out")


def test_the_command_exports_a_cross_encoder(
    tiny: Write, tmp_path: Path, run: Run, run_here: Run
) -> None:
    folder = classifier(tiny("bert"), tmp_path / "foreign", labels=1)
    done = run("model", "export", folder, "bundle", "--precision", "int8", "--licence", "MIT")
    assert done.returncode == 0, done.stderr
    manifest = Manifest.read(tmp_path / "bundle")
    assert (manifest.kind, manifest.precision, manifest.licence) == ("reranker", "int8", "MIT")
    refused = run_here("model", "export", folder, "other", "--pooling", "mean")
    assert refused.returncode == 2 and "reranker" in refused.stderr
    shutil.rmtree(folder)
    ranked = run_here("rerank", "배", "-", "-m", "bundle", stdin="배\nship\n")
    assert ranked.stdout.count("rank") == 2
