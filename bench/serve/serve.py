"""The server under load: 64 clients, against itself without batching and a plain server.

    python bench/run.py serve [--seconds 60] [--clients 64] [--rounds 1] [--no-peer]

All servers run at once and are loaded in turn, with the same weights and texts. It exits with 1
when something is short of its aim.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.common import Row, english, exported, minilm, resident, spread
from bench.serve.load import Load, run_load

AIM = 2.5  # times the throughput of each of the others
WORST = 10  # times a lone client's median, the slowest hundredth's time
FLAT = 1.10  # times the memory after the first stretch


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-peer", action="store_true", help="leave the plain server out")


def run(options: argparse.Namespace) -> Iterator[Row]:
    texts = [text for text in english(20_000) if len(text) <= 40][:4000]
    names = ["malmoi", "batching off"] + ([] if options.no_peer else ["plain server"])
    ports = {name: free_port() for name in names}
    processes = {name: start(name, ports[name]) for name in names}
    try:
        for name in names:
            wait_until_up(ports[name], texts, processes[name])
        measured = measure(options, ports, processes, texts)
    finally:
        for process in processes.values():
            process.kill()
    yield from measured.rows()
    if short := measured.short():
        sys.exit(f"short of the aim: {', '.join(short)}")


@dataclass
class Measured:
    """What each server did under load and for a lone client, by round."""

    loads: dict[str, list[Load]]
    lone: dict[str, list[float]]
    memory: list[float] = field(default_factory=list)  # of malmoi, in MiB

    def rows(self) -> Iterator[Row]:
        """A row for each server; the ratio is malmoi's throughput to its own."""
        for name, loads in self.loads.items():
            yield {
                "server": name,
                "requests/s": round(statistics.median(load.rate for load in loads)),
                "malmoi is ×": spread(self.times(name)),
                "p50, ms": round(statistics.median(load.quantile(0.5) for load in loads), 1),
                "p99, ms": round(statistics.median(load.quantile(0.99) for load in loads), 1),
                "a lone client's p50, ms": round(statistics.median(self.lone[name]), 2),
                "processor a request, ms": round(statistics.median(map(cost, loads)), 2),
                "client's, ms": round(statistics.median(map(own_cost, loads)), 3),
                "errors": sum(load.errors for load in loads),
            }
        yield {"server": "malmoi", "MiB after each round": [round(mib) for mib in self.memory]}

    def times(self, name: str) -> list[float]:
        """How many times the throughput of another server malmoi has."""
        pairs = zip(self.loads["malmoi"], self.loads[name], strict=True)
        return [own.rate / other.rate for own, other in pairs]

    def short(self) -> list[str]:
        """What does not reach its aim."""
        others = [name for name in self.loads if name != "malmoi"]
        found = [
            f"throughput against {n}" for n in others if statistics.median(self.times(n)) < AIM
        ]
        pairs = zip(self.loads["malmoi"], self.lone["malmoi"], strict=True)
        worst = statistics.median(load.quantile(0.99) / alone for load, alone in pairs)
        found += [f"p99 is {worst:.1f}× a lone client's p50"] if worst > WORST else []
        found += ["memory"] if self.memory[-1] > FLAT * self.memory[0] else []
        found += ["errors"] if any(load.errors for load in self.loads["malmoi"]) else []
        return found


def measure(
    options: argparse.Namespace,
    ports: dict[str, int],
    processes: "dict[str, subprocess.Popen[bytes]]",
    texts: list[str],
) -> Measured:
    """Load the servers in turn."""
    found = Measured({name: [] for name in ports}, {name: [] for name in ports})
    for _ in range(options.rounds):
        for name, port in ports.items():
            single = run_load(port, texts, clients=1, seconds=options.seconds / 12)
            found.lone[name].append(single.quantile(0.5))
            before = processor_seconds(processes[name].pid)
            load = run_load(port, texts, clients=options.clients, seconds=options.seconds)
            load.processor = processor_seconds(processes[name].pid) - before
            found.loads[name].append(load)
        found.memory.append(resident(processes["malmoi"].pid))
        print(f"round {len(found.memory)} of {options.rounds}", file=sys.stderr)
    return found


def start(name: str, port: int) -> "subprocess.Popen[bytes]":
    """Start a server on a port."""
    if name == "plain server":
        command = [sys.executable, str(Path(__file__).parent / "peer.py"), str(minilm())]
        command.append(str(port))
    else:
        command = [sys.executable, "-m", "malmoi", "serve", "--model", str(exported("int8"))]
        command += ["--reranker", "none", "--no-samples", "--port", str(port)]
        command += ["--no-batching"] if name == "batching off" else []
    return subprocess.Popen(command, stderr=sys.stderr)


def wait_until_up(port: int, texts: list[str], process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 600
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline or process.poll() is not None:
                sys.exit("a server did not start")
            time.sleep(0.2)
    run_load(port, texts, clients=8, seconds=2)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def cost(load: Load) -> float:
    """Processor time that the server spent on a request, in milliseconds."""
    return 1e3 * load.processor / max(len(load.times), 1)


def own_cost(load: Load) -> float:
    """The same of the clients, who share the cores."""
    return 1e3 * load.own / max(len(load.times), 1)


def processor_seconds(pid: int) -> float:
    """What a process has used of all cores; unlike a rate it hardly feels what else runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
