"""Find the affine kernels that come with rdmodel as JSON: those of PolyBench/GPU, and tiled ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "kernel_library" / "affine"
"""The folder with the JSON files."""


@cache
def names() -> tuple[str, ...]:
    """Return the names of the bundled affine kernels, sorted."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.json")))


def read_bundled(name: str) -> str:
    """Return the JSON text of a bundled kernel."""
    return (FOLDER / f"{name}.json").read_text(encoding="utf-8")
