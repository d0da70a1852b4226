"""Adapters to other libraries. Each file needs its library and is imported only when asked for."""

from ..encoders import TextEncoder
from ..errors import OptionError
from ..io.fingerprint import hash_data


def revision_of(encoder: TextEncoder) -> str:
    """A short identity of a model: that of its manifest, which has the hashes of its files."""
    return hash_data(encoder.manifest.to_json())


def check_revision(encoder: TextEncoder, revision: str | None) -> None:
    """Refuse a model that is not the one with which stored vectors were made."""
    if revision is not None and revision != revision_of(encoder):
        raise OptionError(
            f"the stored vectors were made with another model than {encoder.name} is now; expected "
            f"revision {revision}. Name that model, or store the texts again."
        )
