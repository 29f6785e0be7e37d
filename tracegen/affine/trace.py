"""Define the trace of an affine kernel, which generates its blocks on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property, lru_cache
from typing import Any

from rdmodel.trace import InstructionSource, Program, Work, check_blocks, missing_block
from rdmodel.trace.moved import move_program
from rdmodel.trace.trace import ShortenedBlocks
from tracegen.affine.binding import bind_kernel
from tracegen.affine.generation import Generator
from tracegen.affine.nest import MAX_KNOWN_PARTS, NestAccess, walk
from tracegen.affine.shortening import ShortenedNest
from tracegen.affine.statements import KernelForm
from tracegen.affine.work import NestWork
from tracegen.generated import GeneratedTrace
from tracegen.simt.block import Geometry
from tracegen.unrolling import DEFAULT_UNROLL, Unroll, parse_unroll

MAX_SHORTER = 8
"""Shares of iterations for which `AffineTrace.shortened` keeps its functions, with the programs that they made."""

REBUILT = ("_generator", "_work", "_shorter")
"""Attributes of an `AffineTrace` that are made when they are first used, from its nest."""


class AffineTrace(GeneratedTrace):
    """The trace of an `AffineKernel`; each call of `block` generates a `Program`.

    `kernel` is the kernel, `params` are the values of its parameters; `launch` and `blocks` are as in `Trace`. `unroll`
    is described in `tracegen.affine_kernel`.
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
        unroll: Unroll = DEFAULT_UNROLL,
    ) -> None:
        bound = bind_kernel(kernel, params, block=block, base=base)
        self.kernel, self.launch, self.params = kernel, bound.launch, dict(bound.values)
        self.blocks = check_blocks(self.launch, blocks)
        self._nest = bound.nest
        self._unroll = parse_unroll(unroll)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the generator and the counts of works, which are rebuilt on demand."""
        return {name: value for name, value in self.__dict__.items() if name not in REBUILT}

    @property
    def may_have_cache_ops(self) -> bool:
        """True if a load of the nest has a cache operator."""
        return any(isinstance(node, NestAccess) and node.cache_op for node in walk(self._nest.body))

    @property
    def sources(self) -> Mapping[int, InstructionSource]:
        """The accesses of the nest as texts, by `pc`."""
        accesses = (node for node in walk(self._nest.body) if isinstance(node, NestAccess))
        return {access.pc: InstructionSource(text=access.text) for access in accesses}

    def block(self, block: int) -> Program:
        """Return the `Program` of one block; raise `TraceError` if the trace does not hold it."""
        if block not in self._block_ids:
            raise missing_block(self, block)
        return self._generator.block(int(block))

    def block_work(self, block: int) -> Work | None:
        """Return the work of one block, if the kernel declares arithmetic or accesses to shared memory."""
        if block not in self._block_ids:
            raise missing_block(self, block)
        return self._work.block(int(block)) if self._work.has_arithmetic else None

    def shortened(self, share: float) -> ShortenedBlocks | None:
        """Return two functions for blocks with about `share` of the iterations of their outermost loops around others.

        The first one takes a block and the share of iterations to skip, and returns the program of the iterations that
        follow. The second one takes a block and returns the share of iterations that it keeps. None if the kernel has
        no such loops.
        """
        if share not in self._shorter:
            if len(self._shorter) >= MAX_SHORTER:
                self._shorter.clear()
            self._shorter[share] = self._shorten(share)
        return self._shorter[share]

    @cached_property
    def _shorter(self) -> dict[float, ShortenedBlocks | None]:
        """The last results of `shortened`: estimates with more and more work ask for the same shares again."""
        return {}

    def _shorten(self, share: float) -> ShortenedBlocks | None:
        nest = ShortenedNest(self._nest, share)
        if not nest.loops:
            return None
        other = copy(self)
        for name in REBUILT:
            other.__dict__.pop(name, None)
        other._nest = nest
        geometry = Geometry(self.launch)
        width, height, _ = self.launch.grid

        def make(block: int, start: float) -> Program:
            program = other.block(block)
            if start == 0:
                return program
            offsets = nest.address_offsets(start)
            return move_program(program, offsets) if offsets.any() else program

        @lru_cache(maxsize=MAX_KNOWN_PARTS)
        def share_of(x: int, y: int, z: int) -> float:
            return nest.remaining_share((x, y, z), geometry.thread)

        def remaining_share(block: int) -> float:
            at = (block % width, block // width % height, block // (width * height))
            # Blocks that differ along other dimensions keep the same share.
            x, y, z = (i if d in nest.block_dimensions else 0 for d, i in enumerate(at))
            return share_of(x, y, z)

        return make, remaining_share

    @cached_property
    def _work(self) -> NestWork:
        return NestWork(self.launch, self._nest)

    @cached_property
    def _generator(self) -> Generator:
        return Generator(self.launch, self._nest, self._unroll)
