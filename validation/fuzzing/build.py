"""Build the compiled parsers and the emulator again, in a separate folder, with code that reports edges of inputs.

gcc (or clang) inserts a call at every basic block (``-fsanitize-coverage=trace-pc``); ``entry.c`` and ``feedback.c``
turn the calls into edges. With `sanitize`, AddressSanitizer and UndefinedBehaviorSanitizer check the same modules;
their libraries must be loaded first (`preload`).
"""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.machinery
import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
MODULES = (
    "tracegen.formats._accelsim",
    "tracegen.formats._accelsim_out",
    "tracegen.formats._nvbit",
    "tracegen.formats._ppt",
    "tracegen.formats._trc",
    "tracegen.formats._plain",
    "tracegen.formats._line_groups",
    "tracegen.formats.ordering._gather",
    "tracegen.ptx.emulator._integers",
    "tracegen.ptx.emulator._floats",
    "tracegen.ptx.emulator._access",
    "tracegen.ptx.emulator._places",
    "tracegen.ptx.emulator._log",
    "tracegen.ptx.emulator._warp",
    "tracegen.ptx.emulator._poison",
    "tracegen.ptx.emulator._tensor_map",
    "tracegen.ptx.emulator._texture",
    "tracegen.ptx.emulator._mbarrier",
    "tracegen.ptx.emulator._registers",
    "tracegen.ptx.emulator._threads",
    "tracegen.ptx.emulator._control_steps",
    "tracegen.ptx.emulator._arithmetic_steps",
    "tracegen.ptx.emulator._memory_steps",
    "tracegen.ptx.emulator._texture_steps",
    "tracegen.ptx.emulator._barrier_steps",
    "tracegen.ptx.emulator._events",
    "tracegen.ptx.emulator._bulk_copy_steps",
    "tracegen.ptx.emulator._emulator",
)
"""Compiled modules of the readers of traces, and of the emulator."""

DIRECTIVES = ("language_level=3", "boundscheck=False", "wraparound=False", "cdivision=True", "initializedcheck=False")
_FLAGS = ("-shared", "-fPIC", "-O1", "-g", "-fno-strict-aliasing", "-w", "-DCYTHON_WITHOUT_ASSERTIONS=1")
_SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer")


def compiler() -> str:
    """Return the C compiler: ``CC``, or gcc without it."""
    return os.environ.get("CC", "gcc")


def build(folder: Path, *, sanitize: bool = False, modules: Sequence[str] = MODULES) -> None:
    """Build modules that are missing or older than their source; raise `CalledProcessError` if the compiler fails."""
    folder.mkdir(parents=True, exist_ok=True)
    library = _library(folder)
    if _stale(library, [FOLDER / "feedback.c"]):
        _run([*_cc(), "-O2", "-g", FOLDER / "feedback.c", "-o", library])
    extra = _SANITIZE if sanitize else ()
    for number, module in enumerate(modules, 1):
        source = ROOT / (module.replace(".", "/") + ".pyx")
        target = _file(folder, module)
        if not _stale(target, [source, *source.parent.glob("*.pxd"), FOLDER / "entry.c"]):
            continue
        text, entry = folder / f"{source.stem}.c", folder / f"entry{number}.o"
        options = [option for directive in DIRECTIVES for option in ("-X", directive)]
        _run([sys.executable, "-m", "cython", "-3", *options, source, "-o", text])
        _run([compiler(), "-c", "-fPIC", "-O2", f"-DMODULE={number}", FOLDER / "entry.c", "-o", entry])
        _run([*_cc(), "-fsanitize-coverage=trace-pc", *extra, text, entry, "-o", target])


def preload() -> str:
    """Return the value of ``LD_PRELOAD`` for modules that are built with `sanitize`."""
    names = ("libasan.so", "libubsan.so")
    return " ".join(_run([compiler(), f"-print-file-name={name}"]).strip() for name in names)


class Feedback:
    """Coverage of inputs: use it as a context around each input, then ask `fresh`."""

    def __init__(self, folder: Path) -> None:
        """Load the library, and import the instrumented modules from `folder` in place of the usual ones."""
        self._library = ctypes.PyDLL(str(_library(folder)), ctypes.RTLD_GLOBAL)
        self._begin, self._end, self._take = (
            getattr(self._library, f"feedback_{name}") for name in ("begin", "end", "take")
        )
        self._watched: list[Any] = []
        self.lines = True
        sys.meta_path.insert(0, _Finder(folder))

    def watch(self, parts: Sequence[str]) -> None:
        """Count lines of Python files with one of `parts` in their paths, too; forget the coverage so far."""
        self._watched = [ctypes.create_string_buffer(part.encode()) for part in parts]
        for part in self._watched:
            self._library.feedback_watch(part)
        self._library.feedback_clear()

    def __enter__(self) -> None:
        """Begin an input."""
        self._begin(int(self.lines))

    def __exit__(self, *_: object) -> None:
        """End an input."""
        self._end()

    def fresh(self) -> int:
        """Return the number of edges, or counts of edges, that are new; forget the counts of the input."""
        return int(self._take())

    def edges(self) -> tuple[int, int]:
        """Return the numbers of covered edges of compiled code and of Python lines."""
        return int(self._library.feedback_edges(0)), int(self._library.feedback_edges(1))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in MODULES:
            return None
        loader = importlib.machinery.ExtensionFileLoader(name, str(_file(self._folder, name)))
        return importlib.machinery.ModuleSpec(name, loader, origin=loader.path)


def _library(folder: Path) -> Path:
    return folder / "libfeedback.so"


def _file(folder: Path, module: str) -> Path:
    return folder / f"{module.rpartition('.')[2]}.so"


def _cc() -> list[str]:
    return [compiler(), *_FLAGS, f"-I{sysconfig.get_paths()['include']}"]


def _stale(target: Path, sources: Sequence[Path]) -> bool:
    return not target.exists() or target.stat().st_mtime < max(source.stat().st_mtime for source in sources)


def _run(command: Sequence[str | Path]) -> str:
    return subprocess.run([str(part) for part in command], cwd=ROOT, check=True, capture_output=True, text=True).stdout
