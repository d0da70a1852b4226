"""PDFs, read by PDFium in a process of its own with limits on time and memory."""

import atexit
import contextlib
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import DocumentError, counted, require
from . import pdf_worker
from .document import Content, FoundFile
from .pdf_layout import Line, Page, page_blocks

# Seconds that one page, or opening a file, may take, and all of a file's pages together.
PAGE_TIME = 30.0
FILE_TIME = 900.0
MOST_TEXT = 50_000_000  # characters of a file
_RECYCLED = 500  # files that one process reads; what it has not given back is given back then
_MADE_UP = re.compile(
    r"Microsoft \w+ - |untitled|제목 없음|.*\.(?:docx?|hwpx?|pptx?|xlsx?|indd|tmp|html?)$", re.I
)


def load_pdf(file: FoundFile) -> Iterator[Content]:
    """Read a PDF: paragraphs, headings by their size, lists, with their pages."""
    require("pypdfium2", extra="documents", purpose=f"reading {file.path}")
    pages: list[Page] = []
    odd = sampled = drawn = length = 0
    about: dict[str, Any] = {}
    for answer in _WORKERS.read(file.path):
        if "page" not in answer:
            about = answer
            break
        odd, sampled = odd + answer["odd"], sampled + answer["sampled"]
        drawn += bool(answer["drawn"])
        page = Page(answer["page"], answer["height"], [Line(*one) for one in answer["lines"]])
        length += sum(len(line.text) for line in page.lines)
        if length > MOST_TEXT:
            raise DocumentError(
                f"{file.path} has more than {MOST_TEXT:,} characters; expected a document. "
                "Break it up."
            )
        pages.append(page)
    _check(file.path, about)
    if not sampled:
        raise DocumentError(
            f"{file.path} has {'only images' if drawn else 'nothing'} on its "
            f"{counted(len(pages), 'page')}, as scans have; expected text. Run OCR over it first."
        )
    if odd > 0.4 * sampled:
        raise DocumentError(
            f"{file.path} has fonts that do not say which characters they show; expected text "
            "that can be copied. Run OCR over it first."
        )
    title = about["title"].strip()
    metadata = {"author": about["author"]} if about["author"] else {}
    yield Content(tuple(page_blocks(pages)), "" if _MADE_UP.match(title) else title, metadata)


def _check(path: Path, about: dict[str, Any]) -> None:
    """Raise the error that the other process told."""
    match about.get("error"):
        case None:
            return
        case "encrypted":
            reason = "is encrypted. Save it without a password."
        case "pages":
            most = pdf_worker.MOST_PAGES
            reason = f"has {about['count']:,} pages; expected at most {most:,}. Break it up."
        case "memory":
            reason = f"needs more memory than {pdf_worker.MEMORY / 2**30:.1f} GiB. Break it up."
        case "time":
            reason = f"was not read within {about['seconds']:.0f} seconds. Print it to a new PDF."
        case "ended":
            reason = "made its reader stop; it is damaged or made to harm. Take a new copy."
        case _:
            reason = f"is damaged ({about['kind']}); expected a whole PDF. Take a new copy."
    raise DocumentError(f"{path} {reason}")


class _Workers:
    """Keeps one process that reads PDFs, and starts another after a failure."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        atexit.register(self.close)

    def read(self, path: Path) -> Iterator[dict[str, Any]]:
        """Yield the pages of a file, then what ends it or the error that did."""
        with self._lock:
            worker = self._worker
            if worker is None or worker.is_used_up():
                self.close()
                worker = self._worker = _Worker()
            whole = False
            try:
                for answer in worker.answers(path):
                    whole = "page" not in answer and answer.get("error") not in ("time", "ended")
                    yield answer
            finally:
                if not whole:
                    self.close()

    def close(self) -> None:
        """End the process."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()


class _Worker:
    """A process that reads PDFs, and a thread that takes in its answers."""

    def __init__(self) -> None:
        # -P: the script's folder has modules named like those of the standard library.
        command = [sys.executable, "-P", pdf_worker.__file__]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._answers: queue.Queue[bytes] = queue.Queue(maxsize=64)
        self._read = 0
        self._owner = os.getpid()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")

    def is_used_up(self) -> bool:
        """Say whether it has read many files, has ended, or is that of a parent process."""
        ended = self._process.poll() is not None
        return ended or self._read >= _RECYCLED or self._owner != os.getpid()

    def answers(self, path: Path) -> Iterator[dict[str, Any]]:
        """Ask for a file and yield the answers until one ends it."""
        assert self._process.stdin is not None
        self._read += 1
        start = time.monotonic()
        try:
            self._process.stdin.write(json.dumps({"path": str(path)}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            yield {"error": "ended"}
            return
        while True:
            left = FILE_TIME - (time.monotonic() - start)
            try:
                line = self._answers.get(timeout=max(0.0, min(PAGE_TIME, left)))
            except queue.Empty:
                yield {"error": "time", "seconds": min(PAGE_TIME, FILE_TIME)}
                return
            answer: dict[str, Any] = json.loads(line) if line else {"error": "ended"}
            yield answer
            if "page" not in answer:
                return

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._owner == os.getpid():
            self._process.kill()
            self._process.wait()
            while self._thread.is_alive():  # it may be waiting for room in the queue
                with contextlib.suppress(queue.Empty):
                    self._answers.get(timeout=0.01)
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


_WORKERS = _Workers()
