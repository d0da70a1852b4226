"""What malmoi logs, for tests: a list that fills while a test runs."""

import logging


class _Recorder(logging.Handler):
    def __init__(self, messages: list[str]) -> None:
        super().__init__()
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def record_messages(level: int = logging.INFO) -> list[str]:
    """Give a list that takes in every message of a level and above until the test ends."""
    messages: list[str] = []
    logger = logging.getLogger("malmoi")
    logger.addHandler(_Recorder(messages))
    logger.setLevel(level)
    return messages


def forget_recorders() -> None:
    """Remove all recorders, as every test does when it ends."""
    logger = logging.getLogger("malmoi")
    logger.handlers[:] = [one for one in logger.handlers if not isinstance(one, _Recorder)]
