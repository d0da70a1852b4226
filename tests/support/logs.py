"""What malmoi logs, for tests: a list that fills while a test runs, or a function that hears it."""

import contextlib
import logging
from collections.abc import Callable, Iterator


class _Recorder(logging.Handler):
    def __init__(self, hear: Callable[[str], None]) -> None:
        super().__init__()
        self.hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        """Hand the message on; what the listener raises reaches the code that logged."""
        self.hear(record.getMessage())


def record_messages(level: int = logging.INFO) -> list[str]:
    """Give a list that takes in every message of a level and above until the test ends."""
    messages: list[str] = []
    _attach(messages.append, level)
    return messages


@contextlib.contextmanager
def hearing(hear: Callable[[str], None]) -> Iterator[None]:
    """Call `hear` with every message that is logged in the block."""
    handler = _attach(hear)
    try:
        yield
    finally:
        logging.getLogger("malmoi").removeHandler(handler)


def _attach(hear: Callable[[str], None], level: int = logging.INFO) -> logging.Handler:
    logger, handler = logging.getLogger("malmoi"), _Recorder(hear)
    logger.addHandler(handler)
    logger.setLevel(level)
    return handler


def forget_recorders() -> None:
    """Remove all recorders, as every test does when it ends."""
    logger = logging.getLogger("malmoi")
    logger.handlers[:] = [one for one in logger.handlers if not isinstance(one, _Recorder)]
