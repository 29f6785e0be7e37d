"""List the bundled CUDA sources: the 30 kernels of PolyBench/GPU in their naive form, and irregular kernels."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from rdmodel.errors import ConfigError, unknown


def source_names() -> list[str]:
    """Return the names of the sources, without ``.cu``."""
    return sorted(entry.name.removesuffix(".cu") for entry in _folder().iterdir() if entry.suffix == ".cu")


def source_path(name: str) -> Path:
    """Return the file of a source; raises `ConfigError` for an unknown name."""
    if name not in source_names():
        raise ConfigError(unknown("CUDA source", name, source_names()))
    return _folder() / f"{name}.cu"


def _folder() -> Path:
    return Path(str(resources.files(__name__)))
