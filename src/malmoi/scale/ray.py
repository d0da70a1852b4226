"""Encoding a data set on a Ray cluster: .parquet in, .parquet with vectors out.

Ray Data gives the parts to a pool of actors, each of which keeps a model and writes files of
vectors. A part that is lost with its node goes into the next round, together with all others that
have no file yet: only the files in the output folder say what is done. So every row comes out
once, however often nodes die, and a run that was stopped can be resumed.
"""

import contextlib
import logging
import os
import platform
import socket
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import errors
from ..bundle.bundle import DEFAULT, find_model, open_bundle
from ..bundle.manifest import MANIFEST
from ..encoders import TextEncoder, load
from ..encoders.base import OnLong
from ..errors import (
    BundleError,
    CutWarning,
    DataError,
    MalmoiError,
    OptionError,
    by_number,
    counted,
    require,
)
from ..io.files import writing
from ..io.fingerprint import sha256
from ..io.progress import Advance, progressing
from ..runtime.pooling import Precision
from ..runtime.session import usable_cores
from .parts import VECTOR, DatasetPart, EncodingSettings, Plan, count_rows, find_inputs, read_part

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PartReport:
    """The result of a part; `kind` and `problem` are empty when it is done.

    `kind` is the class of a malmoi error; a problem without one is worth another try.
    """

    name: str
    rows: int = 0
    cut: int = 0
    empty: int = 0
    kind: str = ""
    problem: str = ""


class PartEncoder:
    """An actor that encodes parts with one model, loaded when the first part comes.

    Problems are reported instead of raised: Ray writes exceptions into its logs, and one might
    contain a user's text.
    """

    def __init__(self, settings: EncodingSettings, out: str, threads: int) -> None:
        self._settings, self._out, self._threads = settings, Path(out), threads
        self._encoder: TextEncoder | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Encode a part given as a row of Ray Data, and return its report as another."""
        part = DatasetPart(row["name"], row["file"], int(row["start"]), int(row["rows"]))
        return vars(self.encode(part))

    def encode(self, part: DatasetPart) -> PartReport:
        """Write a part's file; one that exists is left as it is."""
        if (self._out / part.name).exists():
            return PartReport(part.name, part.rows)
        try:
            self._encoder = self._encoder or self._open()
            return self._write(part, self._encoder)
        except MalmoiError as error:
            return PartReport(part.name, kind=type(error).__name__, problem=str(error))
        except Exception as error:  # the message of a foreign error may quote a user's text
            return PartReport(part.name, problem=f"{type(error).__name__} on {platform.node()}")

    def _open(self) -> TextEncoder:
        settings = self._settings
        try:
            found = model_digest(settings.model)
        except BundleError as error:
            raise BundleError(
                f"the node {platform.node()} cannot use the model {settings.model} ({error}) "
                "Put the same model in the same place on every node."
            ) from error
        if found != settings.digest:
            raise BundleError(
                f"the node {platform.node()} has another model {settings.model}; expected the same "
                "on every node. Copy it there again."
            )
        return load(settings.model, threads=self._threads)

    def _write(self, part: DatasetPart, encoder: TextEncoder) -> PartReport:
        arrow = require("pyarrow", extra="scale", purpose="writing .parquet")
        parquet = require("pyarrow.parquet", extra="scale", purpose="writing .parquet")
        table, settings = read_part(part), self._settings
        if table.num_rows != part.rows:
            raise DataError(
                f"{part.file} has changed since the run began; expected "
                f"{counted(part.rows, 'row')} from row {part.start:,} on, found "
                f"{table.num_rows:,}. Start again in another folder."
            )
        texts = [text or "" for text in table.column(settings.column).to_pylist()]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            vectors = encoder.encode(texts, **settings.options())
        flat = arrow.array(np.ascontiguousarray(vectors).reshape(-1))
        column = arrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        with writing(self._out / part.name) as file:
            parquet.write_table(table.append_column(VECTOR, column), file)
        empty = sum(not text.strip() for text in texts)
        return PartReport(part.name, part.rows, _cut(caught), empty)


def _cut(caught: list[warnings.WarningMessage]) -> int:
    """How many texts were cut, by the encoder's warnings."""
    messages = [str(one.message) for one in caught if issubclass(one.category, CutWarning)]
    return sum(int(message.split(" ", 1)[0].replace(",", "")) for message in messages)


def model_digest(model: str) -> str:
    """The sha256 of a model's manifest, which has those of all files, or else of its graph."""
    bundle = open_bundle(find_model(model))
    manifest = bundle.folder / MANIFEST
    return sha256(manifest if manifest.is_file() else bundle.graph)


_FRUITLESS = 3  # rounds without a finished part before giving up


@dataclass(frozen=True)
class EncodedDataset:
    """The result of `encode_dataset`: rows and parts in the folder, and how it went."""

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

    Rows keep their columns and their order (by the names of the files in the folder) and get a
    column `vector`. Every node must have malmoi and the model under the same name, and see inputs
    and output under the same paths. A second call with the same arguments resumes the first.

    Args:
        address: the cluster's HOST:PORT, "auto" for the one this machine belongs to, or "local" for
            the cores of this machine alone.
        part_rows: rows in a part, which is lost or done as a whole.
        threads: cores for each actor.
    """
    # long because every option has a line of its own
    if part_rows < 1:
        raise OptionError(f"part_rows is {part_rows}; expected 1 or more. 16384 is the default.")
    listed = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    ray = _import_ray()
    settings = _settings(
        model, column, dim=dim, precision=precision, prompt=prompt, on_long=on_long
    )
    plan = Plan(find_inputs(listed, column), settings, part_rows)
    folder = Path(out).resolve()
    plan.save_or_check(folder)
    parts = plan.parts()
    found = len(parts) - len(_missing(parts, folder))
    if found:
        logger.info(
            f"{found:,} of {counted(len(parts), 'part')} {by_number(found, 'was', 'were')} done "
            "already"
        )
    rounds: list[list[PartReport]] = []
    if found < len(parts):
        total = sum(part.rows for part in _missing(parts, folder))
        with (
            _connected(ray, address),
            progressing("encoding", total=total, shown=progress) as advance,
        ):
            cluster = _Cluster(ray, settings, folder, threads)
            rounds = _until_done(cluster, parts, advance)
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
class _Cluster:
    """A cluster and what is asked of it."""

    ray: Any
    settings: EncodingSettings
    out: Path
    threads: int


def _settings(model: str | Path | None, column: str, **options: Any) -> EncodingSettings:
    """Collect what the vectors depend on, and try it on a word before using the cluster."""
    name = str(model or DEFAULT)
    name = str(Path(name).resolve()) if Path(name).exists() else name
    encoder = load(name, threads=1)
    settings = EncodingSettings(name, model_digest(name), column, **options)
    encoder.encode("말", **options)
    return settings


def _until_done(
    cluster: _Cluster, parts: list[DatasetPart], advance: Advance
) -> list[list[PartReport]]:
    """Run rounds over the parts that have no file until there are none."""
    rounds: list[list[PartReport]] = []
    fruitless = 0
    while missing := _missing(parts, cluster.out):
        if rounds:
            lost = "parts were lost with their workers; trying them"
            logger.info(
                f"{counted(len(missing), 'part was lost with its worker; trying it', lost)} again"
            )
        rounds.append(_round(cluster, missing, advance))
        fruitless = 0 if len(_missing(parts, cluster.out)) < len(missing) else fruitless + 1
        time.sleep(fruitless)  # a failed node may come back soon
        if fruitless == _FRUITLESS:
            problems = [report.problem for report in rounds[-1] if report.problem]
            raise MalmoiError(
                f"{_FRUITLESS} rounds finished no part "
                f"({problems[0] if problems else 'no worker returned one'}); expected every node "
                "to have malmoi and enough memory. Finished parts are kept: run it again then."
            )
    return rounds


def _round(cluster: _Cluster, parts: list[DatasetPart], advance: Advance) -> list[PartReport]:
    reports = []
    try:
        for report in _reports(cluster, parts):
            if report.kind:
                raise getattr(errors, report.kind, MalmoiError)(report.problem)
            advance(report.rows)
            reports.append(report)
    except MalmoiError:
        raise
    except Exception as error:  # the files show what is done; the next round does the rest
        reports.append(PartReport("", problem=type(error).__name__))
    return reports


def _reports(cluster: _Cluster, parts: list[DatasetPart]) -> Iterator[PartReport]:
    """Let Ray Data run the parts, one per block and task, on as many actors as fit."""
    data = require("ray.data", extra="scale", purpose="encoding on a cluster")
    cores = int(cluster.ray.cluster_resources().get("CPU", 1))
    actors = max(1, min(len(parts), cores // cluster.threads))
    rows = data.from_items([asdict(part) for part in parts], override_num_blocks=len(parts))
    # The pool restarts actors, but Ray does not retry their tasks: they would wait for the same
    # actor, forever if its node is gone. The next round takes them.
    mapped = rows.map(
        PartEncoder,
        fn_constructor_args=(cluster.settings, str(cluster.out), cluster.threads),
        compute=data.ActorPoolStrategy(size=actors, max_tasks_in_flight_per_actor=2),
        num_cpus=cluster.threads,
        max_restarts=-1,
        max_task_retries=0,
    )
    mapped.context.max_errored_blocks = -1
    for row in mapped.iter_rows():
        yield PartReport(**row)


def _import_ray() -> Any:
    # Read by Ray when it starts: no usage statistics leave this machine.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Its C++ part writes errors to stderr, past every logger.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    # On a busy machine its agents start more slowly than the half minute it allows them.
    os.environ.setdefault("RAY_agent_register_timeout_ms", "120000")
    require("pyarrow", extra="scale", purpose="encoding on a cluster")
    ray = require("ray", extra="scale", purpose="encoding on a cluster")
    data = require("ray.data", extra="scale", purpose="encoding on a cluster")
    with warnings.catch_warnings():  # it warns about its own settings
        warnings.simplefilter("ignore", DeprecationWarning)
        data.DataContext.get_current().enable_progress_bars = False
    return ray


@contextlib.contextmanager
def _connected(ray: Any, address: str) -> Iterator[None]:
    """Connect to a cluster for the block; an existing connection is used as it is."""
    if ray.is_initialized():
        yield
        return
    _check_address(address)
    local = {"num_cpus": usable_cores(), "include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **local)
    except Exception as error:  # it raises Exception itself when a node does not start in time
        raise _no_cluster(address, error) from error
    # Ray Data's errors about lost workers are replaced by one line of our own.
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Raise for a bad address, or one that does not answer: Ray would wait for minutes."""
    if address in ("local", "auto"):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise OptionError(
            f"{address} is not the address of a cluster; expected HOST:PORT of its head, auto or "
            "local. Run the command on a machine of the cluster: Ray's remote client (ray://) is "
            "not used."
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


def _missing(parts: list[DatasetPart], out: Path) -> list[DatasetPart]:
    there = {path.name for path in out.glob("part-*.parquet")}
    return [part for part in parts if part.name not in there]


def _checked(parts: list[DatasetPart], out: Path) -> int:
    """Count the rows of all parts by their footers; delete what killed workers left behind."""
    for path in out.glob(".part-*.part"):
        path.unlink(missing_ok=True)
    for part in parts:
        found = count_rows(out / part.name)
        if found != part.rows:
            raise MalmoiError(
                f"{out / part.name} has {counted(found, 'row')}; expected {part.rows:,}. Remove "
                "the file and run again."
            )
    return sum(part.rows for part in parts)
