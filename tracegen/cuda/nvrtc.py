"""NVRTC, NVIDIA's compiler as a library, through ctypes: it needs no driver, no GPU and no toolkit."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_TOOLKIT = ("CUDA_HOME", "CUDA_PATH")
_LIBRARIES = ("libnvrtc.so", "libnvrtc.so.*", "nvrtc64_*.dll")


@dataclass(frozen=True, slots=True)
class Compiled:
    """What a compilation gave: `ptx` (None: it failed), the compiler's log, mangled names by the expressions asked."""

    ptx: str | None
    log: str
    lowered: Mapping[str, str]


class Nvrtc:
    """The loaded library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def architectures(self) -> list[int]:
        """Return the virtual architectures that it compiles for, ascending: 75 is ``compute_75``."""
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", found)
        return sorted(found)

    def compile(
        self, text: str, name: str, headers: Mapping[str, str], options: Sequence[str], expressions: Sequence[str]
    ) -> Compiled:
        """Compile one text; `headers` are held in memory, `expressions` name the kernels of templates to make."""
        program = ctypes.c_void_p()
        names, texts = list(headers), list(headers.values())
        self._call(
            "nvrtcCreateProgram",
            ctypes.byref(program),
            text.encode(),
            name.encode(),
            ctypes.c_int(len(headers)),
            _strings(texts),
            _strings(names),
        )
        try:
            for expression in expressions:
                self._call("nvrtcAddNameExpression", program, expression.encode())
            status = self._library.nvrtcCompileProgram(program, ctypes.c_int(len(options)), _strings(options))
            log = self._text(program, "ProgramLog").strip()
            if status:
                return Compiled(None, log or self._message(status), {})
            lowered = {expression: self._lowered(program, expression) for expression in expressions}
            return Compiled(self._text(program, "PTX"), log, lowered)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _lowered(self, program: ctypes.c_void_p, expression: str) -> str:
        name = ctypes.c_char_p()
        self._call("nvrtcGetLoweredName", program, expression.encode(), ctypes.byref(name))
        assert name.value is not None
        return name.value.decode()

    def _text(self, program: ctypes.c_void_p, what: str) -> str:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(max(size.value, 1))
        self._call(f"nvrtcGet{what}", program, buffer)
        return buffer.value.decode("utf-8", "replace")

    def _message(self, status: int) -> str:
        return str(self._library.nvrtcGetErrorString(ctypes.c_int(status)).decode())

    def _call(self, function: str, *arguments: object) -> None:
        status = getattr(self._library, function)(*arguments)
        if status:
            raise OSError(f"{function}: {self._message(status)}")


@cache
def load() -> Nvrtc | None:
    """Return the first NVRTC that loads, None where there is none; the search is made once."""
    for path in candidates():
        try:
            return Nvrtc(ctypes.CDLL(str(path)))
        except (OSError, AttributeError):
            continue  # another platform's, or one whose companion library is missing
    return None


def candidates() -> Iterator[Path | str]:
    """Yield where the library may be: Python packages, the toolkit that the environment names, the system's paths."""
    for folder in _folders():
        if folder.is_dir():
            for pattern in _LIBRARIES:
                found = [
                    path for path in folder.glob(pattern) if "builtins" not in path.name and ".alt." not in path.name
                ]
                yield from sorted(found, key=lambda path: (len(path.name), path.name), reverse=True)
    system = ctypes.util.find_library("nvrtc")
    if system:
        yield system


def _folders() -> Iterator[Path]:
    for package in packages():
        yield from (package / "lib", package / "bin", package / "bin" / "x86_64")
    for variable in _TOOLKIT:
        if os.environ.get(variable):
            yield from (Path(os.environ[variable]) / part for part in ("lib64", "lib", "bin"))
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if folder:
            yield Path(folder)
    yield from sorted(Path("/usr/local").glob("cuda*/lib64"), reverse=True)


def packages() -> list[Path]:
    """Return the folders of NVIDIA's Python packages: ``nvidia/cu13``, ``nvidia/cuda_nvrtc`` and their like."""
    spec = importlib.util.find_spec("nvidia")
    roots = spec.submodule_search_locations if spec else None
    return [folder for root in roots or () for folder in sorted(Path(root).iterdir(), reverse=True) if folder.is_dir()]


def header_folders() -> list[Path]:
    """Return where NVIDIA's own headers may be: in Python packages, and in the toolkit that the environment names."""
    roots = [*packages(), *(Path(os.environ[name]) for name in _TOOLKIT if os.environ.get(name))]
    folders = [root / "include" / part for root in roots for part in ("", "cccl")]
    return [folder for folder in folders if folder.is_dir()]


def _strings(texts: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))
