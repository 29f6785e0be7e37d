"""Predict the time of a point of a tuning space, with its terms."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import rdmodel as rd
from rdmodel import presets
from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.gpu.register_use import with_registers
from rdmodel.model.machine_options import complete_options
from rdmodel.timing.latency import Phase
from rdmodel.timing.launch_time import LaunchParts, count_sampled_blocks, parts_of, settle
from rdmodel.timing.neighbours import sample_traffic
from rdmodel.trace import RegisterUse, Trace, Work
from validation.tuning.spaces import CUDA_SPACES, SPACES, Config, Space, with_assembly


@dataclass(frozen=True, slots=True)
class Task:
    """A point to predict: its space, its configuration as text, and the folder of the sources.

    The GPU is that of the space, unless `gpu` names another one. `assembly` puts assembly in the place of `__ldg`, as
    nvcc does.
    """

    space: str
    config: str
    sources: str
    gpu: str = ""
    assembly: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """The space and the configuration."""
        return self.space, self.config


@dataclass(frozen=True, slots=True)
class Predicted:
    """The prediction for a point; `failure` tells why there is none. `terms` are milliseconds by name, as JSON."""

    space: str
    gpu: str
    config: str
    milliseconds: float = 0.0
    bound: str = ""
    registers: int = 0
    spilled_bytes: int = 0
    warps: int = 0
    limiter: str = ""
    dram_bytes: int = 0
    l2_bytes: int = 0
    terms: str = "{}"
    failure: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The space and the configuration."""
        return self.space, self.config


def read_config(text: str) -> Config:
    """Return the parameters of a configuration such as ``block_size_x=16 tile_size_x=1``."""
    return {name: int(value) for name, value in (part.split("=") for part in text.split())}


def predict(task: Task) -> Predicted:
    """Return the prediction for a point, or the reason why there is none."""
    return predict_in(_space_of(task), task)


def predict_in(space: Space, task: Task) -> Predicted:
    """Return the prediction for a point of a space that has another name, or the reason why there is none."""
    try:
        return _predict(space, task)
    except rd.RdmodelError as error:
        return Predicted(task.space, task.gpu or space.gpu, task.config, failure=str(error)[:200])


def _space_of(task: Task) -> Space:
    """Return the space of a task; for a GPU that others did not measure, that of our own launches, all in CUDA."""
    return (CUDA_SPACES if task.gpu else SPACES)[task.space]


def _predict(space: Space, task: Task) -> Predicted:
    gpu, config = presets.gpu(task.gpu or space.gpu), read_config(task.config)
    found: list[Callable[[float], LaunchParts]] = []
    use: RegisterUse | None = None
    for length in space.lengths:
        program = space.program(Path(task.sources), config, length)
        trace: Trace = (with_assembly(program) if task.assembly else program)(config)
        trace, now = with_registers(trace, gpu, "auto" if use is None else use.registers)
        if use is None:
            assert now is not None
            use = now
            if not use.is_assembled:
                raise rd.ConfigError("ptxas: not found; a wheel such as nvidia-cuda-nvcc has it")
        if len(space.lengths) == 1:  # the users' way, without a detour
            return _predicted(task, rd.time(trace, gpu), use)
        found.append(_parts(trace, gpu, length / space.whole))
    assert use is not None

    def parts(share: float) -> LaunchParts:
        first, second = (each(share) for each in found)
        return extrapolate(first, second, space.lengths, space.whole)

    return _predicted(task, settle(parts, gpu), use)


def _parts(trace: Trace, gpu: GPU, share: float) -> Callable[[float], LaunchParts]:
    """Return the parts from which `rdmodel.time` computes the time of a launch whose blocks take long to make.

    They depend on the share of the DRAM that is used.

    The trace has a `share` of the iterations of a loop, and so of the data. The traffic is that with such a share of
    the L2, which holds as much of the data as it does with all iterations.
    """
    counted = count_sampled_blocks(trace, gpu)
    resident = compute_occupancy(trace.launch, fit_to_launch(gpu, trace.launch)).blocks
    least = gpu.l2.ways * gpu.l1.line
    small = gpu.replace(l2=replace(gpu.l2, size=max(least, int(gpu.l2.size * share) // least * least)))
    traffic = sample_traffic(trace, small, counted.average, resident, complete_options(small, {}))
    return lambda use: parts_of(trace, gpu, traffic, counted, use)


def _predicted(task: Task, time: rd.TimeEstimate, use: RegisterUse) -> Predicted:
    """Return the row of a point from its time."""
    per_ms = time.clock * 1000
    terms = {name: round(cycles / per_ms, 4) for name, cycles in time.terms.items() if cycles > 0}
    return Predicted(
        task.space, time.gpu, task.config, round(time.milliseconds, 5), time.bound, use.registers, use.spill_loads,
        time.resident_warps, time.limiter, round(time.traffic.dram_bytes), round(time.traffic.l2_bytes),
        json.dumps(terms),
    )  # fmt: skip


def extrapolate(first: LaunchParts, second: LaunchParts, lengths: tuple[int, ...], whole: int) -> LaunchParts:
    """Return the parts of a launch whose loop has `whole` iterations, from those with two other lengths."""
    share = (whole - lengths[0]) / (lengths[1] - lengths[0])

    def line(a: float, b: float) -> float:
        return max(0.0, a + (b - a) * share)

    def mapped(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
        return {name: line(a[name], b[name]) for name in a}

    works, traffics = (first.work, second.work), (first.traffic, second.traffic)
    counts = [each.name for each in fields(Work) if isinstance(getattr(first.work, each.name), dict)]
    work = replace(
        second.work,
        **{name: mapped(*(getattr(each, name) for each in works)) for name in counts},  # type: ignore[arg-type]
        constant_replays=line(*(each.constant_replays for each in works)),
    )
    moved = {
        name: line(*(getattr(each, name) for each in traffics))
        for name in ("l2_read_bytes", "l2_write_bytes", "dram_bytes", "dram_written_bytes")
    }
    if [len(each) for each in first.phases] == [len(each) for each in second.phases]:
        phases = [
            [_between(line, *pair) for pair in zip(*both, strict=True)]
            for both in zip(first.phases, second.phases, strict=True)
        ]
    else:  # a sampled warp has left out a piece, such as one beyond the edge of the data
        phases = [[each.scaled(whole / lengths[1]) for each in some] for some in second.phases]
    passes = line(first.passes, second.passes)
    traffic = replace(second.traffic, **moved)  # type: ignore[arg-type]  # of numbers alone
    return replace(second, work=work, traffic=traffic, passes=passes, phases=phases)


def _between(line: Callable[[float, float], float], first: Phase, second: Phase) -> Phase:
    """Return the phase on a `line` through two others, which have the same instructions."""
    units = tuple((name, line(a, b)) for (name, a), (_, b) in zip(first.units, second.units, strict=True))
    return Phase(
        line(first.cycles, second.cycles),
        line(first.accesses, second.accesses),
        line(first.gaps, second.gaps),
        line(first.products, second.products),
        units,
        line(first.waits, second.waits),
    )
