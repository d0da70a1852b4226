"""Vector files: what is written is what others read."""

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import safetensors.numpy

from malmoi.errors import BundleCorrupt, MissingExtra, OptionError
from malmoi.io.arrays import read_safetensors, write_safetensors, writing_vectors

ROWS = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)


def write(path: Path, rows: np.ndarray = ROWS) -> None:
    with writing_vectors(path) as add:
        add(["가", "b"], rows[:2])
        add(["다", "d", "e"], rows[2:])


def test_npy_is_numpys(tmp_path: Path) -> None:
    write(tmp_path / "x.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), ROWS)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy", mmap_mode="r"), ROWS)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8])
def test_safetensors_is_that_librarys(tmp_path: Path, dtype: type) -> None:
    path = tmp_path / "x.safetensors"
    write(path, ROWS.astype(dtype))
    np.testing.assert_array_equal(safetensors.numpy.load_file(path)["vectors"], ROWS.astype(dtype))
    np.testing.assert_array_equal(read_safetensors(path)["vectors"], ROWS.astype(dtype))


def test_several_arrays_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    arrays = {"codes": ROWS[:1].astype(np.int8), "rows": ROWS, "ids": np.arange(3), "row": ROWS[0]}
    write_safetensors(path, arrays)
    for read in (read_safetensors, safetensors.numpy.load_file):
        found = read(path)
        assert set(found) == set(arrays)
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)


def test_safetensors_of_that_library_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    safetensors.numpy.save_file({"a": ROWS, "b": ROWS[0]}, path, {"format": "np"})
    found = read_safetensors(path)
    np.testing.assert_array_equal(found["a"], ROWS)
    np.testing.assert_array_equal(found["b"], ROWS[0])


def test_parquet_keeps_the_texts(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "x.parquet")
    assert table["text"].to_pylist() == ["가", "b", "다", "d", "e"]
    np.testing.assert_array_equal(np.stack(table["vector"].to_numpy()), ROWS)


def test_parquet_without_pyarrow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'malmoi\[parquet\]'"):
        write(tmp_path / "x.parquet")
    assert not os.listdir(tmp_path)


def test_an_unknown_ending_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"ends in .txt; known are .npy, .safetensors, .parquet"):
        write(tmp_path / "x.txt")


@pytest.mark.parametrize("name", ["x.npy", "x.safetensors", "x.parquet"])
def test_an_interrupted_file_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(KeyboardInterrupt), writing_vectors(tmp_path / name) as add:
        add(["가", "b"], ROWS[:2])
        raise KeyboardInterrupt
    assert not os.listdir(tmp_path)


def test_a_cut_safetensors_file_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BundleCorrupt, match="cannot be read as safetensors"):
        read_safetensors(path)
