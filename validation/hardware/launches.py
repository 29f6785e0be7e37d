"""Choose the launches that represent a measured row, and trace them from kernels in Python.

The measured code is PolyBench/GPU 1.0 in the version of haozhigh/model_gpu_cache (``src/benchmarks/polybench_gpu``).
There, correlation and covariance count from 1 in arrays of M+1 columns, and ex of fdtd2d has a row pitch of NY+1. Rows
of such arrays do not begin on a line, so that a warp touches two lines instead of one. ``PAD=1`` of `tracegen.kernel`
and of the CUDA sources is that layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import tracegen
from rdmodel.trace import Trace
from tracegen import Array, Block
from validation.hardware.rows import Row

Pad = Literal[0, 1]

PADDED = ("corr", "covar", "fdtd2d")
"""Benchmarks whose arrays have borders in the measured code."""

FIRST_DISTANCE = {"corr.corr": 1, "covar.covar": 0}
"""First distance j2 - j1 of the kernels that pass over pairs of columns j1, j2."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One launch of a row: `sizes` are macros of the source, `arguments` the scalar parameters of the kernel."""

    row: Row
    sizes: Mapping[str, int]
    arguments: Mapping[str, int] = field(default_factory=dict)


def plans(row: Row, pad: Pad = 1, passes: int | None = 8) -> list[Plan]:
    """Return the launches whose transactions, taken together, represent the row.

    Most rows have one launch. 3dconv has the first and the last of its launches. Of the M (corr.corr: M-1) passes of
    corr.corr and covar.covar, `passes` are chosen in the middle of equal shares, each as a separate launch (None: the
    whole kernel, about 10^8 transactions on one SM). `pad` applies to the benchmarks in `PADDED`.
    """
    padded = row.kernel.partition(".")[0] in PADDED
    sizes = {**row.sizes, "PAD": pad} if padded else row.sizes
    if row.kernel in FIRST_DISTANCE and passes is not None:
        return [Plan(row, sizes, {"distance": distance}) for distance in _distances(row, passes)]
    if row.kernel == "3dconv":
        return [Plan(row, sizes, {"i": i}) for i in (1, sizes["NI"] - 2)]
    return [Plan(row, sizes, {"t": 0} if row.kernel == "fdtd2d.1" else {})]


def launches(row: Row, pad: Pad = 1, passes: int | None = 8) -> list[Trace]:
    """Return the traces of a row's launches, from the kernels in Python; `pad` and `passes` as in `plans`."""
    return [trace(plan) for plan in plans(row, pad, passes)]


def trace(plan: Plan) -> Trace:
    """Return the trace of one launch, from the kernel in Python."""
    if "distance" in plan.arguments:
        return trace_pass(plan, correlate_pass)
    positions = {name.upper(): value for name, value in plan.arguments.items()}
    sizes: dict[str, Any] = {**plan.sizes, **positions}
    return tracegen.kernel(plan.row.kernel, block=plan.row.block, **sizes)


def _distances(row: Row, passes: int) -> list[int]:
    first = FIRST_DISTANCE[row.kernel]
    total = row.sizes["M"] - first
    return [first + total * (2 * i + 1) // (2 * passes) for i in range(passes)]


def trace_pass(plan: Plan, kernel: Callable[..., None]) -> Trace:
    """Return the trace of one pass, from a kernel with the parameters of `correlate_pass`."""
    pad = plan.sizes["PAD"]
    rows, columns = plan.sizes["N"] + pad, plan.sizes["M"] + pad
    return tracegen.trace(
        kernel,
        name=plan.row.kernel,
        grid=plan.row.grid,
        block=plan.row.block,
        arrays={"data": (rows, columns), "symmat": (columns, columns)},
        distance=plan.arguments["distance"],
        pad=pad,
    )


def correlate_pass(k: Block, data: Array, symmat: Array, distance: int, pad: int) -> None:
    """Multiply the column of each thread with the column `distance` further on: one pass."""
    rows, columns = data.shape
    j1 = k.x + pad
    j2 = j1 + distance
    with k.where(j2 < columns):
        k.store(symmat, j1, j2)
        for i in k.range(pad, rows):
            k.load(data, i, j1)
            k.load(data, i, j2)
            k.store(symmat, j1, j2)
        k.store(symmat, j2, j1)
