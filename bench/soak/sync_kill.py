"""Kill a sync of a folder that changes, again and again, and look whether the next completes it.

    python bench/run.py sync_kill [--kills 300] [--folder DIR]

Files are written, changed and deleted at random; a process syncs the folder and is ended by the
kernel at a moment nobody chose. Then one more sync runs to its end, and the corpus must hold
exactly the folder: the same files, every paragraph of theirs and no other, and nothing damaged.
"""

import argparse
import os
import random
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import malmoi
from bench.common import Row
from malmoi.corpus import Corpus
from tests.support import graphs

WORDS = [
    "배",
    "바다",
    "고양이",
    "강아지",
    "사과",
    "서버",
    "the",
    "cat",
    "sleeps",
    "boat",
    "sea",
    "pear",
    "diabetes",
]


def change(folder: Path, random: random.Random) -> None:
    """Write, change or delete some files."""
    for _ in range(random.randint(1, 8)):
        path = folder / f"part{random.randrange(4)}" / f"file{random.randrange(12)}.md"
        if path.exists() and random.random() < 0.3:
            path.unlink()
            continue
        path.parent.mkdir(exist_ok=True)
        paragraphs = [
            f"# Title {random.randrange(99)}",
            *(
                f"{' '.join(random.choices(WORDS, k=8))} {random.randrange(10**6)}."
                for _ in range(random.randint(1, 9))
            ),
        ]
        path.write_text("\n\n".join(paragraphs), "utf-8")


def sync(path: Path, bundle: Path, folder: Path) -> None:
    """Sync once, in a process of its own."""
    with Corpus.open(path, malmoi.load(bundle, threads=1), words="bigrams") as corpus:
        corpus.sync(folder)


def killed(path: Path, bundle: Path, folder: Path, seconds: float) -> bool:
    """Sync in a process that ends after some time of the processor; whether it was at work.

    The kernel ends it by SIGPROF, which like SIGKILL leaves it no time for anything, and unlike a
    time on the wall hits the same moments on a busy machine.
    """
    child = os.fork()
    if not child:
        try:
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            sync(path, bundle, folder)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def expected(folder: Path) -> dict[str, list[str]]:
    """The paragraphs of every file."""
    return {
        file.relative_to(folder).as_posix(): sorted(file.read_text("utf-8").split("\n\n")[1:])
        for file in folder.rglob("*.md")
    }


def stored(corpus: Corpus) -> dict[str, list[str]]:
    """The paragraphs of every document, from all of its passages."""
    return {
        one.document.id: sorted(
            part for passage in one.passages for part in passage.text.split("\n\n")
        )
        for one in corpus.store.scan()
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--folder", type=Path)


def run(options: argparse.Namespace) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        folder, path = Path(place) / "docs", Path(place) / "x.malmoi"
        folder.mkdir()
        bundle = graphs.write_bundle(Path(place) / "tiny")
        chance = random.Random(0)
        different = at_work = 0
        for _ in range(options.kills):
            change(folder, chance)
            at_work += killed(path, bundle, folder, chance.uniform(0.002, 0.06))
            sync(path, bundle, folder)
            with Corpus.open(path, malmoi.load(bundle, threads=1)) as corpus:
                damage = corpus.store.check()
                different += stored(corpus) != expected(folder) or bool(damage)
        yield {
            "kills": options.kills,
            "at work when killed": at_work,
            "different": different,
            "files at the end": len(expected(folder)),
        }
