"""Generate access patterns with known behaviour, for tests and teaching; equal seeds give equal traces."""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import ConfigError
from tracegen.simt.kernel_trace import Array, Block, KernelTrace, trace
from tracegen.unrolling import NEVER

BLOCK_THREADS = 256
"""Threads of a block unless `block` is given."""


def stream(length: int, *, passes: int = 1, block: int = BLOCK_THREADS) -> KernelTrace:
    """Load element i of a float32 array of `length` in thread i, `passes` times: fully coalesced."""
    _at_least_one(length=length, passes=passes)
    return stride(length, 1, passes=passes, block=block, name="stream")


def stride(
    threads: int, step: int, *, passes: int = 1, block: int = BLOCK_THREADS, name: str = "stride"
) -> KernelTrace:
    """Load element i × `step` of a float32 array in thread i, `passes` times."""
    _at_least_one(threads=threads, step=step, passes=passes, block=block)

    def kernel(k: Block, data: Array, threads: int, step: int, passes: int) -> None:
        with k.where(k.x < threads):
            for _ in k.range(passes, unroll=NEVER):
                k.load(data, k.x * step)

    arrays = {"data": (threads - 1) * step + 1}
    grid = ceil(threads / block)
    return trace(kernel, name=name, grid=grid, block=block, arrays=arrays, threads=threads, step=step, passes=passes)


def random(threads: int, loads: int, elements: int, *, seed: int = 0, block: int = BLOCK_THREADS) -> KernelTrace:
    """Load `loads` elements in every thread, drawn uniformly from `elements`; takes O(threads × loads) memory."""
    _at_least_one(threads=threads, loads=loads, elements=elements, block=block)
    drawn = np.random.default_rng(seed).integers(elements, size=(loads, threads))
    return _gather("random", drawn, elements, block)


def zipf(
    threads: int, loads: int, elements: int, *, exponent: float = 1.0, seed: int = 0, block: int = BLOCK_THREADS
) -> KernelTrace:
    """Load as `random` does, but draw the r-th most popular element with a probability proportional to r^-`exponent`.

    The popular elements are at random places of the array, so that they do not share lines.
    """
    _at_least_one(threads=threads, loads=loads, elements=elements, block=block)
    if not 0 <= exponent < float("inf"):
        raise ConfigError(f"exponent={exponent!r}: must be a finite number of at least 0")
    rng = np.random.default_rng(seed)
    weight = np.cumsum(np.arange(1, elements + 1, dtype=np.float64) ** -exponent)
    rank = np.searchsorted(weight, rng.random((loads, threads)) * weight[-1], side="right")
    return _gather("zipf", rng.permutation(elements)[np.minimum(rank, elements - 1)], elements, block)


def stencil(height: int, width: int, *, radius: int = 1, block: tuple[int, int] = (32, 8)) -> KernelTrace:
    """Compute a star stencil: each interior thread loads 4 × `radius` + 1 points and stores one."""
    _at_least_one(height=height, width=width, radius=radius, block_x=block[0], block_y=block[1])

    def kernel(k: Block, source: Array, result: Array, height: int, width: int, radius: int) -> None:
        i, j = k.y, k.x
        inside = (i >= radius) & (i < height - radius) & (j >= radius) & (j < width - radius)
        with k.where(inside):
            for d in range(-radius, radius + 1):
                k.load(source, i + d, j)
            for d in range(1, radius + 1):
                k.load(source, i, j - d)
                k.load(source, i, j + d)
            k.store(result, i, j)

    return trace(
        kernel,
        name="stencil",
        grid=(ceil(width / block[0]), ceil(height / block[1])),
        block=block,
        arrays={"source": (height, width), "result": (height, width)},
        height=height,
        width=width,
        radius=radius,
    )


def pointer_chase(threads: int, loads: int, nodes: int, *, seed: int = 0, block: int = BLOCK_THREADS) -> KernelTrace:
    """Follow one random cycle through all `nodes` in every thread: each load waits for the previous one.

    Thread i starts at node i modulo `nodes`. Nodes are int32.
    """
    _at_least_one(threads=threads, loads=loads, nodes=nodes, block=block)
    order = np.random.default_rng(seed).permutation(nodes)
    successor = np.empty(nodes, dtype=np.int32)
    successor[order] = np.roll(order, -1)

    def kernel(k: Block, successor: Array, threads: int, loads: int, nodes: int) -> None:
        with k.where(k.x < threads):
            node = k.x % nodes
            for _ in range(loads):
                node = k.load(successor, node)

    return trace(
        kernel,
        name="pointer_chase",
        grid=ceil(threads / block),
        block=block,
        arrays={"successor": successor},
        threads=threads,
        loads=loads,
        nodes=nodes,
    )


def two_passes(loads: int, step: int) -> KernelTrace:
    """Load `loads` lines, `step` bytes apart, twice in one warp (Nugteren et al., HPCA 2014, section 5.1).

    The second pass hits if and only if the lines fit in the sets that their addresses map to (figure 7 of the paper).
    """
    _at_least_one(loads=loads, step=step)
    if step % 128:
        raise ConfigError(f"step={step}: must be a multiple of 128 bytes, the width of a coalesced load")

    def kernel(k: Block, data: Array, loads: int, step: int) -> None:
        for i in k.range(loads, unroll=NEVER):
            k.load(data, i * (step // 4) + k.x)
        for i in k.range(loads, unroll=NEVER):
            k.load(data, i * (step // 4) + k.x)

    arrays = {"data": (loads - 1) * (step // 4) + 32}
    return trace(kernel, name="two_passes", grid=1, block=32, arrays=arrays, loads=loads, step=step)


def _gather(name: str, drawn: NDArray[np.int64], elements: int, block: int) -> KernelTrace:
    """Load the elements ``drawn[:, i]`` in thread i; the loads of the indices themselves are not part of the trace."""
    threads = drawn.shape[1]

    def kernel(k: Block, data: Array) -> None:
        with k.where(k.x < threads):
            for row in drawn:
                k.load(data, np.take(row, k.x, mode="clip"))

    return trace(kernel, name=name, grid=ceil(threads / block), block=block, arrays={"data": elements})


def _at_least_one(**values: int) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name}={value!r}: must be a whole number of at least 1")
