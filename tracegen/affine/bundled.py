"""Find the affine kernels that come with rdmodel as JSON: those of PolyBench/GPU, and tiled ones."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

FOLDER = files("tracegen") / "kernel_library" / "affine"
"""The folder with the JSON files."""


@cache
def names() -> tuple[str, ...]:
    """Return the names of the bundled affine kernels, sorted."""
    entries = (entry.name for entry in FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(".json") for name in entries if name.endswith(".json")))


def read_bundled(name: str) -> str:
    """Return the JSON text of a bundled kernel."""
    return (FOLDER / f"{name}.json").read_text(encoding="utf-8")
