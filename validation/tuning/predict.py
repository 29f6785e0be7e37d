"""Predict the time of a point of a tuning space, with its terms."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import rdmodel as rd
from rdmodel import presets
from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.gpu.device_properties import compute_capability
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.gpu.register_use import with_registers
from rdmodel.model.machine_options import complete_options
from rdmodel.timing.latency import Phase
from rdmodel.timing.launch_time import LaunchParts, count_sampled_blocks, parts_of, time_from_parts
from rdmodel.timing.neighbours import sample_traffic
from rdmodel.trace import RegisterUse, Trace, Work
from rdmodel.trace.registers import ASSEMBLED
from tracegen import cuda
from validation.tuning.spaces import SPACES, Config


@dataclass(frozen=True, slots=True)
class Task:
    """A point to predict: its space, its configuration as text, and the folder of the sources."""

    space: str
    config: str
    sources: str

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
    dram_bytes: float = 0.0
    l2_bytes: float = 0.0
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
    space = SPACES[task.space]
    try:
        return _predict(task)
    except rd.RdmodelError as error:
        return Predicted(task.space, space.gpu, task.config, failure=str(error)[:200])


def _predict(task: Task) -> Predicted:
    space = SPACES[task.space]
    gpu = presets.gpu(space.gpu)
    config = read_config(task.config)
    major, minor = compute_capability(gpu)
    found: list[LaunchParts] = []
    use: RegisterUse | None = None
    for length in space.lengths:
        point = space.make(Path(task.sources), config, length)
        ptx = cuda.compile(
            point.source, defines=point.defines, includes=point.includes, architecture=f"sm_{major}{minor}"
        )
        kernel = _entry(ptx, point.kernel)
        made = cuda.trace(ptx, kernel, point.grid, point.block, point.arguments, variables=point.variables)
        # Addresses depend on arrays that these kernels do not write, so that blocks can be executed in any order.
        trace: Trace = cuda.EmulatedTrace(made.launched)
        if use is None:
            trace, use = with_registers(trace, gpu)
            assert use is not None
            if use.source != ASSEMBLED:
                raise rd.ConfigError("ptxas: not found; a wheel such as nvidia-cuda-nvcc has it")
        else:
            trace, _ = with_registers(trace, gpu, use.registers)
        counted = count_sampled_blocks(trace, gpu)
        resident = compute_occupancy(trace.launch, fit_to_launch(gpu, trace.launch)).blocks
        traffic = sample_traffic(trace, gpu, counted.average, resident, complete_options(gpu, {}))
        found.append(parts_of(trace, gpu, traffic, counted))
    assert use is not None
    parts = found[0] if len(found) == 1 else extrapolate(found[0], found[1], space.lengths, space.whole)
    time = time_from_parts(parts, gpu)
    per_ms = gpu.clock * 1000
    terms = json.dumps({name: round(cycles / per_ms, 4) for name, cycles in time.terms.items() if cycles > 0})
    return Predicted(
        task.space, space.gpu, task.config, round(time.milliseconds, 5), time.bound, use.registers,
        use.spill_loads,
        time.resident_warps, time.limiter, round(parts.traffic.dram_bytes), round(parts.traffic.l2_bytes), terms,
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
        for name in ("l2_read_bytes", "l2_write_bytes", "dram_bytes")
    }
    if [len(each) for each in first.phases] == [len(each) for each in second.phases]:
        phases = [
            [Phase(*(line(a, b) for a, b in zip(*pair, strict=True))) for pair in zip(*both, strict=True)]
            for both in zip(first.phases, second.phases, strict=True)
        ]
    else:  # a sampled warp has left out a piece, such as one beyond the edge of the data
        phases = [[Phase(*(value * whole / lengths[1] for value in each)) for each in some] for some in second.phases]
    passes = line(first.passes, second.passes)
    return replace(second, work=work, traffic=replace(second.traffic, **moved), passes=passes, phases=phases)


def _entry(ptx: str, kernel: str) -> str:
    names = re.findall(r"\.entry\s+(\w+)", ptx)
    return next(str(name) for name in names if name == kernel or re.search(rf"\d{kernel}(?!\w*\d{kernel})", name))
