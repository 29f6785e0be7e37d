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

from rdmodel.trace import ALL_NEEDS, Op, Space

_ONE = np.uint64(1)


class Mask:
    """The active lanes of a block.

    `lanes` has the shape (threads,), or (blocks, threads) for a batch. `bits` are the packed lanes of each warp, and
    `run` marks the warps with an active lane. `conditions` are the loads that the mask depends on.
    """

    __slots__ = ("_any", "_present", "bits", "conditions", "lanes", "run", "runs")

    def __init__(self, lanes: NDArray[np.bool_], conditions: frozenset[MemoryInstruction]) -> None:
        self.lanes = lanes
        self.bits = np.packbits(lanes, bitorder="little").view("<u4")
        self.run = self.bits != 0
        self.runs = self.run.astype(np.uint64)
        self.conditions = conditions
        self._any: bool | None = None
        self._present: NDArray[np.bool_] | None = None

    @property
    def any(self) -> bool:
        """Whether a lane is active, in a batch one of any block."""
        if self._any is None:
            active = self.run if self.lanes.ndim == 1 else self.run.reshape(len(self.lanes), -1).any(axis=1)
            self._any = bool(active.any())
            if self._any and self.lanes.ndim == 2 and not active.all():
                self._present = active
        return self._any

    @property
    def present(self) -> NDArray[np.bool_] | None:
        """The blocks of a batch that have an active lane; None if all have one, or none has."""
        return self._present if self.any else None


class MemoryInstruction:
    """One memory instruction of a block, executed by the warps of `mask`.

    In iteration t of its loop, thread l accesses ``address[l] + t * step``. `sources` are the loads that its index and
    the enclosing conditions depend on. `wait` marks the warps that called ``k.wait()`` just before. The scoreboard sets
    `needs`, `position` (number of earlier memory instructions of each warp) and `arrived` (whether every warp has
    waited for it).
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
        self.position: NDArray[np.int64]

    def iteration(self, t: int, needs: NDArray[np.uint64], *, step: int = 0) -> MemoryInstruction:
        """Return a copy that starts in iteration `t`, advances by `step` and waits for `needs`."""
        copy = MemoryInstruction(self.pc, self.op, self.mask, space=self.space, size=self.size, step=step)
        copy.address, copy.gap, copy.needs = self.address + t * self.step, self.gap, needs
        copy.cache_op = self.cache_op
        return copy


class Scoreboard:
    """The open loads of each of the `warps` of a block."""

    def __init__(self, warps: int) -> None:
        self.count = np.zeros(warps, dtype=np.int64)
        self.open = np.zeros(warps, dtype=np.uint64)
        self.since_store = np.zeros(warps, dtype=np.uint64)
        self.waiting = np.zeros(warps, dtype=np.bool_)
        self._none = np.zeros(warps, dtype=np.uint64)

    def state(self) -> tuple[NDArray[Any], ...]:
        """Return the state that the needs of later instructions depend on."""
        return self.open, self.since_store, self.waiting

    def wait(self, warps: NDArray[np.bool_]) -> None:
        """Make the next memory instruction of `warps` wait for all earlier loads."""
        self.waiting = self.waiting | warps & (self.open != 0)

    def issue(self, instruction: MemoryInstruction) -> NDArray[np.uint64]:
        """Issue `instruction` to the warps of its mask; return the needs of each warp, 0 for other warps."""
        if instruction.wait is not None:
            self.wait(instruction.wait)
        if instruction.op == Op.BARRIER:
            return self._settle_needs(instruction)
        mask, is_load = instruction.mask, instruction.op == Op.LOAD
        instruction.position = self.count
        needs = self._none
        if not is_load or instruction.sources or self.waiting.any():
            needs = self._settle_needs(instruction)
        if not is_load:
            self.since_store = np.where(mask.run, np.uint64(0), self.since_store)
        loads = mask.runs if is_load else np.uint64(0)
        self.open = self.open << mask.runs | loads
        self.since_store = self.since_store << mask.runs | loads
        self.count = self.count + mask.run
        return needs

    def _settle_needs(self, instruction: MemoryInstruction) -> NDArray[np.uint64]:
        """Return the open loads that `instruction` waits for, and remove them from the registers."""
        wanted = self._none if instruction.op == Op.LOAD else self.since_store
        if instruction.op == Op.BARRIER:
            # Accesses to shared memory are not recorded: what a barrier publishes may come from any load before it.
            wanted = self.open
        places = [self._place(load) for load in instruction.sources]
        for place in places:
            wanted = wanted | place
        run = instruction.mask.run
        if self.waiting.any():
            wanted = np.where(self.waiting, np.uint64(ALL_NEEDS), wanted)
            self.waiting = self.waiting & ~run
        needs: NDArray[np.uint64] = np.where(run, wanted & self.open, np.uint64(0))
        self.open = self.open & ~needs
        self.since_store = self.since_store & ~needs
        for load, place in zip(instruction.sources, places, strict=True):
            load.arrived = not (place & self.open).any()
        return needs

    def _place(self, load: MemoryInstruction) -> NDArray[np.uint64]:
        """Return the bit of `load` in the register of each warp, 0 if it did not run or has left the register."""
        distance = self.count - load.position - 1
        near = load.mask.run & (distance < 64)
        return np.where(near, _ONE << np.where(near, distance, 0).astype(np.uint64), np.uint64(0))
