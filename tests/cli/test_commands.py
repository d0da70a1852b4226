"""The command line as a person or a pipe uses it, each command once in a process of its own."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import safetensors.numpy

from tests.support.graphs import Run


def rows(stdout: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in stdout.splitlines()]


def test_encode_reads_stdin_and_prints_json_lines(run: Run, bundle: Path) -> None:
    done = run("encode", "-", "-m", bundle, stdin="배를 타고\nthe cat\n")
    assert done.returncode == 0, done.stderr
    found = rows(done.stdout)
    assert [row["text"] for row in found] == ["배를 타고", "the cat"]
    assert np.linalg.norm(found[0]["vector"]) == pytest.approx(1, abs=1e-5)
    assert done.stderr == ""  # nobody watches, nothing happened


def test_encode_reads_files_in_korean_encodings(
    run_here: Run, bundle: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.tsv").write_bytes("id\tnote\n1\t당뇨 신증\n".encode("cp949"))
    (tmp_path / "b.jsonl").write_text('{"note": "the cat"}\n', "utf-8-sig")
    done = run_here("encode", "a.tsv", "b.jsonl", "--column", "note", "-m", bundle)
    assert [row["text"] for row in rows(done.stdout)] == ["당뇨 신증", "the cat"]
    assert "a.tsv is cp949, not UTF-8" in done.stderr
    assert "b.jsonl begins with a byte-order mark" in done.stderr


@pytest.mark.parametrize("name", ["v.npy", "v.safetensors", "v.parquet"])
def test_encode_writes_files(run_here: Run, bundle: Path, tmp_path: Path, name: str) -> None:
    lines = "".join(f"cat {i} dog\n" for i in range(3000))
    done = run_here("encode", "-m", bundle, "--out", name, stdin=lines)
    assert done.returncode == 0 and done.stdout == ""
    assert f"wrote 3,000 vectors to {name}" in done.stderr
    path = tmp_path / name
    if name.endswith("npy"):
        vectors = np.load(path)
    elif name.endswith("safetensors"):
        vectors = safetensors.numpy.load_file(path)["vectors"]
    else:
        vectors = np.stack(pyarrow.parquet.read_table(path)["vector"].to_numpy())
    assert vectors.shape == (3000, 16)


def test_encode_in_processes(run: Run, run_here: Run, bundle: Path) -> None:
    lines = "".join(f"cat {i} dog\n" for i in range(10))
    alone = run_here("encode", "-m", bundle, stdin=lines)
    shared = run("encode", "-m", bundle, "--processes", 2, stdin=lines)
    assert rows(shared.stdout) == rows(alone.stdout)


def test_encode_options(run_here: Run, bundle: Path) -> None:
    done = run_here("encode", "-m", bundle, "--dim", 8, "--precision", "binary", stdin="배\n")
    assert len(rows(done.stdout)[0]["vector"]) == 1  # type: ignore[arg-type]
    done = run_here("encode", "-m", bundle, "--csv", "--dim", 2, stdin='배 "x", y\n')
    header, row = csv.reader(io.StringIO(done.stdout))
    assert header == ["text", "vector_0", "vector_1"] and row[0] == '배 "x", y'
    done = run_here("encode", "-m", bundle, "--table", stdin="배\n")
    assert "1 vector of 16 values" in done.stdout and "배" in done.stdout


def test_cut_texts_and_empty_lines_are_reported(run_here: Run, bundle: Path) -> None:
    done = run_here("encode", "-m", bundle, stdin="cat " * 50 + "\n\n배\n")
    assert len(rows(done.stdout)) == 3
    assert "1 of 3 texts was longer than 12 tokens and was cut; --on-long windows" in done.stderr
    assert "1 of 3 texts is empty" in done.stderr
    done = run_here("encode", "-m", bundle, "--on-long", "windows", stdin="cat " * 50 + "\n")
    assert done.stderr == ""


def test_similarity_of_arguments_and_of_pairs(run: Run, run_here: Run, bundle: Path) -> None:
    done = run("similarity", "배", "배", "cat", "-m", bundle)
    assert rows(done.stdout)[0]["score"] == pytest.approx(1, abs=1e-5)
    assert len(rows(done.stdout)) == 3
    done = run_here("similarity", "-", "-m", bundle, stdin="배\tcat\n배\t배\n")
    assert [row["b"] for row in rows(done.stdout)] == ["cat", "배"]
    done = run_here("similarity", "배", "cat", "-m", bundle, "--table")
    assert done.stdout.split()[:3] == ["a", "b", "score"]
    done = run_here("similarity", "-", "-m", bundle, stdin="배 cat\n")
    assert done.returncode == 1 and "line 1 of stdin has 1 field;" in done.stderr


def test_info_shows_a_bundle(run: Run, run_here: Run, bundle: Path) -> None:
    done = run("model", "info", bundle, "--table")
    for word in ("tiny", "Apache-2.0", "mean", "all as their sha256 says", "onnx/model.onnx"):
        assert word in done.stdout
    assert json.loads(run_here("model", "info", bundle).stdout)["dimension"] == 16


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["encode", "none.txt", "-m", "BUNDLE"], 1, "there is no file none.txt"),
        (["encode", ".", "-m", "BUNDLE"], 1, "is a folder; expected a text file"),
        (["encode", "-m", "none"], 1, "there is no folder none and no shipped model"),
        (["encode", "-m", "."], 1, "is no model"),
        (["encode", "-m", "BUNDLE"], 1, "- is empty; expected one text a line"),
        (["encode", "-m", "BUNDLE", "--dim", "99"], 1, "dim is 99; the model's vectors have 16"),
        (["encode", "-m", "BUNDLE", "-o", "x.txt"], 1, "x.txt ends in .txt; known are"),
        (["encode", "-m", "BUNDLE", "-o", "no/x.npy"], 1, "the folder no does not exist"),
        (["encode", "-m", "BUNDLE", "--precision", "int3"], 2, "int3"),
        (["encode", "--table", "--csv", "-m", "BUNDLE"], 2, "exclude each other"),
        (["similarity", "one", "-m", "BUNDLE"], 2, "one text was given"),
        (["model", "info", "none"], 1, "there is no folder none"),
        (["fly"], 2, "no command fly. See: malmoi --help"),
    ],
)
def test_bad_input_is_one_line_and_an_exit_code(
    run_here: Run, bundle: Path, args: list[str], code: int, message: str
) -> None:
    done = run_here(*(str(bundle) if arg == "BUNDLE" else arg for arg in args))
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("malmoi: ")


def test_hostile_text_goes_through(run_here: Run, bundle: Path) -> None:
    lines = [json.dumps({"text": text}) for text in ("\ud800 배", "a\x00b", "\u202e", "")]
    path = bundle.parent / "x.jsonl"
    path.write_text("\n".join(lines))
    done = run_here("encode", path, "--column", "text", "-m", bundle)
    assert done.returncode == 0, done.stderr
    assert rows(done.stdout)[0]["text"] == "\ud800 배"


def test_a_corrupt_bundle(run_here: Run, bundle: Path) -> None:
    graph = bundle / "onnx/model.onnx"
    graph.write_bytes(graph.read_bytes()[:-5])
    done = run_here("encode", "-m", bundle, stdin="배\n")
    assert done.returncode == 1 and "its sha256 differs" in done.stderr


def start(*args: object, cwd: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "malmoi", *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        # Whoever runs the tests in the background has SIGINT ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_ctrl_c_leaves_no_half_file(bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    process = start("encode", "-m", bundle, "--out", "v.npy", cwd=out)
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(b"".join(b"cat %d\n" % i for i in range(50_000)))
    process.stdin.flush()
    for _ in range(600):  # until the file next to it shows that writing has begun
        if any(name.endswith(".part") for name in os.listdir(out)):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    stderr = process.stderr.read().decode()
    assert stderr == "malmoi: stopped; nothing half-written was left behind\n"
    assert os.listdir(out) == []
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


def test_ctrl_c_while_a_command_is_imported_is_one_line_too(
    run_here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(only: str | None = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("malmoi.cli.build", stop)
    done = run_here("train", "x.toml")
    assert done.returncode == 130
    assert done.stderr == "malmoi: stopped; nothing half-written was left behind\n"


def test_a_closed_pipe_is_no_error(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("".join(f"cat {i}\n" for i in range(20_000)))
    command = f"{sys.executable} -m malmoi encode x.txt -m {bundle} | head -n 1"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, timeout=120)
    assert done.stdout.count(b"\n") == 1 and done.stderr == b""


def test_a_full_disk_is_one_line(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("".join(f"cat {i}\n" for i in range(20_000)))
    command = f"{sys.executable} -m malmoi encode x.txt -m {bundle} > /dev/full"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.decode().startswith("malmoi: ") and b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr
