"""Compile the stand-ins for CUDA's libraries with the machine's C compiler, once, and cache them by content.

The folder is ``stand-ins`` in ``$RDMODEL_CACHE``, or else in the folder ``rdmodel`` of ``$XDG_CACHE_HOME`` or of
``~/.cache``.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path

from rdmodel.errors import ConfigError, TraceError
from tracegen.cuda.ptx_cache import cache_folder

DRIVER = "libcuda.so.1"
"""File name of the driver's library."""

USUAL_RUNTIMES = ("libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13")
"""Libraries for programs that do not name theirs, such as scripts."""

_RUNTIME_NAME = re.compile(rb"libcudart\.so\.[0-9]+(?:\.[0-9]+)?(?=\0)")
_HEADERS = ("core.h", "graphs.h", "properties.h", "runtime.h")
_DRIVER_SOURCES = ("core.c", "graphs.c", "properties.c", "driver.c", "tensor_maps.c")
_RUNTIME_SOURCES = ("runtime.c", "runtime_memory.c", "runtime_arrays.c", "runtime_streams.c", "runtime_graphs.c")
_FLAGS = ("-O0", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")


def named_runtimes(program: Path) -> tuple[str, ...]:
    """Return the names of the runtime libraries that an executable file mentions."""
    try:
        with program.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            names = {match.decode() for match in _RUNTIME_NAME.findall(content)}
    except (OSError, ValueError):
        names = set()
    return tuple(sorted(names))


def stand_ins(runtimes: Iterable[str]) -> Path:
    """Return a folder with the stand-ins for the driver and for the runtime libraries of these names.

    Raises `ConfigError` if there is no C compiler, and `TraceError` if it fails.
    """
    texts = _sources()
    digest = hashlib.sha256("\0".join(f"{name}\0{text}" for name, text in sorted(texts.items())).encode()).hexdigest()
    folder = cache_folder().parent / "stand-ins" / digest[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="rdmodel-stand-ins-"))
    wanted = [name for name in (DRIVER, *runtimes) if not (folder / name).exists()]
    if wanted:
        with tempfile.TemporaryDirectory(dir=folder) as build:
            for name, text in texts.items():
                Path(build, name).write_text(text, encoding="utf-8")
            for name in wanted:
                _compile(Path(build), folder, name)
    return folder


def _sources() -> dict[str, str]:
    stub = resources.files("tracegen.recording") / "stub"
    names = (*_HEADERS, *_DRIVER_SOURCES, *_RUNTIME_SOURCES)
    texts = {name: (stub / name).read_text(encoding="utf-8") for name in names}
    for kind in ("runtime", "driver"):
        lines = (stub / f"{kind}_calls.txt").read_text(encoding="utf-8").splitlines()
        calls = " ".join(line for line in lines if not line.startswith("#")).split()
        functions = "".join(f'EXPORT void {call}(void) {{ not_provided("{call}"); }}\n' for call in calls)
        texts[f"{kind}_missing.c"] = f'#include "core.h"\n{functions}'
    return texts


def _compile(build: Path, folder: Path, name: str) -> None:
    if name == DRIVER:
        arguments = [*_DRIVER_SOURCES, "driver_missing.c", f"-Wl,-soname,{name}", "-ldl"]
    else:
        version = name.removeprefix("libcudart.so.")
        # Programs ask for the symbols by the version of their library.
        (build / "versions").write_text(f"{name} {{ global: *; }};\n", encoding="utf-8")
        arguments = [
            f"-DCUDART_MAJOR={version.partition('.')[0]}", *_RUNTIME_SOURCES, "runtime_missing.c",
            f"-Wl,-soname,{name}", "-Wl,--version-script=versions", str(folder / DRIVER), "-Wl,-rpath,$ORIGIN",
        ]  # fmt: skip
    _run_compiler([*_FLAGS, *arguments, "-o", "library"], build)
    os.replace(build / "library", folder / name)


def _run_compiler(arguments: Sequence[str], folder: Path) -> None:
    compiler = next((found for found in map(shutil.which, ("cc", "gcc", "clang")) if found), None)
    if compiler is None:
        raise ConfigError("record: needs a C compiler: install gcc or clang")
    done = subprocess.run([compiler, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TraceError(f"record: {compiler} cannot compile the stand-ins: {done.stderr.strip()[-600:]}")
