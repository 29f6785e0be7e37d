"""Run commands in separate processes and measure their time and memory; a helper of benchmarks.

A benchmark that uses this module should import nothing large, since the peak memory of a child starts from that of its
parent.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path


def checkouts_with(other: str | None) -> list[str]:
    """Return the folder of this checkout, and that of another one if it is given."""
    return [str(Path(__file__).parents[1]), *([] if other is None else [str(Path(other).resolve())])]


def processor_seconds(arguments: Sequence[str], checkout: str) -> float:
    """Return the processor time of ``python ARGUMENTS`` with the modules and the byte code of a checkout."""
    return measure(["-P", *arguments], environment_of(checkout))["cpu_seconds"]


def environment_of(checkout: str) -> dict[str, str]:
    """Return the environment of a process that is timed with the modules and the byte code of a checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # NumPy's linear algebra starts a thread per core otherwise, which waits actively, and which the commands avoid.
    return environment | {"PYTHONPATH": checkout, "OPENBLAS_NUM_THREADS": "1"}


def output_of(arguments: Sequence[str], checkout: str) -> str:
    """Return what ``python ARGUMENTS`` prints with the modules of a checkout, to which it adds no byte code."""
    environment = {**os.environ, "PYTHONPATH": checkout, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def measure(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> dict[str, float]:
    """Return wall and CPU seconds and the peak resident set in MB of ``python ARGUMENTS``; exit if it fails."""
    start = time.perf_counter()
    silence = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    child = os.posix_spawn(sys.executable, [sys.executable, *arguments], environment, file_actions=silence)
    _, status, usage = os.wait4(child, 0)
    if code := os.waitstatus_to_exitcode(status):
        sys.exit(f"{' '.join(arguments)}: exit status {code}")
    return {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss * 1024 / 1e6,
    }
