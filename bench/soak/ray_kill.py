"""A Ray cluster of two nodes encodes a data set, and one node is killed in the middle.

    python bench/run.py ray_kill [--rows 40000] [--model ko-en-static] [--runs 1]

The nodes are real: each has its own raylet and its own workers, on this machine. When a third of
the parts are there, the raylet of the second node and every worker of it get SIGKILL. Then each
row must be there once, in order, with the vector that plain encoding gives; and the same command
again must change nothing.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# A node is dead after three unanswered calls; the default waits longer than this test takes.
QUICK = {"health_check_initial_delay_ms": 5000, "health_check_period_ms": 1000}
PATIENT = {"health_check_timeout_ms": 20000, "health_check_failure_threshold": 3}

import numpy as np  # noqa: E402
import psutil  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import malmoi  # noqa: E402
from bench.common import Row  # noqa: E402


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--part-rows", type=int, default=1000)
    parser.add_argument("--model", default="ko-en-static")
    parser.add_argument("--runs", type=int, default=1)


def run(options: argparse.Namespace) -> Iterator[Row]:
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as folder:
            yield once(Path(folder), options)


def once(folder: Path, options: argparse.Namespace) -> Row:
    """One cluster, one killing."""
    from ray.cluster_utils import Cluster

    texts = write_texts(folder / "in.parquet", options.rows)
    head = {"num_cpus": 1, "object_store_memory": 100 << 20, "_system_config": QUICK | PATIENT}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        node = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
        command = [sys.executable, "-W", "ignore", "-m", "malmoi", "encode", folder / "in.parquet"]
        command += ["-m", options.model, "--ray", cluster.address, "--out", folder / "out"]
        command += ["--part-rows", str(options.part_rows)]
        started = time.perf_counter()
        driver = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        at = wait_for_parts(folder / "out", options.rows // options.part_rows // 3, driver)
        killed = kill(node)
        _, errors = driver.communicate(timeout=900)
        seconds = time.perf_counter() - started
        before = {path.name: path.stat().st_mtime_ns for path in (folder / "out").glob("*.parquet")}
        again = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=300)
    finally:
        cluster.shutdown()
    after = {path.name: path.stat().st_mtime_ns for path in (folder / "out").glob("*.parquet")}
    check(folder, texts, options.model)
    return {
        "rows": options.rows,
        "parts": len(after),
        "parts when killed": at,
        "processes killed": killed,
        "exit codes": f"{driver.returncode}, {again.returncode}",
        "parts lost and done again": lost(errors),
        "rows out, each once": options.rows,  # `check` would have failed
        "parts changed by a second run": len(set(before.items()) ^ set(after.items())),
        "s": round(seconds),
    }


def write_texts(path: Path, count: int) -> list[str]:
    """Texts that are all different."""
    texts = [f"{i}번 환자는 당뇨병으로 내원함. patient {i * 7919 % count}" for i in range(count)]
    pq.write_table(pa.table({"id": list(range(count)), "text": texts}), path, row_group_size=3000)
    return texts


def wait_for_parts(out: Path, count: int, driver: "subprocess.Popen[str]") -> int:
    """Wait until so many parts are there."""
    while (found := len(list(out.glob("part-*.parquet")))) < count:
        if driver.poll() is not None:
            sys.exit(f"the run ended before the kill: {driver.communicate()[1]}")
        time.sleep(0.02)
    return found


def kill(node: object) -> int:
    """SIGKILL a node's raylet and all that it has started, workers first."""
    raylets = [info.process.pid for info in node.all_processes["raylet"]]  # type: ignore[attr-defined]
    doomed = [child for pid in raylets for child in psutil.Process(pid).children(recursive=True)]
    for process in [*doomed, *map(psutil.Process, raylets)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    return len(doomed) + len(raylets)


def lost(errors: str) -> int:
    """How many parts the driver says were lost."""
    lines = [line for line in errors.splitlines() if "were lost with their workers" in line]
    return sum(int(line.split(" ")[1].replace(",", "")) for line in lines)


def check(folder: Path, texts: list[str], model: str) -> None:
    """Every row once, in order, with its own vector."""
    found = pq.read_table(folder / "out")
    assert found["id"].to_pylist() == list(range(len(texts))), "rows are missing, twice or moved"
    assert found["text"].to_pylist() == texts
    vectors = np.stack(found["vector"].to_numpy())
    np.testing.assert_allclose(vectors, malmoi.load(model).encode(texts), atol=1e-5)
