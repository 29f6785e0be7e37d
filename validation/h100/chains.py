"""Find out how the L1 of an H100 works, by chains of timed loads: `python chains.py chains.cubin > chains.csv`.

The machine with the GPU needs this file, `launcher.py`, and `chains.cu`, compiled by ``nvcc -arch=sm_90 -cubin``; not
the project. Each launch begins with an empty L1, and its data are in the L2. A load that takes less than `MOST_CYCLES`
has hit. `docs/gpus.md` says what the rows show. They have an experiment, its case, a number or a line, and the results:

* ``capacity``, KiB of shared memory: loads of so many consecutive lines, twice; the misses of the second time.
* ``stride``, lines between the loads: the largest number of lines that hit when they are loaded again.
* ``rivals``, a line: other lines of which all are needed to evict it, found by leaving out of many
  those that are not.
* ``set``, a bit of the line number: the sets in which the line with only this bit set is, by what it evicts.
* ``oldest``, loads of four lines of a set, by their positions: which of them a fifth line evicts.
* ``victim``, an order in which the L1 was filled: the line that one more line has evicted, and its number in its set
  in the order of use.
* ``pass``, KiB of shared memory: loads of so many consecutive lines, again and again; the misses of each time.
* ``turn``, KiB of shared memory: loads of one line more than fit, again and again; the lines that missed since the
  second time, each of which the miss before had evicted.
* ``reuse``, accesses of lines of a set, by their positions: those that are still there. A digit is a load, ``+`` behind
  it another one that is under way with it, a small letter a load of the next sector, and a capital one a store.
"""

from __future__ import annotations

import array
import csv
import ctypes
import random
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from launcher import Gpu  # type: ignore[import-not-found]  # beside this file

LINE_WORDS = 32
SECTOR_WORDS = 8
BOTH, STORE = 1 << 31, 1 << 30
"""Bits of an entry: a second load with it, or a store in place of the load (`chains.cu`)."""

DATA_BYTES = 1 << 31
RESULT_BYTES = 1 << 20
MOST_CYCLES = 100
"""A hit takes about 42 cycles with the reading of the clock, and a miss that finds its line in the L2 at least 250."""

BLOCKS = {16: 1, 32: 1, 64: 2, 100: 4, 132: 4, 164: 4, 196: 4, 228: 4}
"""Blocks whose shared memory fills a carve-out, by its KiB: the driver prefers one that whole blocks fill."""

OWN_BYTES = 1024 + 128
"""Shared memory that each block has besides, with that of the kernel itself."""

UNIFIED_KIB, MOST_SHARED_KIB, RESERVED_KIB = 256, 228, 7

MASKS = (13275524, 9877320, 2926904, 14605744, 6532808, 13231572, 5118656, 15694517, 5615471)
"""The bits of a line number whose parity is a bit of its set.

``rivals`` and ``set`` show which lines share a set, and ``turn`` the order of the sets: the last two bits are those of
the pool, in whose sets the first seven count.
"""

WAYS = 4
Row = tuple[str, object, object, str]


class Chains:
    """The GPU, which runs chains of loads."""

    def __init__(self, module: Path) -> None:
        self._gpu = Gpu(2 * DATA_BYTES + 2 * RESULT_BYTES)
        # No bit of an offset may carry into another one of the address, whose bits decide the set.
        self._data = -(-self._gpu.pool // DATA_BYTES) * DATA_BYTES
        self._order = self._data + DATA_BYTES
        self._cycles = self._order + RESULT_BYTES
        self._module = module
        self._gpu.clear(2 * DATA_BYTES + 2 * RESULT_BYTES)

    def misses(self, lines: Sequence[int], shared_kib: int = 32) -> list[int]:
        """Load lines one after the other, with a carve-out; return the positions of those that missed."""
        return self.late([line * LINE_WORDS for line in lines], shared_kib)

    def late(self, entries: Sequence[int], shared_kib: int = 32) -> list[int]:
        """Access words one after the other (`chains.cu`); return the positions of those that took long."""
        count = len(entries)
        words = array.array("I", entries)
        self._gpu.write(self._order, words.tobytes())
        values = [ctypes.c_uint64(each) for each in (self._data, self._order, self._cycles)]
        number = ctypes.c_int(count)
        pointers = (ctypes.c_void_p * 4)(*map(ctypes.addressof, values), ctypes.addressof(number))
        shared = asked_bytes(shared_kib)
        assert 4 * count <= shared, (count, shared_kib)
        percent = 100 * shared_kib // MOST_SHARED_KIB
        function = self._gpu.function(self._module, "chain", shared, percent)
        self._gpu.call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, shared, None, pointers, None)
        self._gpu.call("cuCtxSynchronize")
        cycles = array.array("H")
        cycles.frombytes(self._gpu.read(self._cycles, 2 * count))
        return [at for at, taken in enumerate(cycles) if taken > MOST_CYCLES]

    def evicted(self, before: Sequence[int], line: int) -> bool:
        """Tell whether a line misses after others were loaded."""
        return self.misses([*before, line])[-1:] == [len(before)]


def asked_bytes(shared_kib: int) -> int:
    """Return the bytes of shared memory that a launch asks for, for a carve-out."""
    return (shared_kib << 10) // BLOCKS[shared_kib] - OWN_BYTES


def capacity(shared_kib: int) -> int:
    """Return how many lines hold data."""
    return (UNIFIED_KIB - shared_kib - RESERVED_KIB) * 1024 // 128


def set_of(line: int) -> int:
    """Return the set of a line."""
    return sum(((line & mask).bit_count() & 1) << bit for bit, mask in enumerate(MASKS))


def measure_capacity(chains: Chains) -> Iterator[Row]:
    """Load as many lines as fit, some fewer and some more, twice."""
    for shared_kib in BLOCKS:
        for count in range(capacity(shared_kib) - 12, capacity(shared_kib) + 13):
            if 8 * count <= asked_bytes(shared_kib):
                found = chains.misses([*range(count)] * 2, shared_kib)
                yield "capacity", shared_kib, count, str(sum(at >= count for at in found))


def measure_strides(chains: Chains) -> Iterator[Row]:
    """Find how many lines a power of two apart fit, at the carve-out of 32 KiB."""
    for bit in range(12):
        low, high = 1, 2000
        while high - low > 1:
            count = (low + high) // 2
            fits = max(chains.misses([line << bit for line in range(count)] * 2), default=0) < count
            low, high = (count, high) if fits else (low, count)
        yield "stride", 1 << bit, low, ""


def measure_rivals(chains: Chains, trials: int) -> Iterator[Row]:
    """Reduce random lines that evict a line together to those that are needed."""
    draw = random.Random(0)
    for _ in range(trials):
        line, *others = draw.sample(range(1 << 16), capacity(32) - 100)
        rest = others[: next((n for n in range(200, len(others), 50) if chains.evicted([line, *others[:n]], line)), 0)]
        size = len(rest) // 2
        while size:
            less = (rest[:at] + rest[at + size :] for at in range(0, len(rest), size))
            found = next((few for few in less if chains.evicted([line, *few], line)), None)
            rest, size = (rest, size // 2) if found is None else (found, min(size, len(found)))
        if len(rest) == WAYS:
            yield "rivals", line, len(rest), " ".join(map(str, rest))


def measure_sets(chains: Chains) -> Iterator[Row]:
    """Find the set of the lines whose number has a single bit above those of `measure_rivals`."""
    for bit in range(16, 24):
        sets = [
            number for number in range(512) if chains.evicted([*lines_of(number, WAYS), 1 << bit], lines_of(number)[0])
        ]
        yield "set", bit, len(sets), " ".join(map(str, sets))


@cache
def lines_by_set() -> dict[int, list[int]]:
    """Return the lines with numbers below 2^13 of each set."""
    found: dict[int, list[int]] = {}
    for line in range(1 << 13):
        found.setdefault(set_of(line), []).append(line)
    return found


def lines_of(number: int, count: int = 1) -> list[int]:
    """Return the first lines of a set."""
    return lines_by_set()[number][:count]


def measure_age(chains: Chains) -> Iterator[Row]:
    """Fill the four ways of a set, use some of them again, and load a fifth line."""
    for number in (0, 77, 300):
        *four, fifth = lines_of(number, WAYS + 1)
        for again in ([], [0], [0, 1], [0, 1, 2], [3, 2, 1, 0], [1, 3], [2, 0, 3]):
            before = [*four, *(four[at] for at in again), fifth]
            gone = [at for at in range(WAYS) if chains.evicted(before, four[at])]
            yield "oldest", " ".join(map(str, [*range(WAYS), *again])), number, " ".join(map(str, gone))


def measure_victims(chains: Chains) -> Iterator[Row]:
    """Fill all data, load one more line, and find the line that is gone: the first miss in a random order."""
    draw = random.Random(0)
    lines = [*range(capacity(32))]
    for name, fill in (("up", lines), ("down", lines[::-1]), ("random", draw.sample(lines, len(lines)))):
        for more in draw.sample(range(4096, 1 << 16), 24):
            probes = draw.sample(fill, len(fill))
            start = len(fill) + 1
            missed = [at - start for at in chains.misses([*fill, more, *probes]) if at >= start]
            gone = probes[missed[0]]
            mates = [line for line in fill if set_of(line) == set_of(gone)]
            own = "own set" if set_of(gone) == set_of(more) else "other set"
            full = sum(set_of(line) == set_of(more) for line in fill) == WAYS
            yield "victim", name, more, f"{gone}: {mates.index(gone)} of {len(mates)}, {own}{', full' if full else ''}"


def measure_passes(chains: Chains) -> Iterator[Row]:
    """Load more lines than fit, again and again."""
    for shared_kib, excess in ((32, (1, 4, 20, 64, 127, 199)), (132, (1, 4, 20, 64)), (228, (1, 8, 32, 72))):
        for more in excess:
            count = capacity(shared_kib) + more
            times = min(8, asked_bytes(shared_kib) // (4 * count))
            found = chains.misses([*range(count)] * times, shared_kib)
            yield (
                "pass",
                shared_kib,
                count,
                " ".join(str(sum(at // count == n for at in found)) for n in range(1, times)),
            )


def measure_turns(chains: Chains) -> Iterator[Row]:
    """Load one line more than fit, so that one line is always missing."""
    for shared_kib in (32, 132):
        count = capacity(shared_kib) + 1
        times = asked_bytes(shared_kib) // (4 * count)
        for _ in range(6):
            found = chains.misses([*range(count)] * times, shared_kib)
            yield "turn", shared_kib, count, " ".join(str(at % count) for at in found if at >= count)


REUSES = (
    *("01234", "001234", "001234567", "0011234", "00112233", "001122334", "0011223345", "00112233456"),
    *("0011223456789", "00112345566", "0011223345567", "0123012345", "012301234567"),
    *("0+1234", "0+1+234", "0a1234", "0A1234", "A01234", "AA1234", "A1234", "ABCDE", "AABCDEF"),
)


def measure_reuse(chains: Chains) -> Iterator[Row]:
    """Use some lines of a set again, before others need their ways."""
    for number in (0, 300):
        words = [line * LINE_WORDS for line in lines_of(number, 10)]
        for order in REUSES:
            before: list[int] = []
            for access in order:
                if access == "+":
                    before[-1] |= BOTH
                elif access.isdigit():
                    before.append(words[int(access)])
                else:
                    word = words[ord(access.lower()) - ord("a")]
                    before.append(word | STORE if access.isupper() else word + SECTOR_WORDS)
            used = sorted({entry & ~(BOTH | STORE) & -LINE_WORDS for entry in before}, key=words.index)
            left = [words.index(word) for word in used if chains.late([*before, word])[-1:] != [len(before)]]
            yield "reuse", order, number, " ".join(map(str, left))


def main(module: Path) -> None:
    """Make all experiments."""
    chains = Chains(module)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("experiment", "case", "number", "result"))
    measures = (
        *(measure_capacity, measure_strides, measure_sets, measure_age, measure_victims, measure_passes),
        *(measure_turns, measure_reuse),
    )
    for measure in measures:
        writer.writerows(measure(chains))
    writer.writerows(measure_rivals(chains, 24))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
