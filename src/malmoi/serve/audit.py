"""The audit trail: who asked for what and when, as JSON lines, without any text of theirs."""

import datetime
import json
import logging
import os
from logging.handlers import RotatingFileHandler
from pathlib import Path

from ..errors import OutputError

_BYTES, _FILES = 20 * 1024 * 1024, 20  # of a file, and files that are kept besides it

logger = logging.getLogger(__name__)


class Audit:
    """A file with a line for each request; older ones are FILE.1, FILE.2, …"""

    def __init__(self, file: Path, *, size: int = _BYTES, files: int = _FILES) -> None:
        """Open it; others than the owner cannot read it."""
        try:
            os.close(os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
            self._file = RotatingFileHandler(
                file, maxBytes=size, backupCount=files, encoding="utf-8", delay=True
            )
        except OSError as error:
            raise OutputError(
                f"cannot write the audit trail {file}: {os.strerror(error.errno or 0)}. Name a "
                "file in a folder that can be written: --audit FILE"
            ) from error
        self._file.handleError = self._failed  # type: ignore[method-assign]

    def write(
        self, key: str, route: str, corpus: str, hits: int | None, status: int, seconds: float
    ) -> None:
        """Add a line; `route` is one of the declared paths, never what a client wrote."""
        line = {
            "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
            "key": key,
            "route": route,
            "corpus": corpus or None,
            "hits": hits,
            "status": status,
            "ms": round(seconds * 1000, 1),
        }
        text = json.dumps(line, ensure_ascii=False)
        self._file.emit(logging.LogRecord("audit", logging.INFO, "", 0, text, None, None))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @staticmethod
    def _failed(record: logging.LogRecord) -> None:
        logger.error("a line of the audit trail could not be written")
