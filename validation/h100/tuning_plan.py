"""Write the plan that times the points of `validation.tuning` on an H100, and their machine code.

`python -m validation.h100.tuning_plan FOLDER --sources DIR`, with `DIR` the folder ``kernels`` of the hub. The code of
a point is the PTX of its prediction, assembled for the H100. Some points have a second case, ``SPACE-nvcc|...``, which
nvcc compiled: the measured kernels were compiled by nvcc, and some predictions miss them for reasons that the compiler
may explain.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from tracegen.arrays import BASE
from tracegen.cuda import TiledProgram
from tracegen.cuda.session import Session
from tracegen.ptx.emulator.device_memory import MODULE_BASE
from tracegen.ptx.registers.ptxas import Assembled, parse_messages
from validation.h100.cases import ARCHITECTURE
from validation.h100.plan import argument, write
from validation.tuning.predict import Predicted, read_config
from validation.tuning.records import by_space, measured, read
from validation.tuning.spaces import CHANNELS, CUDA_SPACES, MATRIX

PLAN, REGISTERS = "tuning.json", "registers.csv"
TIMES = 7

LENGTHS = {"convolution": 0, "gemm": MATRIX, "dedispersion": CHANNELS}
"""Iterations of the long loop of each space: all of them. The spaces are timed in this order, the slowest one last."""

FILTER = "d_filter"
"""The variable in constant memory that the convolution reads."""


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a space; `nvcc` tells that nvcc compiles it."""

    space: str
    config: str
    nvcc: bool = False

    @property
    def case(self) -> str:
        """The name of the launch in the plan."""
        return f"{self.space}{'-nvcc' if self.nvcc else ''}|{self.config}"

    def program(self, sources: Path) -> TiledProgram:
        """Return the program whose tile is the point."""
        return CUDA_SPACES[self.space].program(sources, read_config(self.config), LENGTHS[self.space])


@dataclass(frozen=True, slots=True)
class Prepared:
    """A launch of a plan without its module, the data of its space, the bytes of its arrays, and its PTX."""

    launch: dict[str, Any]
    data: list[dict[str, Any]]
    bytes: int
    ptx: str


@dataclass(frozen=True, slots=True)
class Code:
    """Machine code, with what the assembler says of each kernel; without code, the messages tell the reason."""

    code: bytes
    kernels: dict[str, Assembled]
    messages: str


# ---- choose the points


def points() -> list[Point]:
    """Return all points that have a recorded prediction, and those that nvcc compiles, by space."""
    found: list[Point] = []
    rows = by_space(read())
    for space in LENGTHS:
        found += [Point(space, row.config) for row in rows[space]]
        found += [Point(space, row.config, nvcc=True) for row in for_nvcc(space, rows[space])]
    return found


def for_nvcc(space: str, rows: Sequence[Predicted]) -> list[Predicted]:
    """Return the points whose predictions the compiler may explain, and some of the others to compare with."""
    configs = {row.config: read_config(row.config) for row in rows}
    if space == "convolution":
        found: list[Predicted] = []
        # More than are needed, because some take too many registers to be launched.
        for shared, read_only, count in ((0, 1, 46), (0, 0, 22), (1, 0, 13), (1, 1, 13)):
            wanted = {"use_shmem": shared, "read_only": read_only}
            found += _spread([row for row in rows if wanted.items() <= configs[row.config].items()], count)
        return found
    if space == "gemm":
        special = [
            row for row in rows if row.spilled_bytes or 8 in (configs[row.config]["VWM"], configs[row.config]["VWN"])
        ]
        return special + _spread([row for row in rows if row not in special], max(8, 30 - len(special)))
    return []


def _spread(rows: Sequence[Predicted], count: int) -> list[Predicted]:
    """Return points at equal distances in the order of their measured times, and those with the largest errors."""
    times = measured()
    ordered = sorted(rows, key=lambda row: times[row.space][row.config])
    predicted = [row for row in ordered if row.milliseconds]
    found = sorted(predicted, key=lambda row: row.milliseconds / times[row.space][row.config])[: count // 8]
    rest = [row for row in ordered if row not in found]
    places = np.linspace(0, len(rest) - 1, count - len(found)).round().astype(int)
    return found + [rest[place] for place in places]


# ---- prepare the launches


def prepare(point: Point, sources: Path, folder: Path) -> Prepared:
    """Return the launch of a point as its prediction has it, but with the whole loop."""
    program, tile = point.program(sources), read_config(point.config)
    asked = program.question(tile)
    assert asked is not None
    kernels = [program.kernel] if program.kernel else []
    session = Session(
        program.source,
        kernels=kernels,
        defines=program.code(tile),
        includes=program.includes,
        architecture=program.architecture,
    )
    launch = session.prepare(program.kernel, asked["grid"], asked["block"], program.args, shared=asked["shared"])
    trace = session.trace(launch)
    buffers = [buffer for buffer in trace.launched.memory.buffers if buffer.base < MODULE_BASE]
    places = {buffer.base for buffer in buffers}
    data: list[dict[str, Any]] = [
        {"at": buffer.base - BASE, "file": write(buffer.array, folder)}
        if buffer.array.any()  # the delays of the dedispersion; all other arrays are zeros
        else {"at": buffer.base - BASE, "floats": buffer.bytes // 4}
        for buffer in buffers
    ]
    entry = {
        "case": point.case,
        "kernel": launch.kernel,
        "grid": list(trace.launch.grid),
        "block": list(trace.launch.block),
        "shared": asked["shared"],
        "args": [argument(value, places) for value in trace.launched.parameters],
        "times": TIMES,
    }
    return Prepared(entry, data, max(buffer.base + buffer.bytes for buffer in buffers) - BASE, session.ptx)


# ---- make machine code


def assemble(ptx: str, assembler: str) -> Code:
    """Assemble a program for the H100 as `rdmodel` does to count registers, but without the lines of its source."""
    return _run([assembler, "-v", "-O3", "-suppress-debug-info", f"-arch={ARCHITECTURE}"], "kernel.ptx", ptx)


def compile_with_nvcc(point: Point, sources: Path) -> Code:
    """Compile a point with nvcc, from the same source and with the same macros."""
    program, tile = point.program(sources), read_config(point.config)
    assert isinstance(program.source, str)
    flags = [f"-D{macro}" for macro in program.code(tile)] + [f"-I{folder}" for folder in program.includes]
    command = ["nvcc", "-cubin", "-Xptxas", "-v", f"-arch={ARCHITECTURE}", *flags]
    return _run(command, "kernel.cu", program.source)


def _run(command: Sequence[str], name: str, text: str) -> Code:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / name, Path(folder) / "kernel.cubin"
        source.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [*command, str(source), "-o", str(target)], capture_output=True, text=True, check=False, cwd=folder
        )
        messages = done.stderr + done.stdout
        return Code(target.read_bytes() if done.returncode == 0 else b"", parse_messages(messages), messages)


# ---- write the plan


def write_plan(wanted: Sequence[Point], sources: Path, folder: Path, assembler: str, jobs: int) -> list[str]:
    """Write the plan of some points with its machine code to a folder; return those without code, with the reasons."""
    folder.mkdir(parents=True, exist_ok=True)
    run = Parallel(n_jobs=jobs, verbose=1)
    prepared: list[Prepared] = run(delayed(prepare)(point, sources.resolve(), folder) for point in wanted)
    texts = list(dict.fromkeys(p.ptx for point, p in zip(wanted, prepared, strict=True) if not point.nvcc))
    assembled = dict(zip(texts, run(delayed(assemble)(text, assembler) for text in texts), strict=True))
    others = [point for point in wanted if point.nvcc]
    compiled = dict(zip(others, run(delayed(compile_with_nvcc)(p, sources.resolve()) for p in others), strict=True))

    weights = write(np.random.default_rng(0).random(33 * 33, np.float32), folder)
    launches: list[dict[str, Any]] = []
    rows: list[tuple[Any, ...]] = []
    failures: list[str] = []
    with_data: set[str] = set()
    for point, each in zip(wanted, prepared, strict=True):
        code = compiled[point] if point.nvcc else assembled[each.ptx]
        if each.launch["kernel"] not in code.kernels:
            failures.append(f"{point.case}: {code.messages}")
            continue
        module = f"{hashlib.sha256(code.code).hexdigest()[:16]}.cubin"
        (folder / module).write_bytes(code.code)
        launch = {**each.launch, "module": module}
        if point.space not in with_data:  # the next launches of the space find them there
            launch["data"] = each.data
            with_data.add(point.space)
        if FILTER in each.ptx:
            launch["globals"] = {FILTER: weights}
        launches.append(launch)
        rows.append((point.case, module, *astuple(code.kernels[each.launch["kernel"]])))
    pool = max(each.bytes for each in prepared)
    (folder / PLAN).write_text(json.dumps({"pool": pool, "launches": launches}, indent=1))
    write_registers(rows, folder / REGISTERS)
    return failures


def write_registers(rows: Iterable[tuple[Any, ...]], path: Path) -> None:
    """Write what the assembler says of each case."""
    with path.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["case", "module", "registers", "spill_stores", "spill_loads"])
        table.writerows(rows)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m validation.h100.tuning_plan", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the plan is written")
    parser.add_argument("--sources", type=Path, metavar="DIR", required=True, help="the folder `kernels` of the hub")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default 2)")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth point")
    # An assembler that is older than NVRTC does not know all of its PTX.
    parser.add_argument("--assembler", default="ptxas", metavar="FILE", help="ptxas, at least as new as NVRTC")
    options = parser.parse_args()
    wanted = points()[:: options.every]
    for failure in write_plan(wanted, options.sources, options.folder, options.assembler, options.jobs):
        print(failure)


if __name__ == "__main__":
    main()
