"""Encoding in several processes, and on several machines with Ray."""

from .processes import encode_in_processes
from .ray import EncodedDataset, encode_dataset

__all__ = ["EncodedDataset", "encode_dataset", "encode_in_processes"]
