"""One way of making vectors, in a process of its own: reads orders on stdin, answers in seconds.

Run by the bench `speed`, under the Python whose packages it measures. An order is a JSON object
{"texts": file of a JSON list, "single": bool, "batch": n}; the answer is {"seconds", "texts"}.
"""

import json
import sys
import time
from pathlib import Path


def malmoi_encode(folder: str):
    import malmoi

    encoder = malmoi.load(folder)
    return lambda texts, batch: encoder.encode(texts)


def st_encode(folder: str):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu")
    return lambda texts, batch: model.encode(texts, batch_size=batch, show_progress_bar=False)


def st_onnx_encode(folder: str):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(
        folder, backend="onnx", device="cpu", model_kwargs={"provider": "CPUExecutionProvider"}
    )
    return lambda texts, batch: model.encode(texts, batch_size=batch, show_progress_bar=False)


def fastembed_encode(folder: str):
    """Fastembed's own model class over a graph on disk, as its users add one.

    By itself it reads the folder's older limit and cuts at 128 tokens, half the paragraphs that
    the others read; it is given the model's 256, so that all do the same work.
    """
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    TextEmbedding.add_custom_model(
        model="bench/local",
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(hf="bench/local"),
        dim=384,
        model_file="onnx/model.onnx",
    )
    model = TextEmbedding("bench/local", specific_model_path=folder)
    model.model.tokenizer.enable_truncation(max_length=256)
    return lambda texts, batch: list(model.embed(texts, batch_size=batch))


WAYS = {
    "malmoi": malmoi_encode,
    "st": st_encode,
    "st-onnx": st_onnx_encode,
    "fastembed": fastembed_encode,
}


def main() -> None:
    way, folder = sys.argv[1:3]
    encode = WAYS[way](folder)
    encode(["warm up", "준비 운동"] * 8, 8)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        order = json.loads(line)
        texts = json.loads(Path(order["texts"]).read_text("utf-8"))
        start = time.perf_counter()
        if order["single"]:
            for text in texts:
                encode([text], 1)
        else:
            encode(texts, order["batch"])
        answer = {"seconds": time.perf_counter() - start, "texts": len(texts)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
