"""Trace the launches of a measured row from compiled CUDA sources, by emulating the PTX.

Grid, block and the layout of arrays in memory are those of the kernels in Python, so that the two differ in the code
alone. PTX has virtual registers only. The registers of a thread are therefore unknown, and limit nothing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from rdmodel.trace import Launch, Trace
from tracegen import cuda
from tracegen.arrays import BASE
from tracegen.cuda import sources
from tracegen.cuda.signatures import signatures
from tracegen.ptx import Module, parse
from tracegen.ptx.emulator.emulated_launch import DeviceBuffer, LoadedModule
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace
from validation.hardware import launches as python
from validation.hardware.launches import Pad, Plan
from validation.hardware.rows import FOLDER, Row

PASS = FOLDER / "correlate_pass.cu"

NAMES = {"2dconv": "conv2d_1", "3dconv": "conv3d_1"}
"""CUDA names of kernels that begin with a digit; the others have ``_`` in place of the dot."""


def launches(row: Row, pad: Pad = 1, passes: int | None = 8) -> list[Trace]:
    """Return the traces of a row's launches, from compiled code; `pad` and `passes` as in `plans`.

    Raise `ConfigError` if there is no compiler.
    """
    return [trace(plan) for plan in python.plans(row, pad, passes)]


def trace(plan: Plan) -> Trace:
    """Return the trace of one launch, from compiled code."""
    model = python.trace(plan).launch
    if "distance" in plan.arguments:
        path, kernel = PASS, PASS.stem
    else:
        kernel = NAMES.get(plan.row.kernel, plan.row.kernel.replace(".", "_"))
        path = sources.source_path(plan.row.kernel.partition(".")[0])
    made = emulate(path, kernel, model, plan.sizes, plan.arguments)
    made.launch = dataclasses.replace(made.launch, kernel=plan.row.kernel)
    return made


def emulate(
    path: Path, kernel: str, like: Launch, defines: Mapping[str, int], arguments: Mapping[str, int]
) -> EmulatedTrace:
    """Return the trace of a kernel in a file, with the grid, block and array addresses of the launch `like`."""
    machine = LoadedModule(_module(path, tuple(defines.items())), base=BASE)
    buffers = {array.name: machine.allocate(array.bytes, array.name) for array in like.arrays}
    assert [buffer.base for buffer in buffers.values()] == [array.base for array in like.arrays]
    (parameters,) = (s.parameters for s in signatures(path.read_text()) if s.name == kernel)
    known: dict[str, DeviceBuffer | int] = {**buffers, **arguments}
    launched = machine.launch(kernel, like.grid, like.block, [known[str(p)] for p in parameters], values=False)
    return EmulatedTrace(launched)


@cache
def _module(path: Path, defines: tuple[tuple[str, int], ...]) -> Module:
    return parse(cuda.compile(path, defines=dict(defines)), path.name)


@cache
def compiler() -> str:
    """Return version and target of the compiler as PTX names them, such as ``release 13.0, V13.0.88, sm_75``."""
    ptx = cuda.compile('extern "C" __global__ void nothing() {}')
    found = re.search(r"release [\d.]+, V[\d.]+", ptx), re.search(r"^\.target (\w+)", ptx, re.M)
    return ", ".join(match[match.lastindex or 0] if match else "unknown" for match in found)
