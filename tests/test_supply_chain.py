"""Every package is pinned with its hashes, listed with its licence, and in the SBOM."""

import contextlib
import importlib.util
import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("supply", ROOT / "tools/supply_chain.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_version_is_pinned_with_hashes() -> None:
    for file in (ROOT / "requirements").glob("*.txt"):
        for line in file.read_text("utf-8").replace("\\\n", " ").splitlines():
            if line.strip() and not line.startswith(("#", "-r ")):
                assert re.match(r"[\w.-]+==\S+", line), (file.name, line)
                assert "--hash=sha256:" in line, f"{file.name}: {line}. Run: make lock"


@pytest.mark.parametrize("names", ["core", "core serve", "core quick", "test"])
def test_what_packages_need_is_pinned_too(tool: ModuleType, names: str) -> None:
    """pip refuses a package without a hash, and it installs what others need by itself."""
    files = [ROOT / f"requirements/{name}.txt" for name in (*names.split(), "build")]
    known = {tool.normal(name) for file in files for name in tool.pinned(file)}
    known |= set(tool.UNHASHED) if names == "test" else set()
    waiting, seen, missing = [(name, "") for name in known], set(), set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        with contextlib.suppress(metadata.PackageNotFoundError):  # of another machine
            for one in map(Requirement, metadata.requires(name) or []):
                if one.marker is None or one.marker.evaluate({"extra": extra}):
                    needed = tool.normal(one.name)
                    waiting += [(needed, more) for more in (*one.extras, "")]
                    missing |= {needed} - known
    assert not missing, f"requirements/{names}: pin {missing} too, and run: make lock"


def test_the_build_backend_is_pinned() -> None:
    stated = re.search(
        r'^requires = \["(hatchling==\S+)"\]$', (ROOT / "pyproject.toml").read_text(), re.M
    )
    assert stated and stated[1] in (ROOT / "requirements/build.txt").read_text("utf-8")


def test_every_package_is_in_the_bill_with_its_licence(tool: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "build" / "sbom.json"
    command = [sys.executable, str(ROOT / "tools/supply_chain.py"), "sbom", str(out)]
    subprocess.run(command, check=True)
    bill = json.loads(out.read_text("utf-8"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    found = {one["name"]: one for one in bill["components"]}
    assert set(found) == set(tool.packages()) and {"numpy", "onnxruntime", "torch"} <= set(found)
    for name, one in found.items():
        assert one["purl"] == f"pkg:pypi/{name}@{one['version']}"
        assert one["licenses"][0]["license"]["name"] not in ("", "not installed"), name
        assert "hashes" in one or name in tool.UNHASHED
    listed = (ROOT / "requirements/LICENCES.md").read_text("utf-8")
    assert all(f"| {name} | {one['version']} |" in listed for name, one in found.items())


@pytest.mark.parametrize(
    ("file", "usable"),
    [
        ("numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl", True),
        ("numpy-2.4.6-cp311-cp311-musllinux_1_2_x86_64.whl", False),
        ("numpy-2.4.6-cp310-cp310-manylinux_2_28_x86_64.whl", False),
        ("tokenizers-0.23.3-cp310-abi3-macosx_11_0_arm64.whl", True),
        ("idna-3.20-py3-none-any.whl", True),
        ("six-1.17.0-py2.py3-none-any.whl", True),
        ("ray-2.56.0-cp312-cp312-win32.whl", False),
        ("idna-3.20.tar.gz", True),
    ],
)
def test_files_of_usual_machines_are_listed(tool: ModuleType, file: str, usable: bool) -> None:
    assert tool.is_usable(file) is usable
