"""Ask `ptxas`, the assembler of CUDA, for the registers and the spills of kernels."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import field
from functools import cache, lru_cache
from pathlib import Path

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError

_TIMEOUT = 120
"""Seconds after which an assembly is given up."""

_WHEELS = ("nvidia/*/bin/ptxas", "nvidia/*/*/bin/ptxas", "triton/backends/nvidia/bin/ptxas")
"""Places of the assembler in Python packages of NVIDIA and Triton."""

_USUAL_PLACE = Path("/usr/local/cuda/bin/ptxas")

_FEWEST_RELATED = 35
"""The oldest architecture whose threads have up to 255 registers, as those of all later ones do."""

_RESIDENT_THREADS = {75: 1024, 86: 1536, 87: 1536, 88: 1536, 89: 1536, 110: 1536, 120: 1536, 121: 1536}
"""Threads that an SM holds, 2048 for others (NVIDIA, CUDA programming guide, table of compute capabilities)."""

_KNOWN = re.compile(r"'sm_(\d+)'")
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_USED = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_VERSION = re.compile(r"Unsupported \.version [\d.]+; current version is '([\d.]+)'")
_VERSION_LINE = re.compile(r"^(\s*\.version\s+)[\d.]+", re.MULTILINE)
_TARGET_LINE = re.compile(r"^(\s*\.target\s+)sm_(\d+)([a-z]?)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Assembled:
    """Registers per thread of a kernel, and the bytes per thread that it spills to local memory and loads from it.

    `spill_frame` are the bytes that the spilled registers take there, at most: the frame may have arrays, too. `code`
    is the file with the machine code, in the format of a cubin.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    spill_frame: int = 0
    code: bytes = field(default=b"", repr=False, compare=False)


CHOSEN_VARIABLE = "RDMODEL_PTXAS"
"""Environment variable that names the assembler to ask, such as that of the CUDA with which others built a program."""


@cache
def find_assemblers() -> tuple[str, ...]:
    """Return the paths of all assemblers: in PATH, in CUDA_HOME, in wheels and in the usual folder, without copies.

    If `CHOSEN_VARIABLE` names one, it is the only one. Raises `ConfigError` if that is no program.
    """
    chosen = os.environ.get(CHOSEN_VARIABLE)
    if chosen:
        if not (os.path.isfile(chosen) and os.access(chosen, os.X_OK)):
            raise ConfigError(f"{CHOSEN_VARIABLE}={chosen!r}: must be the path of a program, such as .../bin/ptxas")
        return (chosen,)
    found = {os.path.realpath(path): str(path) for path in _candidates() if os.access(path, os.X_OK)}
    return tuple(found.values())


def _candidates() -> Iterator[str | Path]:
    found = shutil.which("ptxas")
    if found:
        yield found
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield Path(os.environ[variable]) / "bin" / "ptxas"
    for folder in dict.fromkeys(sys.path):
        for pattern in _WHEELS:
            yield from sorted(Path(folder or ".").glob(pattern))
    yield _USUAL_PLACE


@cache
def known_architectures() -> frozenset[int]:
    """Return the architectures for which the assemblers make code, such as 80, as their help texts list them."""
    helps = (_output([program, "--help"]) for program in find_assemblers())
    return frozenset(int(number) for text in helps for number in _KNOWN.findall(text))


def related_architecture(architecture: int, known: frozenset[int]) -> int | None:
    """Return the one of the `known` architectures whose code is most like that for another one.

    Assemblers give threads the more registers, the fewer of them an SM holds. So an SM of the related architecture
    holds as many if possible, and it is the nearest one then. None if the architecture itself is known, or none is, or
    if its threads cannot have as many registers as later ones do.
    """
    if not known or architecture in known or architecture < _FEWEST_RELATED:
        return None
    threads = _RESIDENT_THREADS.get(architecture, 2048)
    return min(known, key=lambda it: (_RESIDENT_THREADS.get(it, 2048) != threads, abs(it - architecture), it))


@lru_cache(maxsize=256)
def assemble(ptx: str, architecture: int, relocatable: bool = False) -> dict[str, Assembled]:
    """Return what the assembler says of every kernel in a PTX text, for an architecture such as 80.

    Empty if there is no assembler, or if none accepts the text for this architecture. The first one counts that knows
    the version of the text. If all are older than the compiler, each gets the text with the latest version that it
    knows.
    """
    assemblies = _assemblies(ptx, architecture, relocatable)
    return next((found for output, code in assemblies if (found := parse_messages(output, code))), {})


def assemble_code(ptx: str, architecture: int) -> bytes | None:
    """Return the code (a file in the format of a cubin) into which `assemble` turns a text; None if it turns none."""
    return next((code for _, code in _assemblies(ptx, architecture) if code), None)


def _assemblies(ptx: str, architecture: int, relocatable: bool = False) -> Iterator[tuple[str, bytes]]:
    """Yield messages and code of each assembler that knows the version of the text, and then of the older ones."""
    target = _TARGET_LINE.search(ptx)
    suffix = target[3] if target and int(target[2]) == architecture else ""
    if target and int(target[2]) > architecture:
        ptx = _TARGET_LINE.sub(rf"\g<1>sm_{architecture}", ptx, count=1)
    older: list[tuple[str, str]] = []
    for program in find_assemblers():
        output, code = _run(program, ptx, f"sm_{architecture}{suffix}", relocatable)
        if known := _VERSION.search(output):
            older.append((program, known[1]))
        else:
            yield output, code
    for program, version in older:
        text = _VERSION_LINE.sub(rf"\g<1>{version}", ptx, count=1)
        yield _run(program, text, f"sm_{architecture}{suffix}", relocatable)


def parse_messages(output: str, code: bytes = b"") -> dict[str, Assembled]:
    """Return what the messages of ``ptxas -v`` say of each kernel, which `code` has."""
    found: dict[str, Assembled] = {}
    kernel, spills = None, (0, 0, 0)
    for line in output.splitlines():
        if entry := _ENTRY.search(line):
            kernel, spills = entry[1], (0, 0, 0)
        elif bytes := _SPILLS.search(line):
            frame, stored, loaded = (int(number) for number in bytes.groups())
            spills = stored, loaded, min(frame, stored)
        elif (used := _USED.search(line)) and kernel is not None:
            found[kernel] = Assembled(int(used[1]), *spills, code)
            kernel = None
    return found


def _run(program: str, ptx: str, architecture: str, relocatable: bool) -> tuple[str, bytes]:
    """Return messages and code of the assembler; both are empty if it fails to run."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        command = [program, "-v", f"-arch={architecture}", str(source), "-o", str(target)]
        output = _output([*command, "-c"] if relocatable else command, folder)
        return output, target.read_bytes() if output and target.exists() else b""


def _output(command: list[str], folder: str | None = None) -> str:
    """Return what a program writes to stderr and stdout, one after the other; empty if it fails to run."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=False, cwd=folder)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
