"""Model one slice of the L2: an input FIFO, ways and MSHRs; write-back, and writes allocate without fetching."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rdmodel.gpu.config import GPU
from rdmodel.gpu.l2_layout import l2_layout
from rdmodel.reference.machine.dram import Channel
from rdmodel.reference.machine.gate import Gate
from rdmodel.reference.machine.messages import Message, Reader
from rdmodel.reference.machine.record import SLICE_COUNTERS, zero_counters
from rdmodel.reference.machine.ways import Way, Ways

L2Outcome = Literal["hit", "pending", "miss", "write_hit", "write_miss", "bypassed", "sent_on"]
L2Failure = Literal["fail_line_alloc", "fail_mshr_entry", "fail_mshr_merge", "fail_dram_queue"]
L2_OUTCOMES: tuple[L2Outcome, ...] = ("hit", "pending", "miss", "write_hit", "write_miss", "bypassed", "sent_on")
"""Outcomes of a served message to the L2; the log stores their positions."""

READS = ("hits", "pending_hits", "misses", "bypassed")
"""Counters of reads, one for each outcome of a read."""
COUNTED = {**dict(zip(("hit", "pending", "miss", "bypassed"), READS, strict=True)), "write_hit": "write_hits"}
"""Counter of each outcome; a write miss has none."""


class Arrival(NamedTuple):
    """A message in the input FIFO, with the SM cycle from which it may be served and the SM that sent it."""

    time: int
    sm: int
    message: Message


@dataclass(slots=True, eq=False)
class L2Mshr:
    """MSHR of the reference machine's L2: the `way` that waits for the line, and a reader for each merged read."""

    way: Way
    readers: list[Reader]


class Slice:
    """A slice of the L2 in front of its DRAM `channel`.

    `waiting` holds the SMs whose next message found the input full. `gate` closes the slice; None: it never closes.
    """

    def __init__(self, gpu: GPU, channel: Channel, gate: Gate | None) -> None:
        self.counts = zero_counters(SLICE_COUNTERS)
        self.input: deque[Arrival] = deque()
        self.waiting: deque[int] = deque()
        self._config = gpu.l2
        self._layout = l2_layout(gpu)
        self._ways = Ways(gpu.l2.sets(gpu.l1.line), gpu.l2.ways)
        self._mshrs: dict[int, L2Mshr] = {}
        self._channel = channel
        self._gate = gate

    @property
    def queue(self) -> deque[Arrival]:
        """The queue whose first message is served next."""
        return self.input

    @property
    def has_room(self) -> bool:
        """Whether one more message may be sent; messages on their way count as well."""
        return len(self.input) < self._config.queue

    @property
    def _has_mshr(self) -> bool:
        """Whether one more line may be fetched."""
        return self._config.mshrs is None or len(self._mshrs) < self._config.mshrs

    def find(self, line: int) -> Way | None:
        """Return the way that holds `line` or is reserved for it."""
        return self._ways.find(self._set_of(line), line)

    def fill(self, line: int, sectors: int = 1) -> list[Reader]:
        """Make a line that came from DRAM valid, free its MSHR, and return its readers."""
        mshr = self._mshrs.pop(line)
        mshr.way.state = "valid"
        return mshr.readers

    def finish_bypass(self, reader: Reader, sectors: int) -> list[Reader]:
        """Take sectors that came from DRAM for a bypassing reader, and return it if it has all of its own now."""
        return [reader]

    def serve(self, sm: int, message: Message) -> L2Outcome | L2Failure:
        """Serve a message of `sm` and count its outcome, or count the failure and change nothing else."""
        if message.write:
            outcome = self._write(message.line, atomic=message.atomic)
        else:
            outcome = self._read(message.reader(sm), message.line)
        if outcome not in L2_OUTCOMES:
            self.counts[outcome] += 1
            return outcome
        self.counts["writes" if message.write else "reads"] += 1
        if outcome in COUNTED:
            self.counts[COUNTED[outcome]] += 1
        return outcome

    def _read(self, reader: Reader, line: int) -> L2Outcome | L2Failure:
        way = self._ways.find(self._set_of(line), line)
        is_clean = way is None or (way.state == "valid" and not way.dirty)
        if self._is_closed and is_clean:
            outcome = self._bypass(reader, line, way)
        else:
            outcome = self._read_open(reader, line, way)
        self._count_read(outcome, absent=way is None)
        return outcome

    @property
    def _is_closed(self) -> bool:
        return self._gate is not None and not self._gate.is_open

    def _count_read(self, outcome: L2Outcome | L2Failure, *, absent: bool) -> None:
        """Let the gate know of a read that was served; `absent` says whether it found no tag."""
        if self._gate is not None and outcome in L2_OUTCOMES:
            self._gate.count_read(absent=absent)

    def _read_open(self, reader: Reader, line: int, way: Way | None) -> L2Outcome | L2Failure:
        if way is None:
            return self._miss(reader, line)
        if way.state == "valid":
            self._ways.touch(way)
            return "hit"
        readers, limit = self._mshrs[line].readers, self._config.mshr_merge
        if limit is not None and len(readers) >= limit:
            return "fail_mshr_merge"
        readers.append(reader)
        self._ways.touch(way)
        return "pending"

    def _miss(self, reader: Reader, line: int) -> L2Outcome | L2Failure:
        way = self._ways.victim(self._set_of(line))
        if way is None:
            return "fail_line_alloc"
        if not self._has_mshr:
            return "fail_mshr_entry"
        if not self._channel.has_room:
            return "fail_dram_queue"
        self._evict(way)
        self._ways.place(way, line, "reserved")
        self._mshrs[line] = L2Mshr(way, [reader])
        self._channel.enter(line, write=False)
        return "miss"

    def _bypass(self, reader: Reader, line: int, way: Way | None) -> L2Outcome | L2Failure:
        """Read a line past the slice, which only keeps the line's tag, in the way that it has or gets."""
        if not self._channel.has_room:
            return "fail_dram_queue"
        if way is not None:
            self._ways.touch(way)
        else:
            self._remember(line)
        self._channel.enter(line, write=False, reader=reader)
        return "bypassed"

    def _remember(self, line: int) -> None:
        """Give an absent line a way as a ghost, if there is one."""
        way = self._ways.victim(self._set_of(line))
        if way is not None:
            self._evict(way)
            self._ways.place(way, line, "valid")
            way.ghost = True

    def end_cycle(self, now: int) -> None:
        """Open or close the slice at the end of a period; invalidate all ghosts when it opens."""
        if self._gate is None:
            return
        was_open = self._gate.is_open
        self._gate.end_cycle(now)
        if self._gate.is_open and not was_open:
            self._ways.forget_ghosts()

    def take_lines(self, previous: Slice) -> None:
        """Begin with the lines of the slice of an earlier launch; this slice is open, so its ghosts are invalid."""
        assert previous.idle
        self._ways = previous._ways
        self._ways.forget_ghosts()

    def _write(self, line: int, *, atomic: bool) -> L2Outcome | L2Failure:
        index = self._set_of(line)
        way = self._ways.find(index, line)
        if way is not None:
            cleaned = None if way.dirty else self._to_clean(index)
            if cleaned is not None and not self._channel.has_room:
                return "fail_dram_queue"
            way.dirty, way.ghost = True, False
            self._ways.touch(way)
            self._clean(cleaned)
            return "write_hit"
        way = self._ways.victim(index)
        if way is None:
            return "fail_line_alloc"
        evicts_dirty = way.state == "valid" and way.dirty
        cleaned = None if evicts_dirty else self._to_clean(index)
        if atomic and not self._has_mshr:
            return "fail_mshr_entry"
        if (atomic or evicts_dirty or cleaned is not None) and not self._channel.has_room:
            return "fail_dram_queue"
        self._evict(way)
        self._ways.place(way, line, "reserved" if atomic else "valid", dirty=True)
        if atomic:
            self._mshrs[line] = L2Mshr(way, [])
            self._channel.enter(line, write=False)
            self.counts["atomic_sectors"] += 1
        self._clean(cleaned)
        return "write_miss"

    def _to_clean(self, index: int) -> Way | None:
        """Return the least recently used dirty way of set `index` if no further one may be dirty, else None."""
        limit = self._config.dirty_ways
        dirty = [way for way in self._ways.of_set(index) if way.dirty or way.written]
        return None if limit is None or len(dirty) < limit else min(dirty, key=lambda way: way.last_use)

    def _clean(self, way: Way | None) -> None:
        """Write a dirty line back, which stays in its way; None: nothing."""
        if way is not None:
            self._channel.enter(way.line, write=True)
            way.dirty = False

    def _evict(self, way: Way) -> None:
        if way.state == "valid" and way.dirty:
            self._channel.enter(way.line, write=True)

    def _set_of(self, line: int) -> int:
        return self._layout.set_of(line)

    @property
    def idle(self) -> bool:
        """Whether no message, read or write is left, here or in the channel."""
        return not self.input and not self._mshrs and self._channel.idle

    def check_drained(self) -> None:
        """Assert that the slice is empty and that its counters add up."""
        assert self.idle and not self.waiting
        assert all(way.state != "reserved" for way in self._ways)
        assert self.counts["reads"] == sum(self.counts[name] for name in READS)
        fetched = self.counts["misses"] + self.counts["bypassed"] + self.counts["atomic_sectors"]
        assert fetched == self._channel.counts["reads"]
