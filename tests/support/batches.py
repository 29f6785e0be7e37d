"""Run Python kernels in batches and one block at a time, and compare the programs."""

from __future__ import annotations

from functools import cache

import numpy as np

from rdmodel.errors import TraceError
from rdmodel.trace import Launch, Segment
from tracegen.arrays import BASE, allocate
from tracegen.simt.kernel_trace import KernelTrace, shape


def alone(trace: KernelTrace) -> KernelTrace:
    """Return a trace that runs one block at a time."""
    other = trace.cut(trace.blocks)
    other._batches = False
    return other


def kernel_trace(function, *, grid=40, block=32, arrays=None, blocks=None, **params) -> KernelTrace:
    launch = Launch(kernel="k", grid=shape("grid", grid), block=shape("block", block))
    laid_out = allocate(arrays or {"A": 1 << 20}, base=BASE, threads=launch.threads)
    return KernelTrace(function, launch, laid_out, params, blocks=blocks, batches=True)


def assert_same(one: list[Segment], other: list[Segment]) -> None:
    assert [segment.trips for segment in one] == [segment.trips for segment in other]
    for mine, theirs in zip(one, other, strict=True):
        for name in Segment.__dataclass_fields__:
            if name != "trips":
                np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name), err_msg=name)
                assert np.asarray(getattr(mine, name)).dtype == np.asarray(getattr(theirs, name)).dtype


def assert_same_blocks(trace: KernelTrace, order, made_alone=None) -> None:
    made_alone = made_alone or cache(alone(trace).block)
    for block in order:
        assert_same(trace.block(block), made_alone(block))


def outcome(trace: KernelTrace, block: int) -> list[Segment] | str:
    """Return the program of a block, or what is wrong with it."""
    try:
        return trace.block(block)
    except TraceError as error:
        return str(error)


def counted(function):
    """Return the same kernel, which also counts its calls in `calls`."""

    def kernel(k, A, calls):
        calls.append(k.index)
        function(k, A)

    return kernel
