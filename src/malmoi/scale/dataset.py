"""Encoding a data set on a Ray cluster: .parquet in, .parquet with vectors out.

Ray Data hands the parts to a pool of actors. A part that is lost with its node fails alone, and
goes into the next round together with whatever else has no file yet; the files in the output's
folder, and nothing else, say what is done. So every row comes out once, however often nodes die,
and a run that was stopped goes on where it was.
"""

import contextlib
import logging
import os
import socket
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .. import errors
from ..catalog import DEFAULT
from ..encoder import load
from ..encoder.base import OnLong
from ..errors import MalmoiError, OptionError, by_number, counted, require
from ..precision import Precision
from ..progress import Advance, progressing
from ..session import usable_cores
from .parts import Part, Plan, Settings, check_part_rows, count_rows, find_inputs
from .worker import PartEncoder, Report, model_digest

logger = logging.getLogger(__name__)

_FRUITLESS = 3  # rounds without a part finished before we give up


@dataclass(frozen=True)
class EncodedDataset:
    """What `encode_dataset` made: rows and parts in the folder, and how it went."""

    folder: Path
    rows: int
    parts: int
    found: int  # parts that an earlier run had finished
    rounds: int
    cut: int
    empty: int


def encode_dataset(
    inputs: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    model: str | Path | None = None,
    address: str = "local",
    column: str = "text",
    dim: int | None = None,
    precision: Precision = "float32",
    prompt: str | None = None,
    on_long: OnLong = "cut",
    part_rows: int = 16384,
    threads: int = 1,
    progress: bool = False,
) -> EncodedDataset:
    """Encode the `column` of .parquet files on a Ray cluster into a folder of .parquet files.

    Rows keep their columns and their order (by the names of the files in the folder) and gain
    `vector`. `address` is the cluster's HOST:PORT, "auto" for the one this machine belongs to, or
    "local" for the cores of this machine alone. Every node must have malmoi, the model under the
    same name, and see inputs and output under the same paths. Calling again with the same
    arguments goes on with what is not done.
    """
    check_part_rows(part_rows)
    listed = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    ray = _import_ray()
    settings = _settings(model, column, dim, precision, prompt, on_long)
    plan = Plan(find_inputs(listed, column), settings, part_rows)
    folder = Path(out).resolve()
    plan.settle(folder)
    parts = plan.parts()
    found = len(parts) - len(_missing(parts, folder))
    if found:
        logger.info(
            f"{found:,} of {counted(len(parts), 'part')} {by_number(found, 'was', 'were')} done "
            "already"
        )
    rounds: list[list[Report]] = []
    if found < len(parts):
        total = sum(part.rows for part in _missing(parts, folder))
        with (
            _connected(ray, address),
            progressing("encoding", total=total, shown=progress) as advance,
        ):
            work = _Work(ray, settings, folder, threads)
            rounds = _until_done(work, parts, advance)
    reports = {report.name: report for one in rounds for report in one}
    return EncodedDataset(
        folder,
        rows=_checked(parts, folder),
        parts=len(parts),
        found=found,
        rounds=len(rounds),
        cut=sum(report.cut for report in reports.values()),
        empty=sum(report.empty for report in reports.values()),
    )


@dataclass(frozen=True)
class _Work:
    ray: Any
    settings: Settings
    out: Path
    threads: int


def _settings(
    model: str | Path | None,
    column: str,
    dim: int | None,
    precision: Precision,
    prompt: str | None,
    on_long: OnLong,
) -> Settings:
    """Fix what decides the vectors, and try it on a word here, before a cluster is asked."""
    name = str(model or DEFAULT)
    name = str(Path(name).resolve()) if Path(name).exists() else name
    options = {"dim": dim, "precision": precision, "prompt": prompt, "on_long": on_long}
    load(name, threads=1).encode("말", **options)  # type: ignore[arg-type]
    return Settings(name, model_digest(name), column, dim, precision, prompt, on_long)


def _until_done(work: _Work, parts: list[Part], advance: Advance) -> list[list[Report]]:
    """Run round after round over the parts that have no file."""
    rounds: list[list[Report]] = []
    fruitless = 0
    while missing := _missing(parts, work.out):
        if rounds:
            lost = "parts were lost with their workers; trying them"
            logger.info(
                f"{counted(len(missing), 'part was lost with its worker; trying it', lost)} again"
            )
        rounds.append(_round(work, missing, advance))
        fruitless = 0 if len(_missing(parts, work.out)) < len(missing) else fruitless + 1
        time.sleep(fruitless)  # what failed may be about to come back
        if fruitless == _FRUITLESS:
            problems = [report.problem for report in rounds[-1] if report.problem]
            raise MalmoiError(
                f"{_FRUITLESS} rounds went by without a part being finished "
                f"({problems[0] if problems else 'no worker came back with one'}); expected every "
                "node to have malmoi and memory for it. What is done is kept: run it again then."
            )
    return rounds


def _round(work: _Work, parts: list[Part], advance: Advance) -> list[Report]:
    reports = []
    try:
        for report in _reports(work, parts):
            if report.kind:
                raise getattr(errors, report.kind, MalmoiError)(report.problem)
            advance(report.rows)
            reports.append(report)
    except MalmoiError:
        raise
    except Exception as error:  # the files tell what is done; the rest is the next round's
        reports.append(Report("", problem=type(error).__name__))
    return reports


def _reports(work: _Work, parts: list[Part]) -> Iterator[Report]:
    """Have Ray Data run the parts, one a block and task, on as many actors as fit."""
    data = require("ray.data", extra="scale", purpose="encoding on a cluster")
    cores = int(work.ray.cluster_resources().get("CPU", 1))
    actors = max(1, min(len(parts), cores // work.threads))
    rows = data.from_items([asdict(part) for part in parts], override_num_blocks=len(parts))
    # The pool brings actors back as room allows, but their tasks are not sent again by Ray: they
    # would wait for the same actor, for ever if its node is gone. The next round takes them.
    mapped = rows.map(
        PartEncoder,
        fn_constructor_args=(work.settings, str(work.out), work.threads),
        compute=data.ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=2),
        num_cpus=work.threads,
        max_restarts=-1,
        max_task_retries=0,
    )
    mapped.context.max_errored_blocks = -1
    for row in mapped.iter_rows():
        yield Report(**row)


def _import_ray() -> Any:
    # Read by Ray when it starts: no reports of how it is used leave this machine.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Its own complaints go to stderr from C++, past every logger.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    # On a busy machine its helpers take longer to wake than the half minute it allows them.
    os.environ.setdefault("RAY_agent_register_timeout_ms", "120000")
    require("pyarrow", extra="scale", purpose="encoding on a cluster")
    ray = require("ray", extra="scale", purpose="encoding on a cluster")
    data = require("ray.data", extra="scale", purpose="encoding on a cluster")
    with warnings.catch_warnings():  # it warns of settings that it makes itself
        warnings.simplefilter("ignore", DeprecationWarning)
        data.DataContext.get_current().enable_progress_bars = False
    return ray


@contextlib.contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    """Connect to a cluster for the time of the block; a connection that is there is used."""
    if ray.is_initialized():
        yield
        return
    _check_address(address)
    local = {"num_cpus": usable_cores(), "include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **local)
    except Exception as error:  # it raises that very class when a node does not start in time
        raise _no_cluster(address, error) from error
    # Ray Data's complaints about lost workers are dealt with here, in a line of our own.
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Refuse an address that is none, or where nothing answers: Ray would wait for minutes."""
    if address in ("local", "auto"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise OptionError(
            f"{address} is no address of a cluster; expected HOST:PORT of its head, auto or local. "
            "Run the command on a machine of the cluster: Ray's remote client (ray://) is not used."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: Exception) -> MalmoiError:
    return MalmoiError(
        f"no Ray cluster answers at {address} ({type(error).__name__}); expected its head's "
        "HOST:PORT. Start one with: ray start --head --disable-usage-stats"
    )


def _missing(parts: list[Part], out: Path) -> list[Part]:
    there = {path.name for path in out.glob("part-*.parquet")}
    return [part for part in parts if part.name not in there]


def _checked(parts: list[Part], out: Path) -> int:
    """Count the rows of all parts by their footers; clear what killed workers left behind."""
    for path in out.glob(".part-*.part"):
        path.unlink(missing_ok=True)
    rows = 0
    for part in parts:
        found = count_rows(out / part.name)
        if found != part.rows:
            raise MalmoiError(
                f"{out / part.name} has {counted(found, 'row')}; expected {part.rows:,}. Remove "
                "the file and run again."
            )
        rows += found
    return rows
