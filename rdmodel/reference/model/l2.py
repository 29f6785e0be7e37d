"""Restate the L2 that the modelled SMs share: without latency, LRU replacement (docs/model.md sections 12 and 14)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rdmodel.gpu.config import GPU
from rdmodel.reference.model.record import L2Request


@dataclass(slots=True)
class SharedL2Counts:
    """Counters of the reference model's L2; `dirty` is the number of dirty lines left at the end."""

    reads: int = 0
    hits: int = 0
    writes: int = 0
    write_hits: int = 0
    write_backs: int = 0
    dirty: int = 0
    dram_read_sectors: int = 0
    atomic_sectors: int = 0


def shared_l2(
    logs: Sequence[Sequence[L2Request]], slices: int, sets: int, ways: int, dirty_ways: int | None = None
) -> SharedL2Counts:
    """Serve the requests that left the SMs, ordered by time, then by SM, then by their order within the SM.

    `logs` holds the requests of each SM. The L2 has `slices` of `sets` sets with `ways` lines each, of which at most
    `dirty_ways` are dirty (None: all).
    """
    counts = SharedL2Counts()
    lines_of_set: defaultdict[tuple[int, int], list[int]] = defaultdict(list)  # least recently used first
    dirty: set[int] = set()
    for _, (_, line, write, _, _, atomic) in _in_order(logs):
        lines = lines_of_set[line % slices, line // slices % sets]
        hit = line in lines
        counts.dram_read_sectors += not hit and (atomic or not write)
        counts.atomic_sectors += not hit and atomic
        if write:
            counts.writes += 1
            counts.write_hits += hit
        else:
            counts.reads += 1
            counts.hits += hit
        if hit:
            lines.remove(line)
        elif len(lines) == ways:
            victim = lines.pop(0)
            counts.write_backs += victim in dirty
            dirty.discard(victim)
        lines.append(line)
        if write:
            dirty.add(line)
            dirty_lines = [each for each in lines if each in dirty]
            if dirty_ways is not None and len(dirty_lines) > dirty_ways:
                dirty.remove(dirty_lines[0])
                counts.write_backs += 1
    counts.dirty = len(dirty)
    return counts


def _in_order(logs: Sequence[Sequence[L2Request]]) -> list[tuple[int, L2Request]]:
    """Return all requests with their SMs, ordered by time, then by SM, then by their order within the SM."""
    requests = [(sm, request) for sm, log in enumerate(logs) for request in log]
    return sorted(requests, key=lambda each: (each[1].time, each[0]))  # a stable sort


@dataclass(slots=True)
class SectoredL2Counts(SharedL2Counts):
    """Counters of the reference model's L2 by sector; `dirty` sectors are left at the end."""

    partition_sectors: int = 0


@dataclass(slots=True, eq=False)
class _L2Line:
    """Sectors of a line in a partition of the L2: those that can be read, and those to be written back.

    `cleaned` sectors have been written back while their line was in the cache, which keeps the bytes that it has.
    """

    valid: int = 0
    dirty: int = 0
    cleaned: int = 0


class SectoredL2:
    """The L2 of a GPU whose lines have sectors: partitions of sets of ways with LRU replacement."""

    def __init__(self, gpu: GPU) -> None:
        self.counts = SectoredL2Counts()
        self._gpu = gpu
        self._units = gpu.l2.slices * gpu.l2.sets(gpu.l1.line)
        self._sets: defaultdict[tuple[int, int], dict[int, _L2Line]] = defaultdict(dict)  # the least recent first

    def serve(self, logs: Sequence[Sequence[L2Request]]) -> SectoredL2Counts:
        """Serve the requests that left the SMs, ordered by time, then by SM, then by their order within the SM."""
        for sm, request in _in_order(logs):
            side = sm % self._gpu.l2.partitions
            if request.write:
                self._write(request, side)
            else:
                self._read(request, side)
        self.counts.dirty = sum(each.dirty.bit_count() for lines in self._sets.values() for each in lines.values())
        return self.counts

    def _read(self, request: L2Request, side: int) -> None:
        """Read sectors from an SM on one side; what comes from the home of the line is kept on this side as well."""
        home, number = self._place(request.line)
        wanted = request.sectors
        self.counts.reads += wanted.bit_count()
        if side != home:
            copy = self._use(side, number, request.line)
            wanted &= ~copy.valid
            copy.valid |= wanted
            self.counts.hits += (request.sectors & ~wanted).bit_count()
            self.counts.partition_sectors += wanted.bit_count()
        if wanted:
            line = self._use(home, number, request.line)
            missing = wanted & ~line.valid
            self.counts.hits += (wanted & ~missing).bit_count()
            fetched = self._granules(missing)
            self.counts.dram_read_sectors += fetched.bit_count()
            line.valid |= fetched

    def _write(self, request: L2Request, side: int) -> None:
        """Write sectors at the home of their line; other sides lose their copies of these sectors.

        An atomic fetches those that cannot be read; other writes fetch nothing.
        """
        home, number = self._place(request.line)
        self.counts.writes += request.sectors.bit_count()
        if side != home:
            self.counts.partition_sectors += request.sectors.bit_count()
        line = self._use(home, number, request.line)
        self.counts.write_hits += (request.sectors & (line.valid | line.dirty | line.cleaned)).bit_count()
        if request.atomic:
            fetched = self._granules(request.sectors & ~line.valid)
            self.counts.dram_read_sectors += fetched.bit_count()
            self.counts.atomic_sectors += fetched.bit_count()
            line.valid |= fetched
        line.dirty |= request.sectors
        line.valid |= request.full
        self._limit_dirty_lines(self._sets[home, number])
        for other in range(self._gpu.l2.partitions):
            lines = self._sets[other, number]
            if other != home and request.line in lines:
                lines[request.line].valid &= ~request.sectors

    def _limit_dirty_lines(self, lines: dict[int, _L2Line]) -> None:
        """Clean the least recently used dirty line of a set if too many of its lines are dirty."""
        dirty = [line for line in lines.values() if line.dirty]
        limit = self._gpu.l2.dirty_ways
        if limit is not None and len(dirty) > limit:
            oldest = dirty[0]
            self.counts.write_backs += oldest.dirty.bit_count()
            oldest.cleaned |= oldest.dirty
            oldest.dirty = 0

    def _use(self, side: int, number: int, line: int) -> _L2Line:
        """Return a line of a set after making it the most recent one; an absent line takes a way."""
        lines = self._sets[side, number]
        if line not in lines and len(lines) == self._gpu.l2.ways:
            self.counts.write_backs += lines.pop(next(iter(lines))).dirty.bit_count()
        lines[line] = lines.pop(line, _L2Line())
        return lines[line]

    def _granules(self, sectors: int) -> int:
        """Return all sectors that are fetched from DRAM together with those in a mask."""
        size = self._gpu.l2_fetch_bytes // self._gpu.l2_sector_bytes
        count = self._gpu.l1.line // self._gpu.l2_sector_bytes
        granules = [((1 << size) - 1) << first for first in range(0, count, size)]
        return sum(granule for granule in granules if granule & sectors)

    def _place(self, line: int) -> tuple[int, int]:
        """Return the home partition of a line, and its set there."""
        unit = spread(line, self._units) if self._gpu.l2.index == "hash" else line % self._units
        return unit % self._gpu.l2.partitions, unit // self._gpu.l2.partitions


def spread(line: int, units: int) -> int:
    """Return the unit of a line among `units` = odd x 2^n: xor of all groups of n bits, and the rest modulo odd."""
    bits = (units & -units).bit_length() - 1
    low = 0
    for first in range(0, line.bit_length() if bits else 0, bits or 1):
        low ^= line >> first & (1 << bits) - 1
    return ((line >> bits) % (units >> bits) << bits) + low
