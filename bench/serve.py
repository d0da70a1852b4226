"""The server under load: 64 clients, against itself without batching and a plain server.

    python bench/serve.py [--seconds 60] [--clients 64] [--against OTHER_CHECKOUT]

With --against, the server of another checkout is the only one it is compared with. All servers
stand at once and are loaded in turn, with the same weights and texts. It prints requests a second,
times, errors and memory, and exits with 1 when something is short of its aim.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

from common import ROOT, english, exported, minilm
from load import Load, run_load

AIM = 2.5  # times the throughput of each of the others
WORST = 10  # times a lone client's median, the slowest hundredth's time
FLAT = 1.10  # times the memory after the first stretch
OTHER = "other checkout"
NOT_SLOWER = 0.9  # times the throughput of another checkout


def main() -> None:
    options = arguments()
    texts = [text for text in english(20_000) if len(text) <= 40][:4000]
    names = ["malmoi", "batching off"] + ([] if options.no_peer else ["plain server"])
    if options.against:
        names = ["malmoi", OTHER]
    ports = {name: free_port() for name in names}
    processes = {name: start(name, ports[name], options.against) for name in names}
    try:
        for name in names:
            wait_until_up(ports[name], texts, processes[name])
        measure(options, names, ports, processes, texts)
    finally:
        for process in processes.values():
            process.kill()


def measure(options, names, ports, processes, texts) -> None:
    lone = {name: [] for name in names}
    loads: dict[str, list[Load]] = {name: [] for name in names}
    memory = []
    for _ in range(options.rounds):
        for name in names:
            single = run_load(ports[name], texts, clients=1, seconds=options.seconds / 12)
            lone[name].append(single.quantile(0.5))
            before = processor_seconds(processes[name].pid)
            load = run_load(ports[name], texts, clients=options.clients, seconds=options.seconds)
            load.processor = processor_seconds(processes[name].pid) - before
            loads[name].append(load)
        memory.append(resident(processes["malmoi"].pid))
        print(f"round {len(memory)} of {options.rounds}", file=sys.stderr)
    report(options, names, loads, lone, memory)


def report(options, names, loads, lone, memory) -> None:
    print(f"{options.clients} clients, {options.seconds:g} s a stretch, {options.rounds} rounds")
    for name in names:
        rate = statistics.median(load.rate for load in loads[name])
        p50 = statistics.median(load.quantile(0.5) for load in loads[name])
        p99 = statistics.median(load.quantile(0.99) for load in loads[name])
        alone = statistics.median(lone[name])
        errors = sum(load.errors for load in loads[name])
        print(
            f"{name:14} {rate:8.0f}/s  p50 {p50:7.1f} ms  p99 {p99:7.1f} ms  "
            f"alone {alone:6.2f} ms  errors {errors}  "
            f"{statistics.median(map(cost, loads[name])):.2f} ms of processor a request, "
            f"{statistics.median(map(own_cost, loads[name])):.3f} its client's"
        )
    short = []
    for name in names[1:]:
        pairs = zip(loads["malmoi"], loads[name], strict=True)
        ratios = [own.rate / other.rate for own, other in pairs]
        middle = statistics.median(ratios)
        print(f"{middle:.2f}× [{min(ratios):.2f}–{max(ratios):.2f}] the throughput of: {name}")
        pairs = zip(loads["malmoi"], loads[name], strict=True)
        spent = statistics.median(cost(other) / cost(own) for own, other in pairs)
        print(f"      its processor time a request is {spent:.2f}× malmoi's")
        aim = NOT_SLOWER if name == OTHER else AIM
        short += [f"throughput against {name}"] if middle < aim else []
    worst = statistics.median(
        load.quantile(0.99) / alone
        for load, alone in zip(loads["malmoi"], lone["malmoi"], strict=True)
    )
    print(f"p99 under load is {worst:.1f}× the median of a lone client")
    waits = [1e3 * options.clients / load.rate for load in loads["malmoi"]]
    print(f"so many clients wait {statistics.median(waits):.1f} ms on the mean at that rate")
    print(f"memory after each round: {', '.join(f'{mib:.0f}' for mib in memory)} MiB")
    short += ["p99"] if worst > WORST else []
    short += ["memory"] if memory[-1] > FLAT * memory[0] else []
    short += ["errors"] if any(load.errors for load in loads["malmoi"]) else []
    if short:
        sys.exit(f"short of the aim: {', '.join(short)}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-peer", action="store_true", help="leave the plain server out")
    parser.add_argument("--against", type=Path, help="another checkout to compare with")
    return parser.parse_args()


def start(name: str, port: int, against: Path | None) -> "subprocess.Popen[bytes]":
    """Start a server on a port."""
    if name == "plain server":
        command = [sys.executable, str(Path(__file__).parent / "serve_peer.py"), str(minilm())]
        command.append(str(port))
    else:
        command = [sys.executable, "-m", "malmoi", "serve", "--model", str(exported("int8"))]
        command += ["--reranker", "none", "--no-samples", "--port", str(port)]
        command += ["--no-batching"] if name == "batching off" else []
    root = against if against and name == OTHER else ROOT
    path = os.pathsep.join([str(root / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, stderr=sys.stderr)


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


def resident(pid: int) -> float:
    """A process's resident memory in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    main()
