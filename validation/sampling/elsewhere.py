"""Sample blocks of kernels and GPUs that the record does not have, to choose the size of the error.

Two constants of `rdmodel.model.sample_blocks` that size the error are chosen and not measured in a run. They were
chosen here, so that the record (`validation.sampling.measure`), on another GPU and with other kernels, can test them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil
from typing import Any

import tracegen
from rdmodel import Trace
from tracegen import Array, Block
from validation.sampling.measure import Row, blocks

GPUS = ("gtx480-khairy", "k40c-16k", "wang-32k")
SEEDS = 4


def product(height: int, width: int, depth: int, block: tuple[int, int], turned: str = "") -> Trace:
    """Return a product of matrices, one element per thread; matrices named in `turned` are stored transposed."""

    def kernel(k: Block, a: Array, b: Array, c: Array, height: int, width: int, depth: int) -> None:
        i, j = k.y, k.x
        with k.where((i < height) & (j < width)):
            for t in k.range(depth):
                k.load(a, *((t, i) if "a" in turned else (i, t)))
                k.load(b, *((j, t) if "b" in turned else (t, j)))
            k.store(c, i, j)

    return tracegen.trace(
        kernel,
        name="product",
        grid=(ceil(width / block[0]), ceil(height / block[1])),
        block=block,
        arrays={
            "a": (depth, height) if "a" in turned else (height, depth),
            "b": (width, depth) if "b" in turned else (depth, width),
            "c": (height, width),
        },
        height=height,
        width=width,
        depth=depth,
    )


def named(name: str, **sizes: Any) -> Callable[[], Trace]:
    """Return a function that makes a kernel of tracegen."""
    return lambda: tracegen.kernel(name, **sizes)


TRACES: dict[str, Callable[[], Trace]] = {
    "product, blocks of 16 x 16": lambda: product(256, 256, 128, (16, 16)),
    "product, blocks of 64 x 4": lambda: product(512, 512, 96, (64, 4)),
    "product, the left transposed": lambda: product(256, 256, 192, (32, 8), "a"),
    "product, the right transposed": lambda: product(320, 256, 48, (32, 8), "b"),
    "gemm.tiled": named("gemm.tiled", NI=512, NJ=512, NK=96),
    "syrk.tiled": named("syrk.tiled", N=512, M=64),
    "syr2k.tiled": named("syr2k.tiled", N=512, M=32),
    "2dconv.tiled": named("2dconv.tiled", NI=512, NJ=512),
    "3dconv.tiled": named("3dconv.tiled", NI=32, NJ=128, NK=128),
    "jacobi2d.tiled": named("jacobi2d.tiled", NI=512, NJ=512),
    "jacobi3d.tiled": named("jacobi3d.tiled", NI=32, NJ=128, NK=128),
    "transpose.tiled": named("transpose.tiled", NI=512, NJ=512),
    "hotspot": named("hotspot"),
    "srad.1": named("srad.1", ROWS=512, COLS=512),
    "srad.2": named("srad.2", ROWS=512, COLS=512),
    "convsep.rows": named("convsep.rows", W=1024, H=1024),
    "convsep.columns": named("convsep.columns", W=1024, H=1024),
    "stencil3d": named("stencil3d", NY=128, NZ=16),
    "backprop.2": named("backprop.2"),
    "stencil": lambda: tracegen.patterns.stencil(512, 256, radius=2),
    "random": lambda: tracegen.patterns.random(200 * 256, 10, 2000),
    "zipf": lambda: tracegen.patterns.zipf(200 * 256, 10, 20_000),
    "stride": lambda: tracegen.patterns.stride(300 * 256, 3, passes=3),
}


def measure() -> Iterator[Row]:
    """Yield one row per kernel and GPU; its `way` is the GPU."""
    for gpu in GPUS:
        for name, make in TRACES.items():
            yield blocks(name, gpu, make(), gpu, SEEDS)
