"""More than one process, and more than one machine."""

from .dataset import EncodedDataset, encode_dataset
from .processes import encode_in_processes

__all__ = ["EncodedDataset", "encode_dataset", "encode_in_processes"]
