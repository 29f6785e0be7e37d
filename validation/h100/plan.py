"""Write the plan of the launches and their machine code for `launcher.py`: `python -m validation.h100.plan FOLDER`."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rdmodel.errors import ConfigError
from tracegen.arrays import BASE
from tracegen.cuda.session import PreparedLaunch, Session
from tracegen.ptx import parse
from tracegen.ptx.emulator.device_memory import MODULE_BASE
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace
from tracegen.ptx.registers.ptxas import assemble_code
from validation.h100.cases import ARCHITECTURE, Case, all_cases

PLAN = "kernels.json"

LARGE = 8 << 20
"""Bytes above which an array has random numbers, as its own would make the plan too large to copy."""


def write_plan(cases: Iterable[Case], folder: Path) -> None:
    """Write machine code, data and plan of some launches to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    launches, end = [], 0
    for case in cases:
        session, launch = case.prepare()
        trace = session.trace(launch)
        launches.append(entry(case, session, launch, trace, folder))
        end = max([end, *(info.base + info.bytes - BASE for info in trace.launch.arrays if info.base < MODULE_BASE)])
    (folder / PLAN).write_text(json.dumps({"pool": end, "launches": launches}, indent=1))


def entry(case: Case, session: Session, launch: PreparedLaunch, trace: EmulatedTrace, folder: Path) -> dict[str, Any]:
    """Return the launch as an entry of a plan, and write its machine code and data."""
    buffers = [buffer for buffer in trace.launched.memory.buffers if buffer.base < MODULE_BASE]
    places = {buffer.base for buffer in buffers}
    data: list[dict[str, Any]] = []
    for buffer in buffers:
        if buffer.bytes > LARGE and buffer.array.any():
            data.append({"at": buffer.base - BASE, "floats": buffer.bytes // 4})
        elif buffer.array.any():
            data.append({"at": buffer.base - BASE, "file": write(buffer.array, folder)})
    uninitialised = {v.name for v in parse(session.ptx, case.name).variables.values() if v.initial is None}
    variables = {
        buffer.name: write(buffer.array, folder)
        for buffer in trace.launched.memory.buffers
        if buffer.base >= MODULE_BASE and buffer.name in uninitialised and buffer.array.any()
    }
    return {
        "case": case.name,
        "module": assemble(session.ptx, folder),
        "kernel": launch.kernel,
        "grid": list(trace.launch.grid),
        "block": list(trace.launch.block),
        "shared": case.shared,
        "args": [argument(value, places) for value in trace.launched.parameters],
        "clear": max(buffer.base + buffer.bytes for buffer in buffers) - BASE,
        "data": data,
        "globals": variables,
    }


def write(array: NDArray[Any], folder: Path) -> str:
    """Write the contents of an array to a file that is named after them, and return its name."""
    content = array.tobytes()
    name = f"{hashlib.sha256(content).hexdigest()[:16]}.bin"
    (folder / name).write_bytes(content)
    return name


def argument(value: bytes, places: set[int]) -> dict[str, Any]:
    """Return an argument of a plan: an offset in the pool if the value is the address of an array."""
    number = int.from_bytes(value, "little")
    return {"at": number - BASE} if len(value) == 8 and number in places else {"hex": value.hex()}


def assemble(ptx: str, folder: Path) -> str:
    """Assemble a program, unless the folder has its machine code, and return the name of the file."""
    target = folder / f"{hashlib.sha256(ptx.encode()).hexdigest()[:16]}.cubin"
    if not target.exists():
        code = assemble_code(ptx, int(ARCHITECTURE.removeprefix("sm_")))
        if code is None:
            raise ConfigError("ptxas: not found; a wheel such as nvidia-cuda-nvcc has it")
        target.write_bytes(code)
    return target.name


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m validation.h100.plan", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the plan is written")
    parser.add_argument("--sources", type=Path, metavar="DIR", help="the public benchmarks, too (validation.counters)")
    options = parser.parse_args()
    write_plan(all_cases(options.sources), options.folder)


if __name__ == "__main__":
    main()
