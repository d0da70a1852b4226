"""Texts → token ids → an onnxruntime session → pooled vectors, without torch."""
