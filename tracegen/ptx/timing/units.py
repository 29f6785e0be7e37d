"""Schedule the instructions of a piece on the units of a sub-core: its issue slots, its tensor core and others.

The assembler interleaves independent instructions. So an instruction takes the first time after its operands at which
an issue slot and its unit are free, also if instructions that precede it in the PTX start later. Of several warps, an
earlier one comes first: schedulers issue instructions of one warp as long as it does not wait, and then of another one
(Huerta et al., arXiv 2503.20481).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping
from math import ceil

from rdmodel.trace.conversion_units import PACKED, UNITS
from tracegen.ptx.timing.links import Link, Product, depth_of, latency_of

_SHARED_UNITS = {PACKED: "fp32", **{name: unit for name, (unit, _) in UNITS.items()}}
"""Classes whose instructions occupy the units of another class, on GPUs since compute capability 8.6."""


def unit_name(name: str, latencies: Mapping[str, float]) -> str:
    """Return the class that names the units of a class of instructions; `latencies` are those of `SubCore`.

    Conversions from and to 64 bits take the units for double precision where ``conversion_64_in_fp64`` is not 0.
    """
    if name == "conversion_64":
        return "fp64" if latencies.get("conversion_64_in_fp64") else "conversion"
    return _SHARED_UNITS.get(name, name)


class Unit:
    """The times at which a unit is occupied.

    An instruction that occupies the unit for several cycles may begin in a gap that is too short, and go on behind it:
    the assembler would find an order of the instructions without gaps.
    """

    def __init__(self) -> None:
        self._begins: list[float] = []
        self._ends: list[float] = []  # of spans that do not touch, in order
        self.taken = 0.0

    def first(self, start: float) -> float:
        """Return the first whole cycle from `start` on at which the unit is free."""
        start = ceil(start)
        at = bisect_right(self._ends, start)
        while at < len(self._begins) and self._begins[at] <= start:
            start = ceil(self._ends[at])
            at += 1
        return start

    def take(self, start: float, cycles: float) -> float:
        """Occupy the unit for so many cycles in which it is free, and return their end."""
        self.taken += cycles
        at = before = bisect_left(self._ends, start)
        end = start + cycles
        while at < len(self._begins) and self._begins[at] < end:
            end += self._ends[at] - max(start, self._begins[at])
            at += 1
        # All is occupied from the start to the end, and on to spans that touch it.
        behind = bisect_right(self._begins, end, at)
        touched = before < behind
        first = min(start, self._begins[before]) if touched else start
        last = max(end, self._ends[behind - 1]) if touched else end
        self._begins[before:behind], self._ends[before:behind] = [first], [last]
        return end


class SubCore:
    """The issue slots of a sub-core and its units, by class of instructions, which serve one or more warps.

    `latencies` has, beside the latency of each class, the cycles for which an instruction occupies its unit
    (``fp32_busy``), those for an operation of a product (``matrix_fp16_busy``), and those from the end of the
    occupation by a product to its result (``matrix_depth``, or with sums in half precision ``matrix_depth_fp16``).
    ``conversion_64_in_fp64`` says that the units for double precision execute conversions from and to 64 bits.
    """

    def __init__(self, latencies: Mapping[str, float]) -> None:
        self.latencies = latencies
        self._issue = Unit()
        self._units: dict[str, Unit] = defaultdict(Unit)

    @property
    def longest(self) -> float:
        """The cycles for which the busiest unit has been occupied."""
        return max(unit.taken for unit in (self._issue, *self._units.values()))

    def place(self, name: str, cycles: float, start: float) -> tuple[float, float]:
        """Take an issue slot and the unit of a class of instructions, both at the first time at which they are free.

        The result is this time, and the end of the occupation.
        """
        unit = self._units[unit_name(name, self.latencies)]
        while (found := unit.first(self._issue.first(start))) != start:
            start = found
        self._issue.take(start, 1.0)
        return start, unit.take(start, cycles)


class WarpSchedule:
    """The instructions of a warp on the units of its sub-core, which other warps may have taken before."""

    def __init__(self, core: SubCore) -> None:
        self._core = core
        self._next: dict[int, float] = {}  # when an asynchronous product may follow the one that adds to a slot

    def wait(self, link: Link, ready: Mapping[int, float]) -> float:
        """Return when the operands of a link are there, if other slots than those in `ready` are there at once."""
        times = {slot: ready.get(slot, 0.0) for slot in link.src}
        if link.product is not None and link.product.asynchronous:
            times |= {slot: self._next[slot] for slot in link.src if slot in self._next and slot in link.dst}
        return max(times.values(), default=0.0)

    def schedule(self, link: Link, start: float) -> tuple[float, float]:
        """Return the start of a link that does not start before a time, and when its results are there.

        The machine instructions of a link follow one another.
        """
        latencies = self._core.latencies
        latency = latency_of(link, latencies)
        for slot in link.dst:
            self._next.pop(slot, None)
        if link.product is not None:
            return self._start_product(link, link.product, start, latency)
        starts = [start]
        for name, count in link.classes.items():
            for _ in range(count):
                starts.append(self._core.place(name, latencies.get(f"{name}_busy", 1.0), starts[-1])[0])
        return starts[min(1, len(starts) - 1)], starts[-1] + latency

    def _start_product(self, link: Link, product: Product, start: float, latency: float) -> tuple[float, float]:
        cycles = product.flops * self._core.latencies[f"matrix_{product.type}_busy"]
        start, end = self._core.place("matrix", cycles, start)
        if product.asynchronous:
            # Each part of the next product follows the same part of this one.
            self._next |= dict.fromkeys(link.dst, max(start + latency, end))
        return start, max(start + latency, end + depth_of(product, self._core.latencies))
