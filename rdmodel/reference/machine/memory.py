"""Model the memory behind the SMs: an ideal memory, or the crossbar, the slices of the L2 and their DRAM channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from rdmodel.gpu.config import GPU
from rdmodel.gpu.l2_layout import l2_layout
from rdmodel.policies import Policy
from rdmodel.reference.machine.choice import make_slice_gate, make_victim_bits
from rdmodel.reference.machine.clocks import Domain
from rdmodel.reference.machine.crossbar import Crossbar
from rdmodel.reference.machine.dram import Channel
from rdmodel.reference.machine.l2 import L2_OUTCOMES, Arrival, L2Outcome, Slice
from rdmodel.reference.machine.messages import HEADER, Message, Reader, Response
from rdmodel.reference.machine.record import Counters, EventLog
from rdmodel.reference.machine.sectored_l2 import SectoredSlice
from rdmodel.reference.machine.sm import SM
from rdmodel.simulator.options import has_sector_masks, packet_bytes


class MemorySystem(Protocol):
    """Memory of the reference machine: takes the messages of the SMs and responds to their reads."""

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do."""

    def send(self, sm: SM, now: int) -> None:
        """Run phase S5 of an SM: send messages from its miss queue."""

    def step(self, now: int) -> None:
        """Run the phases of cycle `now` that belong to no SM."""

    def end_cycle(self, now: int) -> None:
        """Handle the end of cycle `now`, before phase E1."""

    def check_drained(self) -> None:
        """Assert that no message is left, and that the counters add up."""

    def counters(self) -> tuple[list[Counters], list[Counters]]:
        """Return the counters of the slices and of the channels."""

    def take_lines(self, previous: Self) -> None:
        """Begin with the lines that the memory held after an earlier launch."""


class IdealMemory:
    """A memory that responds to every read `latency` cycles after it was sent, however many there are.

    If it `acknowledges` stores, it does so after the same time.
    """

    idle = True

    def __init__(self, latency: int, *, acknowledges: bool) -> None:
        self._latency = latency
        self._acknowledges = acknowledges

    def send(self, sm: SM, now: int) -> None:
        """Send the whole miss queue."""
        while sm.l1.miss_queue:
            message = sm.take_message()
            if not message.write:
                response = Response(now + self._latency, message.line, message.bypass, message.sectors, sent=now)
                sm.responses.append(response)
            elif self._acknowledges and message.block is not None:
                sm.responses.append(Response(now + self._latency, message.line, block=message.block))

    def step(self, now: int) -> None:
        """Do nothing."""

    def end_cycle(self, now: int) -> None:
        """Do nothing."""

    def check_drained(self) -> None:
        """Do nothing: an ideal memory holds no messages."""

    def counters(self) -> tuple[list[Counters], list[Counters]]:
        """Return no counters."""
        return [], []

    def take_lines(self, previous: Self) -> None:
        """Do nothing: an ideal memory holds no lines."""


class SharedMemory:
    """Crossbar, L2 slices and DRAM channels."""

    def __init__(self, gpu: GPU, sms: Sequence[SM], policies: Sequence[Policy], log: EventLog) -> None:
        self._sms = sms
        self._log = log
        self._packet = packet_bytes(gpu)
        self._sectored = has_sector_masks(gpu)
        self._layout = l2_layout(gpu)
        self._acknowledges = gpu.core.store_acks
        self._latency = gpu.l2.latency
        self._crossbar = Crossbar(gpu.crossbar, gpu.clock, len(sms), gpu.l2.slices)
        self._domain = Domain(gpu.l2.clock, gpu.clock)
        self._channels = [Channel(number, gpu, log) for number in range(gpu.l2.slices)]
        self._slices: Sequence[Slice] = self._make_slices(gpu, policies)
        self._victim_bits = make_victim_bits(policies, self._slices)

    def _make_slices(self, gpu: GPU, policies: Sequence[Policy]) -> Sequence[Slice]:
        if self._sectored:
            return [SectoredSlice(gpu, channel, make_slice_gate(policies)) for channel in self._channels]
        return [Slice(gpu, channel, make_slice_gate(policies)) for channel in self._channels]

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do."""
        return all(l2_slice.idle for l2_slice in self._slices)

    def send(self, sm: SM, now: int) -> None:
        """Send messages while the SM's port is free and the slice of the next message has room."""
        while sm.l1.miss_queue and self._crossbar.may_request(sm.number, now):
            number = self._entrance(sm.number, sm.l1.miss_queue[0].line)
            target = self._slices[number]
            if not target.has_room:
                if sm.number not in target.waiting:
                    target.waiting.append(sm.number)
                return
            message = sm.take_message()
            size = message.size(self._packet)
            arrival = self._crossbar.carry(self._crossbar.requests, sm.number, number, size, now)
            target.input.append(Arrival(arrival + self._latency, sm.number, message))

    def _entrance(self, sm: int, line: int) -> int:
        """Return the slice to which an SM sends its messages for a line."""
        return self._layout.slice_of(line)

    def step(self, now: int) -> None:
        """Run every slice: lines from DRAM (P1), its input (P2), its channel (P3)."""
        for number, channel in enumerate(self._channels):
            self._return(number, now)
            for _ in self._domain.cycles_of(now):
                self._serve(number, now)
            channel.step(now)

    def _return(self, number: int, now: int) -> None:
        """P1: make the lines that came from DRAM valid, and respond to their readers."""
        returns, source = self._channels[number].returns, self._slices[number]
        while returns and returns[0].time <= now:
            _, line, bypassing, sectors = returns.popleft()
            readers = source.fill(line, sectors) if bypassing is None else source.finish_bypass(bypassing, sectors)
            for reader in readers:
                self._answer(number, reader, line, now)

    def _serve(self, number: int, now: int) -> None:
        """P2: in one L2 cycle, serve the first message of the slice's input, if it may be served."""
        source = self._slices[number]
        queue = source.queue
        if not queue or queue[0].time > now:
            return
        _, sm, message = queue[0]
        bits = self._victim_bits[number] if self._victim_bits else None
        if bits is not None:
            message = bits.with_hint(sm, message)
        outcome = source.serve(sm, message)
        if outcome not in L2_OUTCOMES:
            return
        if bits is not None:
            bits.record(sm, message)
        masks = (message.sectors,) if self._sectored else ()
        self._log.record("slice", now, number, message.line, L2_OUTCOMES.index(outcome), *masks)
        if outcome == "hit":
            self._answer(number, message.reader(sm), message.line, now)
        if self._acknowledges and message.block is not None and outcome in ("write_hit", "write_miss"):
            self._acknowledge(number, message.line, message.block, now)
        queue.popleft()
        self._after(number, message, outcome, now)
        if queue is source.input and source.waiting:
            self.send(self._sms[source.waiting.popleft()], now)

    def _after(self, number: int, message: Message, outcome: L2Outcome, now: int) -> None:
        """Complete a message that a slice has served."""

    def end_cycle(self, now: int) -> None:
        """Let every slice open or close at the end of a period."""
        for l2_slice in self._slices:
            l2_slice.end_cycle(now)

    def _acknowledge(self, number: int, line: int, block: int, now: int) -> None:
        """Tell the SM of a block that slice `number` has served one of its stores."""
        sm = self._sm_of(block)
        arrival = self._crossbar.carry(self._crossbar.responses, number, sm, HEADER, now)
        self._sms[sm].responses.append(Response(arrival, line, block=block))

    def _sm_of(self, block: int) -> int:
        """Return the SM that a block is resident on; the block stays there until its last acknowledgement."""
        (number,) = (sm.number for sm in self._sms if block in (one.block for one in sm.residents if one is not None))
        return number

    def _answer(self, number: int, reader: Reader, line: int, now: int) -> None:
        size = self._answer_size(reader)
        arrival = self._crossbar.carry(self._crossbar.responses, number, reader.sm, size, now)
        response = Response(arrival, line, reader.bypass, reader.sectors, sent=now, hint=reader.hint)
        self._sms[reader.sm].responses.append(response)

    def _answer_size(self, reader: Reader) -> int:
        return HEADER + reader.sectors.bit_count() * self._packet

    def take_lines(self, previous: Self) -> None:
        """Begin with the lines of an earlier launch's slices, and with their victim bits."""
        for mine, its in zip(self._slices, previous._slices, strict=True):
            mine.take_lines(its)
        for bits, known in zip(self._victim_bits or (), previous._victim_bits or (), strict=True):
            bits.take_bits(known)

    def check_drained(self) -> None:
        """Assert that every slice is empty, and that the slices got all messages that the SMs sent."""
        for l2_slice in self._slices:
            l2_slice.check_drained()
        for kind in ("read", "write"):
            sent = sum(sm.counts[f"{kind}_sectors" if self._sectored else f"{kind}_messages"] for sm in self._sms)
            assert sent == sum(l2_slice.counts[f"{kind}s"] for l2_slice in self._slices)

    def counters(self) -> tuple[list[Counters], list[Counters]]:
        """Return the counters of the slices and of the channels."""
        return [l2_slice.counts for l2_slice in self._slices], [channel.counts for channel in self._channels]
