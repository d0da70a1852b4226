"""The packages that malmoi is installed with: their hashes, their licences and an SBOM.

    python tools/supply_chain.py lock       # writes the hashes of every pinned version
    python tools/supply_chain.py licences   # writes requirements/LICENCES.md
    python tools/supply_chain.py sbom OUT   # writes a CycloneDX 1.6 list

`lock` asks the package index for the files of each version that requirements/*.txt pin, and writes
the sha256 of those that Python 3.11 to 3.14 can install. Change a version, or add a line
`name==version`, and run it again. `licences` asks the packages that are installed, or their wheels.
"""

import email
import functools
import hashlib
import html
import importlib.metadata
import io
import json
import os
import re
import subprocess
import sys
import tomllib
import urllib.parse
import urllib.request
import zipfile
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from pathlib import Path
from typing import Any

from pip._internal.models.index import PyPI

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "requirements"
LICENCES = FOLDER / "LICENCES.md"
_PIN = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s\\;]+)(\s*;[^\\]*)?")
_LINK = re.compile(r'href="([^"#]*/([^"/#]+))#sha256=([0-9a-f]{64})"')
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_WHEEL = re.compile(r"-(?:py[23.]*py3|py3|cp31[1-4]|cp3\d*-abi3)\S*\.whl$")
_SYSTEMS = ("-any.whl", "manylinux", "macosx", "win_amd64")
_MACHINES = ("x86_64", "aarch64", "arm64", "universal2", "win_amd64", "-any.whl")
# Not in any file: its builds differ from machine to machine, so it is installed before, by version.
UNHASHED = {"torch": "2.13.0"}


@functools.cache
def index() -> str:
    """The address of the index that pip is set up to use, or pip's own default."""
    asked = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return (os.environ.get("PIP_INDEX_URL") or found or PyPI.simple_url).rstrip("/")


def normal(name: str) -> str:
    """A package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(path: Path) -> dict[str, str]:
    """The versions that a file of requirements pins itself, by name."""
    found = (_PIN.match(line) for line in path.read_text("utf-8").splitlines())
    return {match[1]: match[2] for match in found if match}


def files_of(name: str, version: str) -> list[tuple[str, str, str]]:
    """The address, name and hash of each file of a version that a supported Python may install."""
    with urllib.request.urlopen(f"{index()}/{normal(name)}/", timeout=60) as page:
        links = _LINK.findall(html.unescape(page.read().decode("utf-8")))
    own = re.compile(rf"{re.escape(normal(name))}-{re.escape(version)}(?:-|\.tar\.gz$|\.zip$)")
    found = []
    for address, quoted, digest in links:
        file = urllib.parse.unquote(quoted)
        stem, _, rest = file.partition("-")
        fits = own.match(f"{normal(stem)}-{rest}") or own.match(normal_file(file))
        if fits and is_usable(file):
            found.append((address, file, digest))
    if not found:
        raise SystemExit(f"the index has no file of {name} {version} for Python 3.11 or later")
    return found


def normal_file(file: str) -> str:
    """A file's name with its package's name as the index spells it (old source archives)."""
    match = re.match(r"(.+?)-(\d.*)$", file)
    return f"{normal(match[1])}-{match[2]}" if match else file


def is_usable(file: str) -> bool:
    """Whether Python 3.11 to 3.14 may install a file on a usual machine."""
    if not file.endswith(".whl"):
        return file.endswith((".tar.gz", ".zip"))
    return (
        bool(_WHEEL.search(file))
        and any(system in file for system in _SYSTEMS)
        and any(machine in file for machine in _MACHINES)
    )


def lock() -> None:
    """Write the hashes into every file of requirements."""
    files = sorted(FOLDER.glob("*.txt"))
    wanted = {pin for file in files for pin in pinned(file).items()}
    with ThreadPoolExecutor(4) as pool:
        hashes = dict(zip(wanted, pool.map(lambda pin: files_of(*pin), wanted), strict=True))
    for file in files:
        lines = []
        for line in file.read_text("utf-8").splitlines():
            match = _PIN.match(line)
            if match:
                own = sorted({digest for *_, digest in hashes[match[1], match[2]]})
                start = f"{match[1]}=={match[2]}{(match[3] or '').rstrip()}"
                lines.append(" \\\n".join([start, *(f"    --hash=sha256:{one}" for one in own)]))
            elif not line.lstrip().startswith("--hash"):
                lines.append(line)
        file.write_text("\n".join(lines) + "\n", "utf-8")
    sys.stdout.write(f"{len(wanted)} versions in {len(files)} files\n")


def packages() -> dict[str, tuple[str, list[str]]]:
    """Every pinned package with its version and hashes."""
    found: dict[str, tuple[str, list[str]]] = {n: (v, []) for n, v in UNHASHED.items()}
    for file in sorted(FOLDER.glob("*.txt")):
        text = file.read_text("utf-8").replace("\\\n", " ")
        for line in text.splitlines():
            match = _PIN.match(line)
            if match:
                found[normal(match[1])] = (match[2], _HASH.findall(line))
    return dict(sorted(found.items()))


def licence(name: str, version: str) -> str:
    """The licence of a package as it states it, installed here or in the wheel of the index."""
    try:
        about: Message = importlib.metadata.metadata(name)  # type: ignore[assignment]
    except importlib.metadata.PackageNotFoundError:
        about = wheel_metadata(name, version)
    stated = [
        one.rpartition(" :: ")[2]
        for one in about.get_all("Classifier") or []
        if one.startswith("License :: ") and not one.endswith("OSI Approved")
    ]
    text = about.get("License-Expression") or ", ".join(stated) or about.get("License")
    return (text or "not stated").strip().splitlines()[0][:60]


def wheel_metadata(name: str, version: str) -> Message:
    """What the wheel of a package says of itself."""
    address = next(link for link, file, _ in files_of(name, version) if file.endswith(".whl"))
    with urllib.request.urlopen(address, timeout=120) as answer:
        wheel = zipfile.ZipFile(io.BytesIO(answer.read()))
    inside = next(one for one in wheel.namelist() if one.endswith(".dist-info/METADATA"))
    return email.message_from_bytes(wheel.read(inside))


def known_licences() -> dict[str, str]:
    """The table of licences, by name."""
    if not LICENCES.exists():
        return {}
    rows = re.findall(r"^\| (\S+) \| (\S+) \| (.*?) \|$", LICENCES.read_text("utf-8"), re.M)
    return {f"{name} {version}": text for name, version, text in rows}


def write_licences() -> None:
    """Write the table of licences; a version that is in it already keeps its line."""
    old = known_licences()
    lines = [
        "# Licences of the packages that malmoi is installed or tested with",
        "",
        "Made by `make lock`. The wheel of malmoi contains none of them.",
        "",
        "| package | version | licence |",
        "|---|---|---|",
    ]
    for name, (version, _) in packages().items():
        text = old.get(f"{name} {version}") or licence(name, version)
        lines.append(f"| {name} | {version} | {text} |")
    LICENCES.write_text("\n".join(lines) + "\n", "utf-8")


def bill() -> dict[str, Any]:
    """The list of packages as CycloneDX has it; the same for the same files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    version = re.search(r'__version__ = "(.+?)"', (ROOT / "src/malmoi/__init__.py").read_text())
    known = known_licences()
    components = []
    for name, (pinned_version, hashes) in packages().items():
        one: dict[str, Any] = {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{pinned_version}",
            "name": name,
            "version": pinned_version,
            "purl": f"pkg:pypi/{name}@{pinned_version}",
            "licenses": [{"license": {"name": known[f"{name} {pinned_version}"]}}],
        }
        if hashes:  # one of each file that may be installed
            one["hashes"] = [{"alg": "SHA-256", "content": digest} for digest in hashes]
        components.append(one)
    made = hashlib.sha256(json.dumps(components).encode()).hexdigest()
    serial = f"{made[:8]}-{made[8:12]}-4{made[13:16]}-8{made[17:20]}-{made[20:32]}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": "malmoi",
                "name": project["name"],
                "version": version[1] if version else "",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": "malmoi", "dependsOn": [one["bom-ref"] for one in components]}],
    }


def main() -> None:
    """Run one of the commands."""
    match sys.argv[1:]:
        case ["lock"]:
            lock()
        case ["licences"]:
            write_licences()
        case ["sbom", out]:
            Path(out).parent.mkdir(parents=True, exist_ok=True)
            Path(out).write_text(json.dumps(bill(), indent=1, ensure_ascii=False) + "\n", "utf-8")
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
