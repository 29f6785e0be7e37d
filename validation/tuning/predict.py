"""Predict the time of a point of a tuning space, with its terms."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import rdmodel as rd
from rdmodel import presets
from rdmodel.gpu.device_properties import compute_capability
from tracegen import cuda
from validation.tuning.spaces import SPACES, Config, Point


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
    """The prediction for a point; `failure` tells why there is none."""

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
    terms: dict[str, float] = field(default_factory=dict)
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
    registers, spilled, found = 0, 0, []
    for length in space.lengths:
        point = space.make(Path(task.sources), config, length)
        major, minor = compute_capability(gpu)
        ptx = cuda.compile(
            point.source, defines=point.defines, includes=point.includes, architecture=f"sm_{major}{minor}"
        )
        kernel = _entry(ptx, point.kernel)
        if not registers:
            registers, spilled = assemble(ptx, kernel, f"sm_{major}{minor}")
        found.append(_time(ptx, kernel, point, registers, gpu))
    last = found[-1]
    ms = _extrapolate([each.milliseconds for each in found], space.lengths, space.whole)
    per_ms = gpu.clock * 1000
    terms = {
        name: round(_extrapolate([each.terms[name] for each in found], space.lengths, space.whole) / per_ms, 5)
        for name in last.terms
    }
    return Predicted(
        task.space, space.gpu, task.config, round(ms, 5), max(terms, key=lambda name: terms[name]), registers, spilled,
        last.resident_warps, last.limiter,
        round(_extrapolate([each.traffic.dram_bytes for each in found], space.lengths, space.whole)),
        round(_extrapolate([each.traffic.l2_bytes for each in found], space.lengths, space.whole)),
        terms,
    )  # fmt: skip


def _extrapolate(values: list[float], lengths: tuple[int, ...], whole: int) -> float:
    if len(values) == 1:
        return values[0]
    slope = (values[-1] - values[0]) / (lengths[-1] - lengths[0])
    return values[-1] + slope * (whole - lengths[-1])


def _entry(ptx: str, kernel: str) -> str:
    names = re.findall(r"\.entry\s+(\w+)", ptx)
    return next(name for name in names if name == kernel or re.search(rf"\d{kernel}(?!\w*\d{kernel})", name))


def _time(ptx: str, kernel: str, point: Point, registers: int, gpu: rd.GPU) -> rd.TimeEstimate:
    made = cuda.trace(ptx, kernel, point.grid, point.block, point.arguments, variables=point.variables)
    # Addresses depend on arrays that these kernels do not write, so that blocks can be executed in any order.
    trace = cuda.EmulatedTrace(made.launched)
    object.__setattr__(trace.launch, "registers", registers)
    return rd.time(trace, gpu)


def assemble(ptx: str, kernel: str, architecture: str) -> tuple[int, int]:
    """Return the registers per thread and the bytes of spills that ``ptxas`` reports for a kernel."""
    assembler = shutil.which("ptxas")
    if assembler is None:
        raise rd.ConfigError("ptxas: is not installed; put the one of a CUDA toolkit on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(ptx)
        command = [assembler, "-v", f"-arch={architecture}", str(path), "-o", "/dev/null"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        unsupported = re.search(r"Unsupported \.version [\d.]+; current version is '([\d.]+)'", done.stderr)
        if unsupported:  # an older assembler reads the same instructions
            path.write_text(re.sub(r"\.version [\d.]+", f".version {unsupported[1]}", ptx, count=1))
            done = subprocess.run(command, capture_output=True, text=True, check=False)
    part = done.stderr.partition(f"'{kernel}'")[2]
    used, spilled = re.search(r"Used (\d+) registers", part), re.search(r"(\d+) bytes spill loads", part)
    if used is None:
        raise rd.ConfigError(f"ptxas: {done.stderr.strip()[-200:]}")
    return int(used[1]), int(spilled[1]) if spilled else 0
