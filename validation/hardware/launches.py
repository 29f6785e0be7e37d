"""From a measured row to the launches that stand for it.

The code that was measured is PolyBench/GPU 1.0 as haozhigh/model_gpu_cache has it (``src/benchmarks/polybench_gpu``).
In nine of its kernels the subscripts are not those of `tracegen.kernel`: correlation and covariance count from 1 in
arrays of M+1 columns, and ex of fdtd2d has a row pitch of NY+1. Rows of such arrays do not begin on a line, so
that a warp touches two lines where it would touch one. These kernels are restated here; everything else is
`tracegen`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import tracegen
from rdmodel.trace import Trace
from tracegen import Array, Block, KernelTrace
from validation.hardware.rows import Row

Subscripts = Literal["measured", "tracegen"]
"""Whose subscripts the nine kernels have: those of the code that was measured, or those of `tracegen`."""

Shapes = dict[str, int | tuple[int, int]]

PASSES = {"corr.corr": 1, "covar.covar": 0}
"""Kernels that pass over pairs of columns j1, j2, and the first distance j2 - j1."""


def launches(row: Row, subscripts: Subscripts = "measured", passes: int | None = 2) -> list[Trace]:
    """Return traces whose transactions, taken together, stand for the row.

    One launch, except: of the launches of 3dconv the first and the last; of the M (corr.corr: M-1) passes of
    corr.corr and covar.covar, each a launch of its own, as many as `passes`, in the middle of equal shares (two:
    one early, one late; None: the whole kernel, about 10^8 transactions on one SM).
    """
    if row.kernel in PASSES:
        return _pass_launches(row, 1 if subscripts == "measured" else 0, passes)
    if row.kernel == "3dconv":
        return [_own(row, I=i) for i in (1, row.sizes["NI"] - 2)]
    if subscripts == "measured" and row.kernel in RESTATED:
        function, arrays = RESTATED[row.kernel]
        return [_trace(row, function, arrays(**row.sizes))]
    return [_own(row)]


def _own(row: Row, **more: Any) -> KernelTrace:
    return tracegen.kernel(row.kernel, block=row.block, **{**row.sizes, **more})


def _trace(row: Row, function: Callable[..., None], arrays: Shapes, **params: Any) -> KernelTrace:
    return tracegen.trace(function, name=row.kernel, grid=row.grid, block=row.block, arrays=arrays, **params)


def _pass_launches(row: Row, origin: int, passes: int | None) -> list[Trace]:
    columns, first = row.sizes["M"], PASSES[row.kernel]
    arrays: Shapes = dict.fromkeys(("data", "symmat"), (columns + origin, columns + origin))
    if passes is None:
        return [_trace(row, correlate, arrays, first=first, origin=origin)]
    total = columns - first
    distances = [first + total * (2 * i + 1) // (2 * passes) for i in range(passes)]
    return [_trace(row, correlate_pass, arrays, distance=distance, origin=origin) for distance in distances]


def correlate_pass(k: Block, data: Array, symmat: Array, distance: int, origin: int) -> None:
    """Multiply column j1 of each thread with the one `distance` further on."""
    rows, columns = data.shape
    j1 = k.x + origin
    j2 = j1 + distance
    with k.where(j2 < columns):
        k.store(symmat, j1, j2)
        for i in k.range(origin, rows):
            k.load(data, i, j1)
            k.load(data, i, j2)
            k.store(symmat, j1, j2)
        k.store(symmat, j2, j1)


def correlate(k: Block, data: Array, symmat: Array, first: int, origin: int) -> None:
    """Multiply column j1 of each thread with all from the one `first` further on: all passes."""
    columns = data.shape[1]
    for distance in range(first, columns - origin):
        correlate_pass(k, data, symmat, distance, origin)


def correlation_arrays(M: int, N: int) -> Shapes:  # noqa: N803
    """Arrays of corr, in the order of their cudaMalloc."""
    return {"data": (N + 1, M + 1), "symmat": (M + 1, M + 1), "std": M + 1, "mean": M + 1}


def covariance_arrays(M: int, N: int) -> Shapes:  # noqa: N803
    """Arrays of covar, in the order of their cudaMalloc."""
    return {"data": (N + 1, M + 1), "symmat": (M + 1, M + 1), "mean": M + 1}


def column_mean(k: Block, mean: Array, data: Array) -> None:
    """Means of the columns from 1 on."""
    rows, columns = data.shape
    j = k.x + 1
    with k.where(j < columns):
        k.store(mean, j)
        for i in k.range(1, rows):
            k.load(data, i, j)
            k.store(mean, j)
        k.store(mean, j)


def column_deviation(k: Block, mean: Array, std: Array, data: Array) -> None:
    """Standard deviations of the columns from 1 on."""
    rows, columns = data.shape
    j = k.x + 1
    with k.where(j < columns):
        k.store(std, j)
        for i in k.range(1, rows):
            k.load(data, i, j)
            k.load(mean, j)
            k.store(std, j)
        k.store(std, j)
        k.store(std, j)


def centre(k: Block, mean: Array, data: Array) -> None:
    """Subtract the mean of its column from each element."""
    i, j = k.y + 1, k.x + 1
    with k.where((i < data.shape[0]) & (j < data.shape[1])):
        k.load(data, i, j)
        k.load(mean, j)
        k.store(data, i, j)


def centre_and_scale(k: Block, mean: Array, std: Array, data: Array) -> None:
    """Subtract the mean of its column from each element and divide by the deviation."""
    i, j = k.y + 1, k.x + 1
    with k.where((i < data.shape[0]) & (j < data.shape[1])):
        k.load(data, i, j)
        k.load(mean, j)
        k.store(data, i, j)
        k.load(std, j)
        k.store(data, i, j)


def fdtd2d_arrays(NX: int, NY: int) -> Shapes:  # noqa: N803
    """Arrays of fdtd2d, in the order of their cudaMalloc."""
    return {"fict": 500, "ex": (NX, NY + 1), "ey": (NX + 1, NY), "hz": (NX, NY)}


def electric_x(k: Block, ex: Array, hz: Array) -> None:
    """Second step of fdtd2d."""
    i, j = k.y, k.x
    with k.where(j > 0):
        k.load(ex, i, j)
        k.load(hz, i, j)
        k.load(hz, i, j - 1)
        k.store(ex, i, j)


def magnetic(k: Block, ex: Array, ey: Array, hz: Array) -> None:
    """Third step of fdtd2d: without a guard, since ex has a column and ey a row more."""
    i, j = k.y, k.x
    k.load(hz, i, j)
    k.load(ex, i, j + 1)
    k.load(ex, i, j)
    k.load(ey, i + 1, j)
    k.load(ey, i, j)
    k.store(hz, i, j)


RESTATED: Mapping[str, tuple[Callable[..., None], Callable[..., Shapes]]] = {
    "corr.mean": (column_mean, correlation_arrays),
    "corr.std": (column_deviation, correlation_arrays),
    "corr.reduce": (centre_and_scale, correlation_arrays),
    "covar.mean": (column_mean, covariance_arrays),
    "covar.reduce": (centre, covariance_arrays),
    "fdtd2d.2": (electric_x, fdtd2d_arrays),
    "fdtd2d.3": (magnetic, fdtd2d_arrays),
}
"""Kernels whose subscripts differ, beside those of `PASSES`, and their arrays."""
