"""How a server is configured: where it listens, and the limits of a request."""

from dataclasses import dataclass, field
from pathlib import Path

from ..errors import OptionError

LOOPBACK = ("127.0.0.1", "::1", "localhost")
MOST_TEXTS = 2048  # in one request, as OpenAI's own limit; the schemas bound their lists by it
UPLOAD_PATH = "/v1/documents"
MOST_FILES = 200  # of one upload, whatever the settings say
MOST_FACETS = 200  # folders, and types, that a corpus is described by
ON_MAP = 3000  # documents of a map; more cannot be told apart on a screen


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request, and all of them together, may ask of the server."""

    body_bytes: int = 4 * 1024 * 1024
    # All bodies being held at once. Past it requests are refused before they are read.
    held_bytes: int = 256 * 1024 * 1024
    answer_bytes: int = 256 * 1024 * 1024
    header_bytes: int = 32 * 1024
    texts: int = MOST_TEXTS  # in one request
    characters: int = 200_000  # in one text
    requests: int = 1024  # being answered at once
    connections: int = 2048  # open at once
    seconds: float = 60.0  # from the first byte to the answer
    body_seconds: float = 15.0  # for the body to arrive

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value <= 0:
                raise OptionError(f"the limit {name} is {value}; expected more than 0. Raise it.")
        if self.texts > MOST_TEXTS:
            raise OptionError(
                f"the limit texts is {self.texts:,}; expected at most {MOST_TEXTS:,}. Lower it."
            )


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How requests are gathered. `together=False` encodes each one by itself."""

    together: bool = True
    budget: int = 384  # tokens in one batch, all its texts together; as many as suit a cache
    even: int = 128  # tokens in a batch of short texts of one length; more bring little, and wait
    wait_seconds: float = 0.002  # the longest a text waits for others
    queue_tokens: int = 200_000  # waiting at once; past it the answer is 429

    def __post_init__(self) -> None:
        for name in ("budget", "even", "queue_tokens"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} is {getattr(self, name)}; expected 1 token or more.")
        if not 0 <= self.wait_seconds <= 1:
            raise OptionError(f"wait_seconds is {self.wait_seconds}; expected 0 to 1.")


@dataclass(frozen=True, kw_only=True)
class Uploads:
    """What may be uploaded, where that is allowed."""

    files: int = 20  # in one request
    bytes: int = 20 * 1024 * 1024  # in one request, all files together
    characters: int = 2_000_000  # in one file, of the text that was read from it
    documents: int = 1_000_000  # in the corpus; no more are added then

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value <= 0:
                raise OptionError(f"uploads have {value} {name}; expected more than 0. Raise it.")
        if self.files > MOST_FILES:
            raise OptionError(
                f"uploads have {self.files:,} files; expected at most {MOST_FILES}. Lower it."
            )

    @property
    def body_bytes(self) -> int:
        """The longest body: base64 takes four bytes for three, and names take some."""
        return self.bytes * 4 // 3 + self.files * 8192


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """All options of `malmoi serve` but what it serves."""

    host: str = "127.0.0.1"
    port: int = 8010
    keys: Path | None = None  # a file of API keys; anyone may call when there is none
    audit: Path | None = None  # a file of who asked for what, without texts
    cors: tuple[str, ...] = ()
    host_names: tuple[str, ...] = ()  # names this server is known by, besides its address
    limits: Limits = field(default_factory=Limits)
    batching: Batching = field(default_factory=Batching)
    uploads: Uploads | None = None  # None takes no files
    stop_seconds: float = 30.0  # how long a stop waits for what was accepted

    def __post_init__(self) -> None:
        if self.uploads is not None and self.keys is None and self.host not in LOOPBACK:
            raise OptionError(
                f"files may be uploaded on {self.host} without keys: anyone who reaches this "
                "machine could add documents. Name keys with --api-keys, or listen on 127.0.0.1."
            )
