"""Cross-encoders written to and read from folders, as training leaves them."""

from pathlib import Path

from sentence_transformers import CrossEncoder


def save_cross_encoder(model: CrossEncoder, folder: Path) -> None:
    """Write a model's folder."""
    model.save_pretrained(str(folder), create_model_card=False)


def load_cross_encoder(folder: Path) -> CrossEncoder:
    """Open a folder or a bundle; a pooler that no head reads is left out."""
    model: CrossEncoder = CrossEncoder(str(folder), device="cpu", local_files_only=True)
    if len(model) > 1:
        model[0].model.pooler = None
    return model
