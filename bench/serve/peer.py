"""A plain embedding server as many are written: FastAPI, and sentence-transformers in a thread."""

import base64
import sys

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer


class Asked(BaseModel):
    """The part of OpenAI's shape that the load sends."""

    input: str | list[str]
    encoding_format: str = "float"


def make(folder: str) -> FastAPI:
    """Make the application; a plain `def` route runs in FastAPI's threads."""
    model = SentenceTransformer(folder, device="cpu")
    app = FastAPI()

    @app.post("/v1/embeddings")
    def embeddings(asked: Asked) -> dict[str, object]:
        texts = [asked.input] if isinstance(asked.input, str) else asked.input
        vectors = model.encode(texts, show_progress_bar=False, normalize_embeddings=True)
        rows = [base64.b64encode(row.tobytes()).decode() for row in vectors]
        data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
        return {"object": "list", "data": data}

    return app


if __name__ == "__main__":
    uvicorn.run(make(sys.argv[1]), port=int(sys.argv[2]), log_level="warning", access_log=False)
