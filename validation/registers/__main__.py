"""``python -m validation.registers``: compare ways to know the registers of kernels, and record the numbers.

The kernels are points of the spaces of `validation.tuning`, on GPUs that the assembler of CUDA 13 does not know.
``--ptxas`` names one of CUDA 12, whose numbers are right for these GPUs. Times are predicted for the measured GPUs. For
their points that spill registers, it also tells whether they do with the older assembler.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

import rdmodel as rd
from rdmodel import presets
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.gpu.register_use import with_registers
from rdmodel.trace import RegisterUse
from rdmodel.trace.registers import ASSEMBLED
from tracegen.cuda.nvrtc_assembler import NvrtcAssembler
from tracegen.ptx.emulator import emulated_launch
from tracegen.ptx.registers import ptxas
from tracegen.ptx.registers.counting import count_registers
from tracegen.ptx.syntax.ast import Module
from validation.common.records import from_csv, positive, run_all, to_csv
from validation.tuning.measures import quality, scores_of
from validation.tuning.predict import Task, predict, read_config
from validation.tuning.records import measured
from validation.tuning.records import read as predicted
from validation.tuning.spaces import CUDA_SPACES, SPACES

COUNTED, TIMED, SPILLED = (Path(__file__).parent / f"{name}.csv" for name in ("counted", "timed", "spilled"))

GPUS = ("v100", "titan-x-pascal", "p100", "titan-x-maxwell")
"""GPUs that the assembler of CUDA 13 does not know."""

COMPILED_FOR = "sm_75"
"""The oldest architecture for which NVRTC of CUDA 13 compiles."""

STAND_IN = (8, 0)
"""The compute capability whose code stands in for that of the measured GPUs, whose SMs hold fewer threads."""

POINTS = 40
"""Points of a space whose registers are counted, unless another number is given; twice as many are timed."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Registers of a point and warps on an SM: from code for the GPU (`own`), for a `related` one, and `estimated`."""

    gpu: str
    space: str
    config: str
    own: int
    related: int
    estimated: int
    own_warps: int
    related_warps: int
    estimated_warps: int


@dataclass(frozen=True, slots=True)
class Timed:
    """The predicted time of a point with registers that are known in one of three ways; 0: it does not fit."""

    space: str
    config: str
    registers: str
    milliseconds: float


@dataclass(frozen=True, slots=True)
class Spilled:
    """Registers of a point that spills, and the bytes that it loads again; 0 if the older assembler rejects it."""

    space: str
    config: str
    registers: int
    loaded: int
    old_registers: int
    old_loaded: int


@contextmanager
def assemblers(*programs: str) -> Iterator[None]:
    """Let these programs be all assemblers."""
    cached = ptxas.known_architectures, ptxas.assemble
    for function in cached:
        function.cache_clear()
    try:
        with (
            patch.object(ptxas, "find_assemblers", lambda: programs),
            patch.object(NvrtcAssembler, "assemble", lambda *_: ("", b"")),
        ):
            yield
    finally:
        for function in cached:
            function.cache_clear()


def count(old: str, task: Task) -> Counted | None:
    """Return the registers of a point; None if the assembler `old`, which knows its GPU, rejects newer code."""
    config = read_config(task.config)
    space = CUDA_SPACES[task.space]
    program = replace(space.program(Path(task.sources), config, space.lengths[0]), architecture=COMPILED_FOR)
    gpu, found = presets.gpu(task.gpu), []
    for programs, asked, source in (
        ((old,), gpu, "ptxas"),
        (ptxas.find_assemblers(), gpu, "ptxas for sm_80"),
        ((), None, "estimated"),
    ):
        with assemblers(*programs):
            trace, use = with_registers(program(config), asked)
        assert use is not None
        if use.source != source:
            assert source == "ptxas", f"{task.space}, {task.config}: {use}"
            return None
        try:
            warps = compute_occupancy(trace.launch, gpu).blocks * trace.launch.block_warps
        except rd.LaunchError:
            warps = 0
        found.append((use.registers, warps))
    registers, residents = zip(*found, strict=True)
    return Counted(task.gpu, task.space, task.config, *registers, *residents)


def _related(module: Module, kernel: str, _capability: tuple[int, int] | None) -> RegisterUse:
    return count_registers(module, kernel, STAND_IN)


def _estimated(module: Module, kernel: str, _capability: tuple[int, int] | None) -> RegisterUse:
    return replace(count_registers(module, kernel, None), source=ASSEMBLED)  # else there were no prediction


WAYS: dict[str, Callable[[Module, str, tuple[int, int] | None], RegisterUse]] = {
    "own": count_registers,
    "related": _related,
    "estimated": _estimated,
}
"""Ways to know the registers."""


def time(job: tuple[str, Task]) -> Timed:
    """Return the predicted time of a point."""
    way, task = job
    with patch.object(emulated_launch, "count_registers", WAYS[way]):
        return Timed(task.space, task.config, way, predict(task).milliseconds)


def spill(old: str, task: Task) -> Spilled:
    """Return what two assemblers say of a point that spills."""
    config, space = read_config(task.config), SPACES[task.space]
    program, gpu = space.program(Path(task.sources), config, space.lengths[0]), presets.gpu(space.gpu)
    _, now = with_registers(program(config), gpu)
    with assemblers(old):
        _, before = with_registers(program(config), gpu)
    assert now is not None
    assert before is not None
    known = (before.registers, before.spill_loads) if before.is_exact else (0, 0)
    return Spilled(task.space, task.config, now.registers, now.spill_loads, *known)


def spread(space: str, points: int) -> list[str]:
    """Return configurations spread evenly over a space."""
    configs = sorted(measured()[space])
    return [configs[at * len(configs) // points] for at in range(min(points, len(configs)))]


def count_all(options: argparse.Namespace) -> list[Counted]:
    """Return the registers of all points, on all GPUs."""
    tasks = [
        Task(space, config, str(options.sources), gpu)
        for space in SPACES
        for config in spread(space, options.points)
        for gpu in GPUS
    ]
    found = run_all(partial(count, str(options.ptxas.resolve())), tasks, options.jobs)
    return [row for row in found if row is not None]


def time_all(options: argparse.Namespace) -> list[Timed]:
    """Return the times of all points, with registers that are known in each way."""
    points = [(space, config) for space in SPACES for config in spread(space, 2 * options.points)]
    jobs = [(way, Task(space, config, str(options.sources))) for space, config in points for way in WAYS]
    return list(run_all(time, jobs, options.jobs))


def spill_all(options: argparse.Namespace) -> list[Spilled]:
    """Return what two assemblers say of all points that are predicted to spill."""
    tasks = [Task(row.space, row.config, str(options.sources)) for row in predicted() if row.spilled_bytes]
    return list(run_all(partial(spill, str(options.ptxas.resolve())), tasks, options.jobs))


def tables(counted: Sequence[Counted], timed: Sequence[Timed], spilled: Sequence[Spilled]) -> str:
    """Return a table of the registers, one of the rankings, and one of the points that spill."""
    parts = (_register_table(counted), _ranking_table(timed), _spill_table(spilled))
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _register_table(counted: Sequence[Counted]) -> Iterator[str]:
    yield f"{'GPU':18}{'space':15}{'points':>7}{'registers off by':>22}{'the same warps':>20}"
    yield f"{'':40}{'related':>11}{'estimated':>11}{'related':>10}{'estimated':>10}"
    for gpu in GPUS:
        for space in SPACES:
            rows = [row for row in counted if (row.gpu, row.space) == (gpu, space)]
            off = [_off((getattr(row, way), row.own) for row in rows) for way in ("related", "estimated")]
            pairs = [
                [(getattr(row, f"{way}_warps"), row.own_warps) for row in rows] for way in ("related", "estimated")
            ]
            same = [sum(found == right for found, right in each) for each in pairs]
            yield f"{gpu:18}{space:15}{len(rows):7}{off[0]:9.0f} %{off[1]:9.0f} %{same[0]:10}{same[1]:10}"


def _ranking_table(timed: Sequence[Timed]) -> Iterator[str]:
    yield f"{'tau of times':18}{'space':15}{'points':>7}" + "".join(f"{way:>10}" for way in WAYS)
    for space in SPACES:
        taus = [_tau(space, [row for row in timed if (row.space, row.registers) == (space, way)]) for way in WAYS]
        points = sum(row.space == space for row in timed) // len(WAYS)
        yield f"{SPACES[space].gpu:18}{space:15}{points:7}" + "".join(f"{tau:10.3f}" for tau in taus)


def _spill_table(spilled: Sequence[Spilled]) -> Iterator[str]:
    yield f"{'that spill':18}{'space':15}{'points':>7}{'also with CUDA 12':>20}{'as much':>10}{'rejected':>10}"
    for space in dict.fromkeys(row.space for row in spilled):
        rows = [row for row in spilled if row.space == space]
        rejected = sum(not row.old_registers for row in rows)
        too, same = sum(row.old_loaded > 0 for row in rows), sum(row.old_loaded == row.loaded for row in rows)
        yield f"{SPACES[space].gpu:18}{space:15}{len(rows):7}{too:20}{same:10}{rejected:10}"


def _off(pairs: Iterable[tuple[int, int]]) -> float:
    """Return the mean difference of registers from the right ones, in percent."""
    return 100 * fmean(abs(found - right) / right for found, right in pairs)


def _tau(space: str, rows: Sequence[Timed]) -> float:
    """Return the rank correlation of predicted and measured times; a point without a prediction ranks last."""
    times = measured()[space]
    return quality(scores_of([row.milliseconds for row in rows]), [times[row.config] for row in rows]).tau


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m validation.registers", description=__doc__)
    parser.add_argument("--sources", type=Path, metavar="DIR", help="the hub's folder 'kernels'")
    parser.add_argument("--ptxas", type=Path, metavar="FILE", help="an assembler of CUDA 12")
    parser.add_argument("--recorded", action="store_true", help="print the committed record")
    parser.add_argument("--points", type=positive, default=POINTS, help=f"points of a space (default: {POINTS})")
    parser.add_argument("--jobs", type=positive, default=2, help="number of processes (default: 2)")
    options = parser.parse_args()
    if not options.recorded:
        if options.sources is None or options.ptxas is None:
            parser.error("--sources and --ptxas: are needed, or --recorded")
        COUNTED.write_text(to_csv(Counted, count_all(options)))
        TIMED.write_text(to_csv(Timed, time_all(options)))
        SPILLED.write_text(to_csv(Spilled, spill_all(options)))
    counted, timed = from_csv(Counted, COUNTED.read_text()), from_csv(Timed, TIMED.read_text())
    print(tables(counted, timed, from_csv(Spilled, SPILLED.read_text())), end="")


if __name__ == "__main__":
    main()
