"""Describe programs and their arguments as JSON: the part of a question that determines a trace (`rdmodel.answers`)."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tracegen.cuda import nvrtc
from tracegen.cuda.nvcc import installed_nvcc
from tracegen.cuda.ptx_cache import version_stamps
from tracegen.cuda.source import Source, project_sources
from tracegen.ptx.registers.ptxas import find_assemblers

_FILE = re.compile(r"@([^,{}:]+)")
"""A file in the text of an argument: ``double@data.npy`` or ``@m.mtx:rows``."""


def describe_code(source: Source, includes: Sequence[str | Path], compiler: str) -> dict[str, Any]:
    """Return digests of a source and its project's headers, and the identity of the compiler and the assembler."""
    folders = [Path(folder) for folder in includes]
    headers = {name: _digest(part.text.encode()) for name, part in project_sources(source, folders).items()}
    library = nvrtc.load_nvrtc() if compiler != "nvcc" else None
    nvidia = [*folders, *nvrtc.header_folders()]
    return {
        "source": _digest(source.text.encode()),
        "name": source.name,
        "headers": headers,
        "folders": [[str(folder), version_stamps(folder)] for folder in nvidia],
        "compiler": _describe_file(installed_nvcc()) if library is None else list(library.version()),
        "assemblers": [_describe_file(path) for path in find_assemblers()],
    }


def describe_values(value: Any) -> Any:
    """Return the value of an argument as JSON, arrays by digests and files by size and time; None if it cannot be told.

    Mappings and lists have descriptions of their values, and none if one of these has none.
    """
    if isinstance(value, Mapping | list | tuple):
        items = list(value.items()) if isinstance(value, Mapping) else list(enumerate(value))
        parts = [[str(name), describe_values(part)] for name, part in items]
        return None if any(part is None for _, part in parts) else parts
    if isinstance(value, str):
        files = [_describe_file(path.strip()) for path in _FILE.findall(value)]
        return None if None in files else [value, files]
    if isinstance(value, np.ndarray):
        return None if value.dtype.hasobject else [value.dtype.str, list(value.shape), _digest(value.tobytes())]
    if isinstance(value, np.number | np.bool_):
        return [value.dtype.str, repr(value.item())]
    return repr(value) if isinstance(value, bool | int | float | bytes) else None


def _describe_file(path: str | Path | None) -> list[object] | None:
    try:
        status = os.stat(path or "")
    except (OSError, ValueError):
        return None
    return [str(path), status.st_size, status.st_mtime_ns]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
