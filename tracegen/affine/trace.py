"""The trace of an affine kernel, and where to get one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

from rdmodel.trace import Program, check_blocks, missing_block
from tracegen.affine.binding import bind
from tracegen.affine.form import load_affine
from tracegen.affine.generation import Generator
from tracegen.affine.kernel import AffineKernel
from tracegen.affine.moving import moved
from tracegen.affine.shortening import Shortened
from tracegen.block import Geometry
from tracegen.generated import GeneratedTrace


def affine_kernel(
    kernel: AffineKernel | str | os.PathLike[str] | Mapping[str, Any],
    *,
    block: Sequence[int] | None = None,
    blocks: Sequence[int] | None = None,
    base: int | None = None,
    **params: int,
) -> AffineTrace:
    """Return the trace of an affine kernel, for `params` instead of the values of its own.

    `kernel` is an `AffineKernel`, or what `load_affine` takes: the name of one that comes with rdmodel, a JSON file, or
    its content. `block` overrides the shape of a block (x, y, z), `blocks` are the ids of the blocks that the trace
    holds (None: all), `base` is the address of the first array (default 2^28; a multiple of 256). Raises
    `TraceError` that says which part of the kernel is malformed, not affine or outside an array, `ConfigError` for
    a parameter that cannot be, and `LaunchError` for a launch that cannot be.

    >>> affine_kernel("gemm", NI=64)
    AffineTrace('gemm', grid=(16, 8, 1), block=(32, 8, 1), NI=64, NJ=512, NK=512)
    """
    if not isinstance(kernel, AffineKernel):
        kernel = load_affine(kernel)
    return AffineTrace(kernel, params, block=block, blocks=blocks, base=base)


class AffineTrace(GeneratedTrace):
    """The trace of an `AffineKernel`: each block is made when it is asked for, as a `Program`.

    `kernel` is the kernel, `params` the values of its parameters; `launch` and `blocks` as in `Trace`.
    """

    kernel: AffineKernel

    def __init__(
        self,
        kernel: AffineKernel,
        params: Mapping[str, int],
        *,
        block: Sequence[int] | None = None,
        blocks: Sequence[int] | None = None,
        base: int | None = None,
    ) -> None:
        bound = bind(kernel, params, block=block, base=base)
        self.kernel, self.launch, self.params = kernel, bound.launch, dict(bound.values)
        self.blocks = check_blocks(self.launch, blocks)
        self._nest = bound.nest

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only this process makes blocks with."""
        return {name: value for name, value in self.__dict__.items() if name != "_generator"}

    def block(self, block: int) -> Program:
        """Return the `Program` of one block; raises `TraceError` if the trace does not hold it."""
        if block not in self._held:
            raise missing_block(self, block)
        return self._generator.block(int(block))

    def shortened(self, share: float) -> tuple[Callable[[int, float], Program], Callable[[int], float]] | None:
        """Return how to make blocks with about `share` of the iterations of their outermost loops around others.

        The first function makes a block, and leaves out a share of the iterations before them; the second one says what
        share of its iterations is left. None if there are no such loops.
        """
        nest = Shortened(self._nest, share)
        if not nest.loops:
            return None
        other = copy(self)
        other.__dict__.pop("_generator", None)
        other._nest = nest
        geometry = Geometry(self.launch)
        width, height, _ = self.launch.grid

        def make(block: int, start: float) -> Program:
            along = nest.along(start)
            program = other.block(block)
            return moved(program, along) if along.any() else program

        def left(block: int) -> float:
            return nest.left((block % width, block // width % height, block // (width * height)), geometry.thread)

        return make, left

    @cached_property
    def _generator(self) -> Generator:
        return Generator(self.launch, self._nest)
