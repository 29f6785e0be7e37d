"""Call NVRTC, NVIDIA's compiler library, through ctypes; it needs no driver, GPU or toolkit."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import json
import os
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

TOOLKIT_VARIABLES = ("CUDA_HOME", "CUDA_PATH")
"""Environment variables that name the CUDA toolkit."""

_LIBRARY_PATTERNS = ("libnvrtc.so", "libnvrtc.so.*", "nvrtc64_*.dll")
"""File names of the library."""

_COMPANION_PATTERN = "libnvrtc-builtins.so*"
"""File names of the library that it needs."""


ASSEMBLER_MESSAGES = "--ptxas-options=-v"
"""Option for messages of the assembler, which is a part of the library."""


class Compilation(NamedTuple):
    """Result of a compilation: `ptx` (None: it failed), the log, and mangled names by name expression (`lowered`).

    `code` is the machine code in Base64, if the options ask for what the assembler says of it (`ASSEMBLER_MESSAGES`).
    """

    ptx: str | None
    log: str
    lowered: Mapping[str, str]
    code: str = ""


class Nvrtc:
    """The loaded NVRTC library; `path` is its file."""

    def __init__(self, library: ctypes.CDLL, path: str) -> None:
        self._library = library
        self._path = path
        library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def version(self) -> tuple[int, int]:
        """Return the version of CUDA, such as (13, 5)."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def architectures(self) -> list[int]:
        """Return the supported virtual architectures in ascending order; 75 is ``compute_75``."""
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        found = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", found)
        return sorted(found)

    def compile(
        self, text: str, name: str, headers: Mapping[str, str], options: Sequence[str], expressions: Sequence[str]
    ) -> Compilation:
        """Compile one text with in-memory `headers`; `expressions` name the template kernels to instantiate."""
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
                return Compilation(None, log or self._message(status), {})
            lowered = {expression: self._lowered(program, expression) for expression in expressions}
            code = self._item(program, "CUBIN") if ASSEMBLER_MESSAGES in options else b""
            return Compilation(self._text(program, "PTX"), log, lowered, b64encode(code).decode())
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def compile_apart(
        self, text: str, name: str, headers: Mapping[str, str], options: Sequence[str], expressions: Sequence[str]
    ) -> Compilation:
        """Compile as `compile` does, in a process of its own: some programs crash the compiler.

        This file is its script, and needs the standard library alone: the process has no path of this package.
        """
        if not sys.executable:
            return self.compile(text, name, headers, options, expressions)
        request = json.dumps([self._path, text, name, dict(headers), list(options), list(expressions)])
        process = subprocess.run(
            [sys.executable, "-I", __file__], input=request.encode("utf-8", "replace"), capture_output=True, check=False
        )
        if process.returncode:
            number = -process.returncode
            names = {item.value: item.name for item in signal.Signals}
            reason = names.get(number, f"exit code {process.returncode}")
            return Compilation(None, f"{name}: error: the CUDA compiler itself crashed ({reason})", {})
        return Compilation(*json.loads(process.stdout))

    def _lowered(self, program: ctypes.c_void_p, expression: str) -> str:
        name = ctypes.c_char_p()
        self._call("nvrtcGetLoweredName", program, expression.encode(), ctypes.byref(name))
        assert name.value is not None
        return name.value.decode()

    def _text(self, program: ctypes.c_void_p, item: str) -> str:
        return self._item(program, item).split(b"\0")[0].decode("utf-8", "replace")

    def _item(self, program: ctypes.c_void_p, item: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{item}Size", program, ctypes.byref(size))
        if not size.value:
            return b""
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{item}", program, buffer)
        return buffer.raw

    def _message(self, status: int) -> str:
        return str(self._library.nvrtcGetErrorString(ctypes.c_int(status)).decode())

    def _call(self, function: str, *arguments: object) -> None:
        status = getattr(self._library, function)(*arguments)
        if status:
            raise OSError(f"{function}: {self._message(status)}")


@cache
def load_nvrtc() -> Nvrtc | None:
    """Load the first NVRTC library that works, or return None; the result is cached."""
    for path in library_candidates():
        try:
            return open_library(str(path))
        except (OSError, AttributeError):
            continue  # of another platform, or without its companion library
    return None


def open_library(path: str) -> Nvrtc:
    """Load a library; raise `OSError` or `AttributeError` if it is none that works here.

    Some of NVIDIA's packages do not tell it where its companion is, which it opens by name when it compiles. That name
    is known once the companion is loaded.
    """
    for companion in sorted(Path(path).parent.glob(_COMPANION_PATTERN)):
        with suppress(OSError):
            ctypes.CDLL(str(companion))
    return Nvrtc(ctypes.CDLL(path), path)


def library_candidates() -> Iterator[Path | str]:
    """Yield possible paths of the library: in Python packages, in the CUDA toolkit, and in system folders."""
    for folder in _library_folders():
        if folder.is_dir():
            for pattern in _LIBRARY_PATTERNS:
                found = [
                    path for path in folder.glob(pattern) if "builtins" not in path.name and ".alt." not in path.name
                ]
                yield from sorted(found, key=lambda path: (len(path.name), path.name), reverse=True)
    system = ctypes.util.find_library("nvrtc")
    if system:
        yield system


def _library_folders() -> Iterator[Path]:
    for package in nvidia_packages():
        yield from (package / "lib", package / "bin", package / "bin" / "x86_64")
    for variable in TOOLKIT_VARIABLES:
        if os.environ.get(variable):
            yield from (Path(os.environ[variable]) / part for part in ("lib64", "lib", "bin"))
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        if folder:
            yield Path(folder)
    yield from sorted(Path("/usr/local").glob("cuda*/lib64"), reverse=True)


def nvidia_packages() -> list[Path]:
    """Return the folders of NVIDIA's Python packages, such as ``nvidia/cu13`` and ``nvidia/cuda_nvrtc``."""
    spec = importlib.util.find_spec("nvidia")
    roots = spec.submodule_search_locations if spec else None
    return [folder for root in roots or () for folder in sorted(Path(root).iterdir(), reverse=True) if folder.is_dir()]


def header_folders() -> list[Path]:
    """Return the folders of NVIDIA's headers: in Python packages, and in the CUDA toolkit."""
    roots = [*nvidia_packages(), *(Path(os.environ[name]) for name in TOOLKIT_VARIABLES if os.environ.get(name))]
    folders = [root / "include" / part for root in roots for part in ("", "cccl")]
    return [folder for folder in folders if folder.is_dir()]


def _strings(texts: Sequence[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))


def _compile_request() -> None:
    """Compile the program on stdin, and write the result to stdout, both in JSON."""
    path, *request = json.load(sys.stdin)
    result = open_library(path).compile(*request)
    json.dump([result.ptx, result.log, dict(result.lowered), result.code], sys.stdout)


if __name__ == "__main__":
    _compile_request()
