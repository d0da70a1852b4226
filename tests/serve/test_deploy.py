"""The deployments of deploy/: the server under its unit's system calls, and read-only."""

import ctypes
import errno
import os
import platform
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import malmoi
from malmoi.corpus import Corpus
from tests.support.servers import Served, process

DEPLOY = Path(__file__).parents[2] / "deploy"
# Numbers of x86-64 for systemd's groups of system calls; those that are in no group of
# @system-service are denied whatever a unit adds to it.
OUTSIDE = {
    "ptrace": 101,
    "perf_event_open": 298,
    "lookup_dcookie": 212,
    "modify_ldt": 154,  # debug
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "fsopen": 430,
    "move_mount": 429,
    "uselib": 134,
    "ustat": 136,
    "sysfs": 139,
    "_sysctl": 156,
    "vserver": 236,  # obsolete
}
GROUPS = {
    "@privileged": {
        "chown": 92,
        "fchown": 93,
        "lchown": 94,
        "fchownat": 260,
        "settimeofday": 164,
        "adjtimex": 159,
        "clock_settime": 227,
        "clock_adjtime": 305,
        "init_module": 175,
        "delete_module": 176,
        "finit_module": 313,
        "iopl": 172,
        "ioperm": 173,
        "reboot": 169,
        "kexec_load": 246,
        "swapon": 167,
        "swapoff": 168,
        "acct": 163,
        "bpf": 321,
        "capset": 126,
        "chroot": 161,
        "setuid": 105,
        "vhangup": 153,
        "setgroups": 116,
        "setreuid": 113,
        "setresuid": 117,
        "setfsuid": 122,
        "quotactl": 179,
        "sethostname": 170,
        "setdomainname": 171,
        "open_by_handle_at": 304,
    },
    "@resources": {
        "mbind": 237,
        "set_mempolicy": 238,
        "migrate_pages": 256,
        "move_pages": 279,
        "sched_setaffinity": 203,
        "sched_setattr": 314,
        "sched_setparam": 142,
        "sched_setscheduler": 144,
        "setpriority": 141,
        "setrlimit": 160,
        "ioprio_set": 251,
    },
}
X86_64 = 0xC000003E
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000


def settings_of(unit: Path, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)


def denied(unit: Path) -> set[int]:
    """The system calls that a unit of @system-service refuses."""
    first, *others = settings_of(unit, "SystemCallFilter")
    assert first == "@system-service" and all(line.startswith("~") for line in others)
    names = [name for line in others for name in line[1:].split()]
    return set(OUTSIDE.values()).union(*(GROUPS[name].values() for name in names))


def filter_calls(numbers: set[int], action: int) -> Callable[[], None]:
    """Give what installs a seccomp filter in a new process: these calls are refused."""
    load, equal, give = 0x20, 0x15, 0x06
    program = [(load, 0, 0, 4), (equal, 1, 0, X86_64), (give, 0, 0, _KILL), (load, 0, 0, 0)]
    for number in sorted(numbers):
        program += [(equal, 0, 1, number), (give, 0, 0, action)]
    program.append((give, 0, 0, _ALLOW))
    code = b"".join(struct.pack("HBBI", *one) for one in program)
    buffer = ctypes.create_string_buffer(code)
    header = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(buffer))
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def install() -> None:
        kept = (buffer, header)  # noqa: F841 - the kernel reads them now
        if prctl(38, 1, 0, 0, 0) or prctl(22, 2, header, 0, 0):
            os._exit(99)

    return install


@pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux", reason="numbers are of x86-64 Linux"
)
@pytest.mark.parametrize("kills", [False, True])
def test_the_server_runs_under_the_system_calls_of_its_unit(
    bundle: Path, tmp_path: Path, kills: bool
) -> None:
    """Also where a refused call kills, as it does in units without SystemCallErrorNumber."""
    unit = DEPLOY / "malmoi.service"
    assert settings_of(unit, "SystemCallErrorNumber") == ["EPERM"]
    numbers = denied(unit)
    if kills and os.geteuid() == 0:
        numbers -= {GROUPS["@privileged"]["fchown"]}  # SQLite's, as root alone
    install = filter_calls(numbers, _KILL if kills else _ERRNO | errno.EPERM)
    with Corpus.open(tmp_path / "notes.malmoi", malmoi.load(bundle)) as corpus:
        corpus.add([{"id": "0", "text": "the cat sleeps"}])
    options = ("--model", bundle, "--reranker", "none", "--corpus", tmp_path / "notes.malmoi")
    with process(*options, cwd=tmp_path, preexec=install) as (server, running):
        check_routes(server)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=20) == 0
    assert "rror" not in (tmp_path / "serve.log").read_text()


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root may mount")
def test_the_server_reads_a_corpus_from_a_read_only_place(bundle: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with Corpus.open(place / "notes.malmoi", malmoi.load(bundle)) as corpus:
        corpus.add([{"id": "0", "text": "the cat sleeps"}])
    unshare, namespace = ctypes.CDLL(None).unshare, 0x20000

    def make_read_only() -> None:
        commands = (f"mount --bind {place} {place}", f"mount -o remount,ro,bind {place}")
        if (
            unshare(namespace)
            or os.system("mount --make-rprivate /")
            or any(map(os.system, commands))
        ):
            os._exit(99)

    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("this machine gives no mount namespaces")
    options = ("--model", bundle, "--reranker", "none", "--corpus", place / "notes.malmoi")
    with process(*options, cwd=tmp_path, preexec=make_read_only) as (server, _):
        check_routes(server)
    assert sorted(path.name for path in place.iterdir()) in (
        ["notes.malmoi"],
        ["notes.malmoi", "notes.malmoi.index"],
    )


def check_routes(server: Served) -> None:
    vectors = server.post("/v1/embeddings", {"input": ["cat"] * 100}).json["data"]
    assert len(vectors) == 100
    [hit] = server.post("/v1/search", {"query": "cat"}).json["hits"]
    assert hit["id"] == "0"
    assert server.post("/v1/link", {"mentions": ["당뇨병"]}).status == 200


def test_the_filter_of_these_tests_does_refuse(tmp_path: Path) -> None:
    """What the unit denied before, and what killed the server then."""
    install = filter_calls(set(GROUPS["@resources"].values()), _KILL)
    command = [sys.executable, "-c", "import os; os.sched_setaffinity(0, os.sched_getaffinity(0))"]
    done = subprocess.run(command, preexec_fn=install, check=False)
    assert done.returncode == -signal.SIGSYS


def test_both_deployments_are_plain_users_that_write_nothing() -> None:
    unit, image = DEPLOY / "malmoi.service", (DEPLOY / "Containerfile").read_text()
    assert settings_of(unit, "User") == ["malmoi"] and settings_of(unit, "ProtectSystem") == [
        "strict"
    ]
    assert settings_of(unit, "NoNewPrivileges") == ["yes"] and settings_of(unit, "MemoryMax")
    assert "USER 10001" in image and "--read-only" in image and "--memory" in image
    base = r"^ARG BASE=\S+:\d+\.\d+\.\d+-\S+@sha256:[0-9a-f]{64}$"
    assert re.search(base, image, re.MULTILINE)
    assert image.count("FROM ${BASE}") == 2
    assert all(
        "--require-hashes" in line or "--no-index" in line
        for line in image.splitlines()
        if "pip install" in line
    )


@pytest.mark.parametrize("path", ["/opt/malmoi/bin/malmoi"])
def test_systemd_knows_every_line_of_the_unit(tmp_path: Path, path: str) -> None:
    text = (DEPLOY / "malmoi.service").read_text().replace(path, "/bin/true")
    (tmp_path / "malmoi.service").write_text(text)
    try:
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(tmp_path / "malmoi.service")],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("systemd-analyze is not installed")
    assert "malmoi.service" not in done.stderr, done.stderr
