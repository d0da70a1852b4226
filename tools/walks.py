"""Count the files of malmoi that one call of each main way goes through, with a profiler.

    python tools/walks.py

`tools/code_report.py` runs it for two commits. It needs the extras `serve` and `korean`.
"""

import asyncio
import contextlib
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import malmoi

SOURCE = str(Path(malmoi.__file__).parent)
STATE: dict[str, Any] = {}
NOTE = "pt는 DM nephropathy로 f/u 중. 폐렴 소견 없음."


@contextlib.contextmanager
def followed() -> Iterator[set[str]]:
    """Collect the files of malmoi in which a function is called, in all threads."""
    files: set[str] = set()

    def see(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(SOURCE):
            files.add(code.co_filename)

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        yield files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def walk(call: Callable[[], object]) -> int:
    """Count the files that a call goes through."""
    with followed() as files:
        call()
    return len(files)


async def ask(app: Any, body: dict[str, object]) -> int:
    """Send one request to an ASGI app and give the status."""
    sent: list[dict[str, Any]] = []
    raw = json.dumps(body).encode()
    headers = {
        "content-type": "application/json",
        "content-length": str(len(raw)),
        "host": "127.0.0.1",
    }
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/embeddings",
        "raw_path": b"/v1/embeddings",
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": STATE,
    }
    parts = [{"type": "http.request", "body": raw, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if parts:
            return parts.pop(0)
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return int(sent[0]["status"])


def embeddings() -> int:
    """Count the files of one request to /v1/embeddings, through the app without a socket."""
    from malmoi.serve.app import make_app
    from malmoi.serve.settings import ServerSettings
    from malmoi.serve.state import AppState, Resources

    state = AppState(Resources(malmoi.load()), ServerSettings())
    app = make_app(state)

    async def run() -> int:
        body: dict[str, object] = {"input": ["배가 아프다"], "model": "ko-en-small"}
        messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        life = asyncio.create_task(
            app({"type": "lifespan", "state": STATE}, messages.get, answers.put)
        )
        await messages.put({"type": "lifespan.startup"})
        await answers.get()
        assert await ask(app, body) == 200
        with followed() as files:
            assert await ask(app, body) == 200
        await messages.put({"type": "lifespan.shutdown"})
        await life
        return len(files)

    return asyncio.run(run())


def main() -> None:
    """Print the counts as one JSON object."""
    from malmoi.clinical import NoteReader

    found: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "docs").mkdir()
        (place / "docs/one.md").write_text("# 휴가\n\n연차는 1년에 15일이다.\n", "utf-8")
        (place / "docs/two.md").write_text("# Food\n\nThe cat sleeps on the sofa.\n", "utf-8")
        encoder = malmoi.load()
        found["walk: load and encode"] = walk(lambda: malmoi.load().encode(["배가 아프다", "cat"]))
        corpus = malmoi.Corpus.open(place / "walk.malmoi", encoder)
        found["walk: index of two files"] = walk(lambda: corpus.sync([place / "docs"]))
        corpus.search("연차는 며칠인가?")
        found["walk: search"] = walk(lambda: corpus.search("고양이는 어디서 자나?"))
        reader = NoteReader(malmoi.Linker("sample"))
        reader.scan(NOTE)
        found["walk: a note, second time"] = walk(lambda: reader.scan(NOTE))
    found["walk: embeddings request"] = embeddings()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
