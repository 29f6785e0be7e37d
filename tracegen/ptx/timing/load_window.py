"""Bound the loads under way by the registers for their data, as the assembler does where it moves loads ahead."""

from __future__ import annotations

from tracegen.ptx.timing.links import Link

EARLY_LOADS = 8
"""Registers that the assembler takes beside those of the values that are live in the PTX, because it loads early.

It is the mean of the kernels in `tracegen/cuda/sources` (docs/work.md). Where the assembler takes fewer than these in
all, it has saved others, such as those of addresses.
"""


class _UnderWay:
    """A load that has registers for its data until the link at `last_use`, and the time at which they were `used`."""

    __slots__ = ("last_use", "registers", "used")

    def __init__(self, registers: int, last_use: int, used: float) -> None:
        self.registers, self.last_use, self.used = registers, last_use, used


class LoadWindow:
    """The loads under way, which have registers for their data, and when these are free for other loads.

    The assembler moves loads ahead of instructions that do not need them, as far as there are registers for the data.
    So a load starts when the data of enough earlier ones have been used by instructions that precede it in the PTX.
    Loads of one sector move ahead of uses of other data together: a leader starts when there are registers for all.
    Loads from shared memory, which take little time, do not keep others from starting.
    """

    def __init__(self, registers: int) -> None:
        self._registers = registers
        self._taken = 0
        self._has_uses = False
        self._loads: dict[int, _UnderWay] = {}  # by their places
        self._loaded: dict[int, int] = {}  # the load of each slot

    def enter(self, at: int, link: Link) -> float:
        """Return the time before which the link at a place cannot start: when there are registers for a load."""
        start = 0.0
        if not self._registers or not link.is_early:
            return start
        needed = max(link.registers, link.group) if self._has_uses else link.registers
        while self._taken + needed > self._registers - link.held:
            used = [place for place, load in self._loads.items() if load.last_use < at]
            if not used:
                break
            load = self._loads.pop(min(used, key=lambda place: self._loads[place].used))
            self._taken -= load.registers
            start = max(start, load.used)
        return start

    def add(self, at: int, last_use: int, link: Link, start: float) -> None:
        """Let a link that has started use the data of loads; if it is a load, it takes registers until a last use."""
        for slot in link.src:
            load = self._loads.get(self._loaded.get(slot, -1))
            if load:
                self._has_uses = True
                load.used = max(load.used, start)
        for slot in link.dst:
            self._loaded.pop(slot, None)
        if self._registers and link.is_early:
            self._loads[at] = _UnderWay(link.registers, last_use, start)
            self._loaded |= dict.fromkeys(link.dst, at)
            self._taken += link.registers
