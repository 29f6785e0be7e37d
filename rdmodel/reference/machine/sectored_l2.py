"""Model a slice of an L2 that reads and writes its lines by sector (docs/machine.md, Sectors).

A mask has one bit per sector of a line.
"""

from __future__ import annotations

from dataclasses import dataclass

from rdmodel.gpu.config import GPU
from rdmodel.reference.machine.dram import Channel
from rdmodel.reference.machine.gate import Gate
from rdmodel.reference.machine.l2 import L2_OUTCOMES, READS, L2Failure, L2Mshr, L2Outcome, Slice
from rdmodel.reference.machine.messages import Message, Reader
from rdmodel.reference.machine.sectored_l1 import bits_of
from rdmodel.reference.machine.ways import Way


@dataclass(slots=True, eq=False)
class BypassingRead:
    """A read past a closed slice, and the sectors that have not come from DRAM for it."""

    reader: Reader
    left: int


class SectoredSlice(Slice):
    """A slice with sectors; a line in flight has one MSHR, and reads of it wait there for their sectors."""

    def __init__(self, gpu: GPU, channel: Channel, gate: Gate | None) -> None:
        super().__init__(gpu, channel, gate)
        width = gpu.l2_fetch_bytes // gpu.l2_sector_bytes
        sectors = gpu.l1.line // gpu.l2_sector_bytes
        self._fetched = [((1 << width) - 1) << first for first in range(0, sectors, width)]
        self._bypassing: list[BypassingRead] = []

    def fill(self, line: int, sectors: int = 1) -> list[Reader]:
        """Make those of `sectors` valid that were in flight, and return the readers that have all of theirs now."""
        mshr = self._mshrs[line]
        way = mshr.way
        way.sectors |= sectors & way.pending
        way.pending &= ~sectors
        ready = [reader for reader in mshr.readers if not reader.sectors & ~way.sectors]
        mshr.readers = [reader for reader in mshr.readers if reader not in ready]
        if not way.pending:
            assert not mshr.readers
            del self._mshrs[line]
            way.state = "valid"
        return ready

    def finish_bypass(self, reader: Reader, sectors: int) -> list[Reader]:
        """Take sectors that came from DRAM for a bypassing reader, and return it if it has all of its own now."""
        (read,) = (read for read in self._bypassing if read.reader is reader)
        read.left &= ~sectors
        if read.left:
            return []
        self._bypassing.remove(read)
        return [reader]

    def serve(self, sm: int, message: Message) -> L2Outcome | L2Failure:
        """Serve a message of `sm` and count its sectors, or count the failure and change nothing else."""
        way = self._ways.find(self._set_of(message.line), message.line)
        found, pending = (0, 0) if way is None else (way.sectors, way.pending)
        written = 0 if way is None else way.written | way.cleaned
        if message.write:
            outcome = self._write_sectors(message, way)
        else:
            outcome = self._read_sectors(message.reader(sm), message.line, way)
        if outcome not in L2_OUTCOMES:
            self.counts[outcome] += 1
            return outcome
        asked = message.sectors
        if message.write or message.away is None:
            self.counts["writes" if message.write else "reads"] += asked.bit_count()
        if message.write:
            self.counts["write_hits"] += (asked & (found | pending | written)).bit_count()
        elif outcome == "bypassed":
            self.counts["bypassed"] += asked.bit_count()
        else:
            self.counts["hits"] += (asked & found).bit_count()
            self.counts["pending_hits"] += (asked & pending).bit_count()
            self.counts["misses"] += (asked & ~(found | pending)).bit_count()
        return outcome

    def _read_sectors(self, reader: Reader, line: int, way: Way | None) -> L2Outcome | L2Failure:
        is_clean = way is None or not way.pending | way.written
        if self._is_closed and is_clean:
            outcome = self._bypass(reader, line, way)
        else:
            outcome = self._read_open_sectors(reader, line, way)
        self._count_read(outcome, absent=way is None)
        return outcome

    def _bypass(self, reader: Reader, line: int, way: Way | None) -> L2Outcome | L2Failure:
        """Read sectors past the slice, which only keeps the line's tag, in the way that it has or gets."""
        if not self._channel.has_room:
            return "fail_dram_queue"
        if way is not None:
            self._ways.touch(way)
        elif self._ways.victim(self._set_of(line)) is not None:
            self._place(line).ghost = True
        fetched = [group for group in self._fetched if group & reader.sectors]
        self._bypassing.append(BypassingRead(reader, sum(fetched)))
        for group in fetched:
            self._channel.enter(line, write=False, reader=reader, sectors=group)
        return "bypassed"

    def _read_open_sectors(self, reader: Reader, line: int, way: Way | None) -> L2Outcome | L2Failure:
        found, pending = (0, 0) if way is None else (way.sectors, way.pending)
        if way is not None and not reader.sectors & ~found:
            self._ways.touch(way)
            return "hit"
        mshr = self._mshrs.get(line)
        missing = reader.sectors & ~(found | pending)
        failure = self._read_failure(line, mshr, missing, absent=way is None)
        if failure is not None:
            return failure
        if way is None:
            way = self._place(line)
        if mshr is None:
            mshr = self._mshrs[line] = L2Mshr(way, [])
        mshr.readers.append(reader)
        self._fetch(way, missing)
        self._ways.touch(way)
        return "miss" if missing else "pending"

    def _read_failure(self, line: int, mshr: L2Mshr | None, missing: int, *, absent: bool) -> L2Failure | None:
        """Return the first resource that a read without all of its sectors lacks, or None."""
        config = self._config
        if mshr is not None and config.mshr_merge is not None and len(mshr.readers) >= config.mshr_merge:
            return "fail_mshr_merge"
        if absent and self._ways.victim(self._set_of(line)) is None:
            return "fail_line_alloc"
        if mshr is None and not self._has_mshr:
            return "fail_mshr_entry"
        return "fail_dram_queue" if missing and not self._channel.has_room else None

    def _fetch(self, way: Way, missing: int) -> int:
        """Read the missing sectors from DRAM, each with those that are fetched together; return their number."""
        count = 0
        for fetched in self._fetched:
            if missing & fetched:
                way.pending |= fetched & ~way.sectors
                way.state = "reserved"
                self._channel.enter(way.line, write=False, sectors=fetched)
                count += fetched.bit_count()
        return count

    def _write_sectors(self, message: Message, way: Way | None) -> L2Outcome | L2Failure:
        outcome: L2Outcome = "write_miss" if way is None else "write_hit"
        taken = self._ways.victim(self._set_of(message.line)) if way is None else way
        if taken is None:
            return "fail_line_alloc"
        # A victim that is written back makes room for another dirty line, too.
        cleaned = None if taken.written else self._to_clean(self._set_of(message.line))
        evicts_dirty = way is None and taken.written
        missing = message.sectors & ~(0 if way is None else way.sectors | way.pending) if message.atomic else 0
        if (evicts_dirty or cleaned is not None) and not self._channel.has_room:
            return "fail_dram_queue"
        mshr = self._mshrs.get(message.line)
        if missing and mshr is None and not self._has_mshr:
            return "fail_mshr_entry"
        if missing and not self._channel.has_room:
            return "fail_dram_queue"
        if way is None:
            way = self._place(message.line)
        way.ghost = False
        if missing:
            if mshr is None:
                self._mshrs[message.line] = L2Mshr(way, [])
            self.counts["atomic_sectors"] += self._fetch(way, missing)
        way.written |= message.sectors
        way.sectors |= message.full & ~way.pending
        self._ways.touch(way)
        self._clean(cleaned)
        return outcome

    def _clean(self, way: Way | None) -> None:
        """Write the written sectors of a line back, one access for each; the line stays in its way."""
        if way is not None:
            self._write_back(way)
            way.cleaned |= way.written
            way.written = 0

    def _write_back(self, way: Way) -> None:
        for sector in bits_of(way.written):
            self._channel.enter(way.line, write=True, sectors=sector)

    def _place(self, line: int) -> Way:
        """Give an absent line a way without any sector; write the victim's written sectors, one access for each."""
        way = self._ways.victim(self._set_of(line))
        assert way is not None
        if way.state == "valid":
            self._write_back(way)
        self._ways.place(way, line, "valid")
        return way

    def check_drained(self) -> None:
        """Assert that the slice is empty and that its counters add up."""
        assert self.idle and not self.waiting
        assert all(way.state != "reserved" for way in self._ways)
        assert self.counts["reads"] == sum(self.counts[name] for name in READS)
        assert not self._bypassing
