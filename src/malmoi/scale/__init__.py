"""More than one process: for machines with more cores than one session feeds well."""

from .processes import encode_in_processes

__all__ = ["encode_in_processes"]
