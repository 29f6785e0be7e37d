"""Determine the loads that each memory instruction waits for.

The `Scoreboard` has one 64-bit register per warp, which shifts by one place for every memory instruction of the warp.
Bit i therefore always denotes the (i+1)-th previous memory instruction, as in a `needs` mask. A load leaves the
register when the warp waits for it, so a mask never names a load that must have arrived already. A barrier waits for
all loads in the register.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import WARP, Op, Space
from tracegen.simt._scoreboard import Registers, pack_lanes


class Mask:
    """The active lanes of a block.

    `lanes` has the shape (threads,), or (blocks, threads) for a batch. `bits` are the packed lanes of each warp.
    `conditions` are the loads that the mask depends on. `any` tells whether a lane is active, in a batch one of any
    block, and `present` are the blocks of a batch that have one: None if all have one, or none has.
    """

    __slots__ = ("_run", "any", "bits", "conditions", "lanes", "present")

    def __init__(self, lanes: NDArray[np.bool_], conditions: frozenset[MemoryInstruction]) -> None:
        self.lanes = lanes
        self.bits = np.empty(lanes.size // WARP, dtype=np.uint32)
        self.conditions = conditions
        active = np.empty(len(lanes) if lanes.ndim == 2 else 1, dtype=np.uint8)
        blocks = pack_lanes(np.ascontiguousarray(lanes).reshape(-1).view(np.uint8), self.bits, active)
        self.any = blocks > 0
        self.present = active.view(np.bool_) if 0 < blocks < len(active) else None
        self._run: NDArray[np.bool_] | None = None

    @property
    def run(self) -> NDArray[np.bool_]:
        """The warps with an active lane."""
        if self._run is None:
            self._run = self.bits != 0
        return self._run


class MemoryInstruction:
    """One memory instruction of a block, executed by the warps of `mask`.

    In iteration t of its loop, thread l accesses ``address[l] + t * step``. `sources` are the loads that its index and
    the enclosing conditions depend on. `wait` marks the warps that called ``k.wait()`` just before. The scoreboard sets
    `needs`, of a load `position` (number of earlier memory instructions of each warp) and `arrived` (whether every warp
    has waited for it).
    """

    __slots__ = (
        "address",
        "arrived",
        "cache_op",
        "exit",
        "gap",
        "mask",
        "needs",
        "op",
        "pc",
        "position",
        "size",
        "sources",
        "space",
        "step",
        "wait",
    )

    def __init__(
        self,
        pc: int,
        op: Op,
        mask: Mask,
        *,
        space: Space = Space.GLOBAL,
        size: int = 0,
        address: Any = 0,
        step: int = 0,
        sources: frozenset[MemoryInstruction] = frozenset(),
        cache_op: int = 0,
    ) -> None:
        self.pc, self.op, self.mask, self.space, self.size = pc, op, mask, space, size
        self.address, self.step, self.sources, self.cache_op = address, step, sources, cache_op
        self.gap: Any = 0
        self.wait: NDArray[np.bool_] | None = None
        self.exit: Any = False
        self.arrived = False
        self.needs: NDArray[np.uint64]
        self.position: NDArray[np.uint64]

    def iteration(self, t: int, needs: NDArray[np.uint64], *, step: int = 0) -> MemoryInstruction:
        """Return a copy that starts in iteration `t`, advances by `step` and waits for `needs`."""
        copy = MemoryInstruction(self.pc, self.op, self.mask, space=self.space, size=self.size, step=step)
        copy.address, copy.gap, copy.needs = self.address + t * self.step, self.gap, needs
        copy.cache_op = self.cache_op
        return copy


class Scoreboard:
    """The open loads of each of the `warps` of a block."""

    def __init__(self, warps: int) -> None:
        self._state = np.zeros((4, warps), dtype=np.uint64)
        self._registers = Registers(self._state)

    def state(self) -> NDArray[np.uint64]:
        """Return a copy of the state that the needs of later instructions depend on."""
        return self._state[1:].copy()

    def has_open(self, warps: NDArray[np.bool_]) -> bool:
        """Return whether one of `warps` has an open load."""
        return bool(self._state[1, warps].any())

    def skip(self, instructions: NDArray[np.uint64]) -> None:
        """Go on as if each warp had executed so many more instructions that leave the registers as they are."""
        self._state[0] += instructions

    def wait(self, warps: NDArray[np.bool_]) -> None:
        """Make the next memory instruction of `warps` wait for all earlier loads."""
        self._registers.wait(warps.view(np.uint8))

    def issue(self, instruction: MemoryInstruction) -> NDArray[np.uint64]:
        """Issue `instruction` to the warps of its mask; return the needs of each warp, 0 for other warps."""
        if instruction.wait is not None:
            self.wait(instruction.wait)
        is_load = instruction.op == Op.LOAD
        if is_load:
            instruction.position = self._state[0].copy()
        needs = np.empty(self._state.shape[1], dtype=np.uint64)
        self._registers.issue(instruction.mask.bits, is_load, instruction.op == Op.BARRIER, instruction.sources, needs)
        return needs
