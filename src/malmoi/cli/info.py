"""`malmoi info`: what a bundle is, under what licence, and whether its files are whole."""

import json
import sys
from pathlib import Path
from typing import Annotated

import numpy as np

from ..bundle.bundle import Bundle, find_model, open_bundle
from ..bundle.manifest import KINDS
from ..encoders import load
from ..encoders.scale import QUANTILES, ScoreScale, score_scale
from ..runtime.session import Session, choose_device, usable_devices
from .options import Json, arg
from .output import print_json

_SKIPPED = ("files", "training", "scores", "format")


def info(
    bundle: Annotated[
        str | None, arg("A bundle or model folder; the shipped one if left out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a model is: kind, size, licence, scores, its files, and what its cosines mean."""
    opened = open_bundle(find_model(bundle), kinds=tuple(KINDS))
    if as_json:
        print_json(opened.manifest.to_json())
        return
    sys.stdout.write(describe(opened))
    if opened.manifest.kind in ("encoder", "static"):
        sys.stdout.write(describe_scale(score_scale(load(opened.folder, device="cpu"))))


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
        lines.append(f"  runs on       {_where(bundle.graph)}")
    files = data.get("files", {})
    state = "all as their sha256 says" if files else "no manifest, so nothing to check them by"
    lines.append(f"  files         {len(files)}: {state}" if files else f"  files         {state}")
    lines += [f"    {digest[:16]}…  {name}" for name, digest in files.items()]
    return "\n".join(lines) + "\n"


def _where(graph: Path) -> str:
    """Say which device runs a graph, and which else there are."""
    asked = choose_device()
    found = asked if asked == "cpu" else Session(graph).device  # what it falls back to
    others = [name for name in usable_devices() if name not in (asked, found)]
    notes = [f"{asked} cannot run this graph"] * (asked != found)
    notes += [f"{', '.join(others)} too: malmoi --device"] * bool(others)
    return f"{found} ({'; '.join(notes)})" if notes else found


def describe_scale(scale: ScoreScale) -> str:
    """Describe the cosines of pairs in lines of text."""
    shares = "".join(f"{share:>7.0%}" for share in QUANTILES)
    lines = [f"  cosines of pairs, below which so many are {shares}"]
    for name, values in scale.quantiles().items():
        lines.append(f"    {name:<39}" + "".join(f"{value:>7.2f}" for value in values))
    grid = np.linspace(-1, 1, 201, dtype=np.float32)
    even = float(grid[int(np.argmax(scale.calibrated(grid) >= 0.5))])
    lines.append(f"    half-way between the two is {even:.2f}: malmoi similarity --calibrated")
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
