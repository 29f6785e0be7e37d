"""Model an L2 whose slices form partitions: SMs use the slices of their own, which copy lines from the others."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rdmodel.gpu.config import GPU
from rdmodel.policies import Policy
from rdmodel.reference.machine.choice import make_slice_gate
from rdmodel.reference.machine.crossbar import Crossbar
from rdmodel.reference.machine.dram import Channel
from rdmodel.reference.machine.gate import Gate
from rdmodel.reference.machine.l2 import READS, Arrival, L2Failure, L2Outcome
from rdmodel.reference.machine.memory import SharedMemory
from rdmodel.reference.machine.messages import HEADER, Message, Reader
from rdmodel.reference.machine.record import EventLog
from rdmodel.reference.machine.sectored_l2 import SectoredSlice
from rdmodel.reference.machine.sm import SM


class Answer(NamedTuple):
    """The `sectors` of a line that reach a slice in SM cycle `time` from the line's home.

    With `block`, it is the acknowledgement of a store of that block instead.
    """

    time: int
    line: int
    sectors: int
    block: int | None = None


@dataclass(slots=True, eq=False)
class Crossing:
    """A line whose sectors `pending` are on the way from its home, and the readers that wait for some of them."""

    pending: int = 0
    readers: list[Reader] = field(default_factory=list)


class PartitionedSlice(SectoredSlice):
    """Slice `number` of an L2 with partitions: the home of some lines, and a place for copies of others.

    `crossed` holds messages from slices of other partitions, `answers` what they send back. `outbox` holds messages to
    the homes of their lines until they are sent.
    """

    def __init__(self, number: int, gpu: GPU, channel: Channel, gate: Gate | None) -> None:
        super().__init__(gpu, channel, gate)
        self.crossed: deque[Arrival] = deque()
        self.answers: deque[Answer] = deque()
        self.outbox: list[Message] = []
        self._number = number
        self._crossings: dict[int, Crossing] = {}

    @property
    def queue(self) -> deque[Arrival]:
        """The queue whose first message may be served first: `crossed` if both may at the same time."""
        if self.crossed and (not self.input or self.crossed[0].time <= self.input[0].time):
            return self.crossed
        return self.input

    def serve(self, sm: int, message: Message) -> L2Outcome | L2Failure:
        """Serve a message for a line that is at home here, or for one that is not."""
        if self._layout.slice_of(message.line) == self._number:
            return super().serve(sm, message)
        if message.write:
            self._send_on(message)
            return "sent_on"
        outcome = self._read_copy(message.reader(sm), message.line)
        if outcome.startswith("fail_"):
            self.counts[outcome] += 1
        return outcome

    def _read_copy(self, reader: Reader, line: int) -> L2Outcome | L2Failure:
        way = self._ways.find(self._set_of(line), line)
        if way is None:
            victim = self._ways.victim(self._set_of(line))
            if victim is None:
                return "fail_line_alloc"
            if victim.state == "valid" and victim.written and not self._channel.has_room:
                return "fail_dram_queue"
            way = self._place(line)
        crossing = self._crossings.get(line, Crossing())
        found, pending = reader.sectors & way.sectors, reader.sectors & crossing.pending
        missing = reader.sectors & ~(found | pending)
        if pending or missing:
            self._crossings[line] = crossing
            crossing.readers.append(reader)
            crossing.pending |= missing
        if missing:
            self._send_on(Message(line, False, sectors=missing, away=self._number))
        self._ways.touch(way)
        counts = {"reads": reader.sectors, "hits": found, "pending_hits": pending}
        for name, sectors in counts.items():
            self.counts[name] += sectors.bit_count()
        return "miss" if missing else "pending" if pending else "hit"

    def _send_on(self, message: Message) -> None:
        self.counts["partition_sectors"] += message.sectors.bit_count()
        self.outbox.append(message)

    def take_answer(self, answer: Answer) -> list[Reader]:
        """Keep the sectors if the line has a way, and return the readers that wait for nothing more."""
        way = self._ways.find(self._set_of(answer.line), answer.line)
        if way is not None:
            way.sectors |= answer.sectors
        crossing = self._crossings[answer.line]
        crossing.pending &= ~answer.sectors
        ready = [reader for reader in crossing.readers if not reader.sectors & crossing.pending]
        crossing.readers = [reader for reader in crossing.readers if reader not in ready]
        if not crossing.pending:
            assert not crossing.readers
            del self._crossings[answer.line]
        return ready

    def forget(self, line: int, sectors: int) -> None:
        """Take sectors of a line that were written at its home away from the copy, if there is one."""
        way = self._ways.find(self._set_of(line), line)
        if way is not None:
            way.sectors &= ~sectors

    @property
    def idle(self) -> bool:
        """Whether no message, read or write is left, here, in the channel, or on the way from other partitions."""
        return super().idle and not self.crossed and not self.answers and not self._crossings

    def check_drained(self) -> None:
        """Assert that the slice is empty; only the counters of all slices together add up."""
        assert self.idle and not self.waiting and not self.outbox
        assert all(way.state != "reserved" for way in self._ways)


class PartitionedMemory(SharedMemory):
    """Crossbar, slices in partitions with ports between them, and DRAM channels."""

    def __init__(self, gpu: GPU, sms: Sequence[SM], policies: Sequence[Policy], log: EventLog) -> None:
        super().__init__(gpu, sms, policies, log)
        self._count = gpu.l2.partitions
        self._delay = gpu.l2.partition_latency
        at_once = dataclasses.replace(gpu.crossbar, latency=0)
        self._between = Crossbar(at_once, gpu.clock, gpu.l2.slices, gpu.l2.slices)

    def _make_slices(self, gpu: GPU, policies: Sequence[Policy]) -> Sequence[PartitionedSlice]:
        self._parts = [
            PartitionedSlice(number, gpu, channel, make_slice_gate(policies))
            for number, channel in enumerate(self._channels)
        ]
        return self._parts

    def _entrance(self, sm: int, line: int) -> int:
        """Return the slice with the line's set in the SM's partition."""
        home = self._layout.slice_of(line)
        return home - home % self._count + sm % self._count

    def _return(self, number: int, now: int) -> None:
        """P1: take the lines that came from DRAM, then the sectors that came from other partitions."""
        super()._return(number, now)
        answers = self._parts[number].answers
        while answers and answers[0].time <= now:
            answer = answers.popleft()
            if answer.block is not None:
                super()._acknowledge(number, answer.line, answer.block, now)
                continue
            for reader in self._parts[number].take_answer(answer):
                self._answer(number, reader, answer.line, now)

    def _after(self, number: int, message: Message, outcome: L2Outcome, now: int) -> None:
        """Send messages on to the homes of their lines; take sectors that were written away from copies."""
        for onward in self._parts[number].outbox:
            home = self._layout.slice_of(onward.line)
            arrival = self._between.carry(self._between.requests, number, home, onward.size(self._packet), now)
            self._parts[home].crossed.append(Arrival(arrival + self._delay, -1, onward))
        self._parts[number].outbox.clear()
        if outcome in ("write_hit", "write_miss"):
            first = number - number % self._count
            for other in range(first, first + self._count):
                if other != number:
                    self._parts[other].forget(message.line, message.sectors)

    def _acknowledge(self, number: int, line: int, block: int, now: int) -> None:
        entrance = self._entrance(self._sm_of(block), line)
        if entrance == number:
            super()._acknowledge(number, line, block, now)
            return
        arrival = self._between.carry(self._between.responses, number, entrance, HEADER, now)
        self._parts[entrance].answers.append(Answer(arrival + self._delay, line, 0, block))

    def _answer(self, number: int, reader: Reader, line: int, now: int) -> None:
        if reader.away is None:
            super()._answer(number, reader, line, now)
            return
        arrival = self._between.carry(self._between.responses, number, reader.away, self._answer_size(reader), now)
        self._parts[reader.away].answers.append(Answer(arrival + self._delay, line, reader.sectors))

    def check_drained(self) -> None:
        """Assert that every slice is empty, and that the counters of all slices add up."""
        super().check_drained()
        counts = [part.counts for part in self._parts]
        found = sum(count[name] for count in counts for name in READS)
        assert found == sum(count["reads"] for count in counts)
