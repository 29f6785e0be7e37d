"""CUDA kernels of our own: the 30 of PolyBench/GPU, in the naive form that its suite has, and irregular ones."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from rdmodel.errors import ConfigError, unknown


def names() -> list[str]:
    """Return the names of the files, without ``.cu``."""
    return sorted(entry.name.removesuffix(".cu") for entry in _folder().iterdir() if entry.suffix == ".cu")


def path(name: str) -> Path:
    """Return the file of a name; raises `ConfigError` for one that is not there."""
    if name not in names():
        raise ConfigError(unknown("CUDA source", name, names()))
    return _folder() / f"{name}.cu"


def _folder() -> Path:
    return Path(str(resources.files(__name__)))
