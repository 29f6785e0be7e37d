"""Generate the trace of an affine kernel, block by block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

from rdmodel.trace import Program, check_blocks, missing_block
from tracegen.affine.binding import bind
from tracegen.affine.generation import Generator
from tracegen.affine.shifting import moved
from tracegen.affine.shortening import Shortened
from tracegen.affine.statements import KernelForm
from tracegen.generated import GeneratedTrace
from tracegen.simt.block import Geometry


class AffineTrace(GeneratedTrace):
    """The trace of an `AffineKernel`: each block is made when it is asked for, as a `Program`.

    `kernel` is the kernel, `params` the values of its parameters; `launch` and `blocks` as in `Trace`.
    """

    kernel: KernelForm

    def __init__(
        self,
        kernel: KernelForm,
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
