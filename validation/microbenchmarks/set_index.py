"""Recover size, ways and set index of an L1 from timings: section 5.1 of Nugteren et al. (HPCA 2014).

One warp makes the loads that four warps make in the paper, so that their order is known. The time of a load is the
difference between the times of chains with and without it. Every load that takes longer than a hit is a miss.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from validation.microbenchmarks.clock import Clock
from validation.microbenchmarks.gf2 import annihilator, image

TOP_BIT = 24
"""The highest address bit that is tested."""

TRIALS = 4
"""Number of random lines on which a recovered index function must agree with the clock."""

MAX_LINES = 1 << 12
"""The search for the capacity ends at this number of lines."""


@dataclass(frozen=True, slots=True)
class L1:
    """An L1 as timings show it: bytes per `line`, `lines` in the cache, `ways`, and cycles until a hit returns.

    `masks` is the set index up to the numbering of the sets: the reduced basis of all parities of line bits (line =
    byte address / bytes per line) in which lines of different sets may differ. None if no parities explain the timings.
    """

    line: int
    lines: int
    ways: int
    hit_latency: int
    masks: tuple[int, ...] | None

    @property
    def sets(self) -> int:
        """Number of sets in use."""
        return self.lines // self.ways


def recover(clock: Clock) -> L1:
    """Return the L1 behind a clock."""
    hit = hit_time(clock)
    line = line_size(clock, hit)
    held = capacity(clock, hit, line)
    # Each line outside the filled range has a single bit set. It evicts the lines of the range that are in its set.
    bits = TOP_BIT + 1 - (line.bit_length() - 1)
    outside = [1 << bit for bit in range(bits) if 1 << bit >= held]
    rivals = {one: evicted(clock, hit, line, held, one) for one in outside}
    ways = max(map(len, rivals.values()))
    masks = annihilator((one ^ x for one, class_ in rivals.items() for x in class_), bits)
    linear = held == ways << len(masks) and explains(clock, hit, line, held, masks, bits)
    # The hit latency counts from the access, one cycle after the issue.
    return L1(line, held, ways, hit - 1, masks if linear else None)


def hit_time(clock: Clock) -> int:
    """Return the cycles by which a chain is longer with another load of the line that the load before has brought."""
    return clock.chain([0, 0]) - clock.chain([0])


def line_size(clock: Clock, hit: int) -> int:
    """Return the smallest power of two whose byte is not in the line of byte 0."""
    alone, size = clock.chain([0]), 4
    while clock.chain([0, size]) - alone == hit:
        size *= 2
    return size


def capacity(clock: Clock, hit: int, line: int) -> int:
    """Return the largest number of consecutive lines that can be loaded again with hits only."""

    def fits(n: int) -> bool:
        once = [i * line for i in range(n)]
        return clock.chain(once + once) - clock.chain(once) == n * hit

    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
        if high > MAX_LINES:
            raise ValueError(f"the L1 has more than {MAX_LINES // 2} lines; raise MAX_LINES to recover it")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def evicted(clock: Clock, hit: int, line: int, held: int, one: int) -> list[int]:
    """Return the lines of a filled cache that miss after a load of line `one`: stages 1, 2 and 3 of figure 5.

    With LRU the first of these lines evicts the second when it returns, and so on, so that all lines of the set miss.
    """
    fill = [i * line for i in range(held)]
    return misses(clock, hit, [*fill, one * line], fill)


def misses(clock: Clock, hit: int, before: Sequence[int], addresses: Sequence[int]) -> list[int]:
    """Return the positions of the loads in a chain that miss, after the loads in `before`."""
    start = clock.chain(before) if before else 1  # the first load issues in cycle 0, the chain ends a cycle later

    def excess(n: int) -> int:
        return clock.chain([*before, *addresses[:n]]) - start - n * hit if n else 0

    return steps(excess, 0, len(addresses), 0, excess(len(addresses)))


def steps(value: Callable[[int], int], low: int, high: int, at_low: int, at_high: int) -> list[int]:
    """Return every n from `low` to `high` - 1 with ``value(n) < value(n + 1)``, for a value that never falls."""
    if at_low == at_high:
        return []
    if high - low == 1:
        return [low]
    middle = (low + high) // 2
    between = value(middle)
    return steps(value, low, middle, at_low, between) + steps(value, middle, high, between, at_high)


def explains(clock: Clock, hit: int, line: int, held: int, masks: Sequence[int], bits: int) -> bool:
    """Return whether the parities predict which lines of a filled cache are evicted by random lines."""
    draw = random.Random(0)
    for one in (draw.randrange(held, 1 << bits) for _ in range(TRIALS)):
        expected = [x for x in range(held) if image(masks, x) == image(masks, one)]
        if evicted(clock, hit, line, held, one) != expected:
            return False
    return True


def stride_sweep(clock: Clock, strides: Sequence[int], counts: Sequence[int]) -> dict[int, dict[int, float]]:
    """Return the miss rate in percent of two equal loops of loads, by stride and number of loads: figure 7."""
    hit = hit_time(clock)
    return {stride: _strided(clock, hit, stride, counts) for stride in strides}


def _strided(clock: Clock, hit: int, stride: int, counts: Sequence[int]) -> dict[int, float]:
    loop = [i * stride for i in range(max(counts))]
    first = misses(clock, hit, [], loop)
    rates = {}
    for n in counts:
        both = sum(at < n for at in first) + len(misses(clock, hit, loop[:n], loop[:n]))
        rates[n] = 100 * both / (2 * n)
    return rates
