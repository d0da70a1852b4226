"""The bi-encoder's task: pieces and padding change nothing, and peers agree on the loss."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from malmoi.training.batching import Step
from malmoi.training.objectives.pairs_task import BiEncoderTask, Ids
from malmoi.training.recipe import make_recipe
from malmoi.training.run import prepare
from tests.support import runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.prepare(tmp_path_factory.mktemp("siamese"))


def make(folder: Path, **changes: Any) -> BiEncoderTask:
    recipe = make_recipe(runs.table(folder, dropout=0.0, **changes))
    prepared = prepare(recipe, folder)
    return BiEncoderTask(recipe, prepared.source, prepared.examples)


def gradients(task: BiEncoderTask, step: Step) -> tuple[float, dict[str, torch.Tensor]]:
    task.module.train()
    loss = task.loss(step)
    loss.backward()
    named = task.encoder.transformer.named_parameters()
    return loss.item(), {name: p.grad for name, p in named if p.grad is not None}


def test_loss_and_gradients_equal_sentence_transformers(folder: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.losses import CoSENTLoss
    from sentence_transformers.sentence_transformer.modules import Pooling

    task = make(folder)
    step = Step(0, np.arange(12))
    loss, ours = gradients(task, step)
    transformer = Transformer(str(folder / "base"))
    model = SentenceTransformer(modules=[transformer, Pooling(32, "mean")], device="cpu")
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    part = task.examples[0]
    assert part.labels is not None
    columns = [[part.texts[row[i]] for row in part.columns[:12]] for i in range(2)]
    features = [model.preprocess(texts) for texts in columns]
    theirs = CoSENTLoss(model)(features, torch.from_numpy(part.labels[:12]))
    theirs.backward()
    assert loss == pytest.approx(theirs.item(), rel=1e-5)
    peers = dict(transformer.model.named_parameters())
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, peers[name].grad, atol=1e-4, rtol=1e-3)


def test_pieces_change_nothing_but_the_speed(folder: Path) -> None:
    step = Step(0, np.arange(20))
    whole, one = gradients(make(folder, schedule={"piece_tokens": 100_000}), step)
    small, two = gradients(make(folder, schedule={"piece_tokens": 40}), step)
    assert whole == pytest.approx(small, rel=1e-5)
    for name, gradient in one.items():
        torch.testing.assert_close(gradient, two[name], atol=1e-4, rtol=1e-3)


def test_ids_of_many_texts_stand_in_one_array(folder: Path) -> None:
    task = make(folder)
    ids = Ids.of(task.tokens, ["배", "the ship " * 100, ""], ())
    assert ids.cut == 1
    assert ids.lengths[1] == task.tokens.max_tokens
    assert ids.values[: ids.starts[1]].tolist() == task.tokens.tokenizer.encode("배").ids


def test_encode_gives_unit_vectors_in_order(folder: Path) -> None:
    task = make(folder)
    task.module.eval()
    vectors = task.encode(["배가 아파서", "the ship left the harbour", "배"])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.allclose(vectors[2], task.encode(["배"])[0], atol=1e-5)
