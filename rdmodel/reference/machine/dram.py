"""Model one DRAM channel: a bounded queue and banks with open rows, served first-ready, first-come first-served."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from rdmodel.gpu.config import GPU
from rdmodel.gpu.l2_layout import l2_layout
from rdmodel.reference.machine.clocks import Domain
from rdmodel.reference.machine.messages import Reader
from rdmodel.reference.machine.record import CHANNEL_COUNTERS, EventLog, zero_counters
from rdmodel.simulator.options import has_sector_masks

FAR_PAST = -(1 << 60)
"""A cycle long before the start, for events that have not happened yet."""


@dataclass(slots=True, eq=False)
class Bank:
    """A DRAM bank; cycles are DRAM cycles.

    `row` is the open row and `act` its last activation. Column commands may follow from `col` on, a precharge from
    `pre` on.
    """

    row: int | None = None
    act: int = FAR_PAST
    col: int = FAR_PAST
    pre: int = FAR_PAST


@dataclass(slots=True, eq=False)
class DramRequest:
    """Sectors of a line to read from or write to DRAM, with their bank and row; `burst` is the time that they take.

    A read that bypasses the L2 is for `reader`.
    """

    line: int
    write: bool
    bank: Bank
    row: int
    reader: Reader | None
    sectors: int
    burst: int


class ReturnedLine(NamedTuple):
    """`sectors` read from DRAM that are back in SM cycle `time`, for the L2 or for a `reader` that bypasses the L2."""

    time: int
    line: int
    reader: Reader | None
    sectors: int


class Channel:
    """The DRAM channel of partition `number`; `returns` holds the lines that were read."""

    def __init__(self, number: int, gpu: GPU, log: EventLog) -> None:
        self.counts = zero_counters(CHANNEL_COUNTERS)
        self.returns: deque[ReturnedLine] = deque()
        self._number = number
        self._config = gpu.dram
        self._layout = l2_layout(gpu)
        self._row_lines = gpu.dram.row // gpu.l1.line
        self._sectored = has_sector_masks(gpu)
        self._read_burst = -(-gpu.l2_fetch_bytes // gpu.dram.width)
        self._write_burst = -(-gpu.l2_sector_bytes // gpu.dram.width)
        self._domain = Domain(gpu.dram.clock, gpu.clock)
        self._log = log
        self._queue: list[DramRequest] = []
        self._banks = [Bank() for _ in range(gpu.dram.banks)]
        self._last_act = FAR_PAST
        self._bus_free = FAR_PAST

    @property
    def has_room(self) -> bool:
        """Whether the queue has room for one more request."""
        return len(self._queue) < self._config.queue

    @property
    def idle(self) -> bool:
        """Whether no request is queued and no line is under way."""
        return not self._queue and not self.returns

    def enter(self, line: int, *, write: bool, reader: Reader | None = None, sectors: int = 1) -> None:
        """Append a request; the caller has checked for room, or may exceed it."""
        row, bank = divmod(self._layout.number_of(line) // self._row_lines, self._config.banks)
        burst = self._write_burst if write else self._read_burst
        self._queue.append(DramRequest(line, write, self._banks[bank], row, reader, sectors, burst))

    def step(self, now: int) -> None:
        """Run the DRAM cycles of SM cycle `now`, with at most one command in each (P3)."""
        for d in self._domain.cycles_of(now):
            if not self._column(d):
                self._open(d)

    def _column(self, d: int) -> bool:
        """Transfer the line of the oldest request whose row is open, if bank and bus allow it; return whether."""
        for request in self._queue:
            bank = request.bank
            if bank.row == request.row and d >= bank.col and d + self._config.tcl >= self._bus_free:
                self._transfer(request, d)
                return True
        return False

    def _transfer(self, request: DramRequest, d: int) -> None:
        data_end = d + self._config.tcl + request.burst
        self._bus_free = data_end
        request.bank.col = d + request.burst
        request.bank.pre = max(request.bank.pre, d + request.burst)
        self._queue.remove(request)
        self.counts["writes" if request.write else "reads"] += 1
        masks = (request.sectors,) if self._sectored else ()
        self._log.record("dram", d, self._number, request.line, request.write, *masks)
        if not request.write:
            back = self._domain.sm_cycle(data_end) + self._config.latency
            self.returns.append(ReturnedLine(back, request.line, request.reader, request.sectors))

    def _open(self, d: int) -> None:
        """Open the row of the oldest request that is its bank's oldest, unless a request wants the open row."""
        seen: list[Bank] = []
        for request in self._queue:
            bank = request.bank
            oldest_of_bank = bank not in seen
            seen.append(bank)
            if not oldest_of_bank or any(other.bank is bank and other.row == bank.row for other in self._queue):
                continue
            activate = d + self._config.trp
            earliest = max(bank.act + self._config.trc, self._last_act + self._config.trrd)
            if d >= bank.pre and activate >= earliest:
                self._activate(bank, request.row, activate)
                return

    def _activate(self, bank: Bank, row: int, activate: int) -> None:
        bank.row = row
        bank.act = self._last_act = activate
        bank.col = activate + self._config.trcd
        bank.pre = activate + self._config.tras
        self.counts["activations"] += 1
