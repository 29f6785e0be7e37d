"""Tell the times of the blocks of a launch: the chains of its instructions, spilled registers, and timelines."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import RegisterUse
from tracegen.ptx.emulator.block_machine import ClusterEvents
from tracegen.ptx.lowering.program import LoweredKernel
from tracegen.ptx.registers.liveness import live_registers
from tracegen.ptx.registers.spilling import count_spills
from tracegen.ptx.syntax.ast import Module
from tracegen.ptx.timing.asynchronous_pieces import is_asynchronous
from tracegen.ptx.timing.chains import Chain, PieceTimes, straight_pieces
from tracegen.ptx.timing.timeline import BlockTimelines


class BlockTimes:
    """The times of the blocks of a kernel, each of `warps` warps, from how often a block has `issued` each step.

    Of kernels whose warps wait for mbarriers, the times follow from the `events` of a block, or of its cluster. The
    latencies and registers are those of `Trace.chains`.
    """

    def __init__(self, module: Module, kernel: LoweredKernel, warps: int) -> None:
        self._module, self._kernel, self._warps = module, kernel, warps

    @cached_property
    def _live(self) -> dict[int, int]:
        return live_registers(self._module, self._kernel.name)

    @cached_property
    def _pieces(self) -> PieceTimes:
        return PieceTimes(straight_pieces(self._kernel, self._live))

    @cached_property
    def _timelines(self) -> BlockTimelines | None:
        kernel = self._kernel
        return BlockTimelines(kernel, self._live, self._warps) if is_asynchronous(kernel.steps) else None

    def spills(self, issued: NDArray[np.int64], use: RegisterUse) -> tuple[float, float]:
        """Return the loads and stores of spilled registers in a block."""
        origins = (step.origin if "COUNTED" in step.flags else None for step in self._kernel.steps)
        return count_spills(self._live, use, origins, issued)

    def chains(
        self,
        issued: NDArray[np.int64],
        events: ClusterEvents,
        latencies: Mapping[str, float],
        registers: int,
        together: int,
    ) -> list[Chain]:
        """Return the pieces of a block: cycles, instructions by class and accesses of an average warp.

        They are one piece, if the warps of the block have a timeline.
        """
        cycles = self._cycles(events, latencies, registers, 1)
        if cycles is not None:
            return [self._pieces.united(issued, self._warps, cycles)]
        return self._pieces.chains(issued, self._warps, latencies, registers, together)

    def crowding(
        self, events: ClusterEvents, latencies: Mapping[str, float], registers: int, resident: int
    ) -> float | None:
        """Return how many times as long a block takes if `resident` of them share an SM; None without a timeline."""
        alone = self._cycles(events, latencies, registers, 1)
        crowded = self._cycles(events, latencies, registers, resident)
        return crowded / alone if alone and crowded else None

    def _cycles(
        self, events: ClusterEvents, latencies: Mapping[str, float], registers: int, resident: int
    ) -> float | None:
        if self._timelines is None:
            return None
        return self._timelines.cycles(events.table, events.entries, latencies, registers, resident)
