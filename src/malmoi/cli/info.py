"""`malmoi info`: what a bundle is, under what licence, and whether its files are whole."""

import json
import sys
from typing import Annotated

from ..bundle.bundle import Bundle, open_bundle
from ..bundle.catalog import KINDS, find_model
from ..runtime.session import choose_device, usable_devices
from .options import Json, arg
from .output import print_json

_SKIPPED = ("files", "training", "scores", "format")


def info(
    bundle: Annotated[
        str | None, arg("A bundle or model folder; the shipped one if left out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a model is: kind, size, licence, scores and the hashes of its files."""
    opened = open_bundle(find_model(bundle), kinds=tuple(KINDS))
    if as_json:
        print_json(opened.manifest.to_json())
    else:
        sys.stdout.write(describe(opened))


def describe(bundle: Bundle) -> str:
    """Describe a bundle in lines of text."""
    data = bundle.manifest.to_json()
    size = sum(path.stat().st_size for path in bundle.folder.rglob("*") if path.is_file())
    lines = [f"{bundle.manifest.name} ({bundle.folder}, {size / 1e6:.1f} MB)"]
    for key, value in data.items():
        if key not in _SKIPPED and key != "name":
            lines.append(f"  {key:<13} {_shown(value)}")
    for title in ("training", "scores"):
        if data.get(title):
            lines.append(f"  {title}")
            lines += [f"    {key:<24} {_shown(value)}" for key, value in data[title].items()]
    if bundle.manifest.kind != "static":
        others = [name for name in usable_devices() if name != choose_device()]
        also = f" ({', '.join(others)} too: malmoi --device)" if others else ""
        lines.append(f"  runs on       {choose_device()}{also}")
    files = data.get("files", {})
    state = "all as their sha256 says" if files else "no manifest, so nothing to check them by"
    lines.append(f"  files         {len(files)}: {state}" if files else f"  files         {state}")
    lines += [f"    {digest[:16]}…  {name}" for name, digest in files.items()]
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
