"""Restate the `paper` definition in plain Python (docs/model.md sections 4 to 6).

It makes sections 4.2 to 4.5 of Nugteren et al., HPCA 2014, precise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from rdmodel.gpu.config import CacheConfig
from rdmodel.model.options import Options
from rdmodel.reference.model.blocks import SM, Block, Instruction, ResidentBlock, Slots, resolved_latencies
from rdmodel.reference.model.record import Counts, Effect, L2Request, Ledger, Log, Moment, Try, TryOutcome
from rdmodel.reference.model.stack import Stacks
from rdmodel.trace import Op

NOTHING_ISSUED: Moment = Moment(-1, -1)
"""Arrival of the data of an instruction before any of its transactions has been issued."""


@dataclass(slots=True, eq=False)
class _PaperWarp:
    """A warp of the reference `paper` model, at instruction `position` of `program`.

    `issued` of the instruction's transactions have been issued; the last of their data arrives at `arrival`.
    """

    number: int
    block: ResidentBlock
    program: list[Instruction]
    position: int = 0
    issued: int = 0
    arrival: Moment = NOTHING_ISSUED

    @property
    def complete(self) -> bool:
        """Whether all transactions of the current instruction have been issued."""
        return self.issued == len(self.program[self.position].lines)


@dataclass(slots=True, eq=False)
class _PaperMshr:
    """MSHR of the reference `paper` model.

    It knows the warp and the time of its first request, the moment of its last one, and how many requests have merged.
    """

    owner: _PaperWarp
    time: int
    last: Moment
    requests: int = 1


def paper(
    cache: CacheConfig,
    options: Options,
    slots: int,
    latencies: Iterator[int],
    log: Log | None = None,
    requests: list[L2Request] | None = None,
) -> SM:
    """Model one SM with `slots` resident blocks by the definition `paper`.

    `latencies` yields the latency beyond `lat_min` of each miss, and with ``clip=False`` of each merged request, in
    order of issue, in steps. If given, `log` receives every try and every effect, and `requests` every request that
    leaves the SM. Raises `ConfigError` if the latencies of `options` are None.
    """
    sm = _Paper(cache, options, slots, latencies, log)
    if requests is not None:
        sm.requests = requests
    return (yield from sm.run())


class _Paper:
    """State of one SM during a run of the reference `paper` model."""

    def __init__(
        self, cache: CacheConfig, options: Options, slots: int, latencies: Iterator[int], log: Log | None
    ) -> None:
        self.cache = cache
        self.options = options
        self.lat_min, self.hit_latency = resolved_latencies(options)
        self.latencies = latencies
        self.log = log
        self.ledger = Ledger()
        self.requests: list[L2Request] = []
        self.stacks = Stacks(cache)
        self.slots = Slots(slots, options)
        self.now = 0
        self.order = 0
        self.warps = 0
        self.ready: deque[_PaperWarp] = deque()
        self.stalled: list[_PaperWarp] = []
        self.waiting: list[tuple[Moment, _PaperWarp]] = []
        self.effects: list[tuple[Moment, int]] = []
        self.mshrs: dict[int, _PaperMshr] = {}

    def run(self) -> SM:
        """Run the steps until no warp is left, and return the counts."""
        before = self.options.effects == "before"
        yield from self.slots.fill(self.now, self.start)
        while True:
            if before:
                yield from self.end_step(None)
            warp = self.issue() if self.ready else None
            yield from self.finish_issue(warp) if before else self.end_step(warp)
            if self.ready:
                self.now += 1
            elif self.waiting or self.stalled:
                self.now = self.next_event()
            else:
                break
        self.counts.steps = self.now
        self.apply_effects(inf)
        return self.ledger.total()

    @property
    def counts(self) -> Counts:
        """The counters of the present origin."""
        return self.ledger.counts

    def start(self, block: Block, resident: ResidentBlock) -> int:
        """Append the warps of a block that have loads to the ready queue; return their number."""
        alive = 0
        for instructions in block:
            warp = _PaperWarp(self.warps, resident, instructions)
            self.pass_stores(warp)
            if warp.position < len(instructions):
                self.ready.append(warp)
                alive += 1
            self.warps += 1
        return alive

    def pass_stores(self, warp: _PaperWarp) -> None:
        """Send the stores before the warp's next load to the L2; nothing else happens to them in this definition."""
        program = warp.program
        while warp.position < len(program) and self.is_skipped(program[warp.position]):
            store = program[warp.position]
            atomic = store.op == Op.ATOMIC
            self.requests.extend(L2Request(self.now, line, write=True, atomic=atomic) for line in store.lines)
            warp.position += 1

    def is_skipped(self, instruction: Instruction) -> bool:
        """Return whether the model leaves out an instruction."""
        return instruction.op == Op.BARRIER or (instruction.op != Op.LOAD and self.options.stores != "allocate")

    def next_event(self) -> int:
        """Return the time of the next effect or arrival, but at least one step later: each time has one step."""
        heads = [queue[0][0].time for queue in (self.effects, self.waiting) if queue]
        return max(min(heads), self.now + 1)

    # Issue: one instruction of one warp acts on the current state.

    def issue(self) -> _PaperWarp:
        """Issue what is left of the front warp's instruction, up to the first transaction that stalls."""
        warp = self.ready.popleft()
        instruction = warp.program[warp.position]
        if instruction.bypass:
            self.bypass(warp, instruction)
            return warp
        for line in instruction.lines[warp.issued :]:
            self.ledger.turn_to(instruction.pc, line)
            if not self.access(warp, line):
                self.counts.stalls_mshr += 1
                break
            warp.issued += 1
        else:
            self.counts.requests += bool(warp.issued)
        return warp

    def bypass(self, warp: _PaperWarp, instruction: Instruction) -> None:
        """Send all transactions of a load that does not look into the L1 to the L2: none of them stalls."""
        for line in instruction.lines:
            warp.arrival = max(warp.arrival, Moment(self.miss_time(), self.order))
            self.order += 1
            self.requests.append(L2Request(self.now, line, write=False))
            self.ledger.turn_to(instruction.pc, line)
            self.counts.bypassed_transactions += 1
            self.counts.bypassed_sectors += 1
        warp.issued = len(instruction.lines)
        self.counts.bypassed_requests += bool(instruction.lines)

    def access(self, warp: _PaperWarp, line: int) -> bool:
        """Try one transaction; return whether it was issued."""
        distance = self.stacks.distance(line)
        used = len(self.mshrs)
        mshr = self.mshrs.get(line)
        outcome: TryOutcome
        if 0 <= distance < self.cache.ways:
            outcome, time = "hit", self.now + self.hit_latency
            self.counts.add("hits", distance)
        elif mshr is not None and self.may_merge(mshr):
            outcome, time = "latency", mshr.time if self.options.clip else self.miss_time()
            mshr.requests += 1
            mshr.last = max(mshr.last, Moment(time, self.order))
            self.counts.add("latency_misses", distance)
        elif mshr is None and self.may_allocate(warp):
            outcome, time = "miss", self.miss_time()
            self.requests.append(L2Request(self.now, line, write=False))
            self.mshrs[line] = _PaperMshr(warp, time, Moment(time, self.order))
            self.counts.add(self.stacks.cause(line), distance)
        else:
            self.write_log(Try(self.now, warp.number, line, distance, "stall", used, used, None, None))
            return False
        heappush(self.effects, (Moment(time, self.order), line))
        warp.arrival = max(warp.arrival, Moment(time, self.order))
        self.order += 1
        latency = time - self.now
        self.write_log(Try(self.now, warp.number, line, distance, outcome, used, len(self.mshrs), latency, time))
        return True

    def may_merge(self, mshr: _PaperMshr) -> bool:
        """Return whether one more request can merge into an MSHR."""
        return self.cache.mshr_merge is None or mshr.requests < self.cache.mshr_merge

    def may_allocate(self, warp: _PaperWarp) -> bool:
        """Return whether a warp can get another MSHR."""
        used_by_warp = sum(mshr.owner is warp for mshr in self.mshrs.values())
        return (self.cache.mshrs is None or len(self.mshrs) < self.cache.mshrs) and (
            self.cache.mshr_per_warp is None or used_by_warp < self.cache.mshr_per_warp
        )

    def miss_time(self) -> int:
        """Return the time at which the data of a miss arrives, with the next random latency."""
        return self.now + self.lat_min + int(next(self.latencies))

    def write_log(self, record: Try | Effect) -> None:
        """Append an entry to the log, if there is one."""
        if self.log is not None:
            self.log.append(record)

    # End of a step: (a) to (d) of docs/model.md section 4. With effects="before", all but (b) begin the step instead.

    def end_step(self, issuer: _PaperWarp | None) -> Generator[int, Block | None, None]:
        """Apply due effects, advance the issuing warp and those whose data has arrived, and wake stalled warps."""
        freed = self.apply_effects(self.now)
        yield from self.finish_issue(issuer)
        while self.waiting and self.waiting[0][0].time <= self.now:
            yield from self.advance(heappop(self.waiting)[1])
        if freed:
            self.ready.extend(self.stalled)
            self.stalled.clear()

    def apply_effects(self, until: float) -> bool:
        """(a) Apply the effects due by `until`, ordered by time and issue; return whether an MSHR was freed."""
        freed = False
        while self.effects and self.effects[0][0].time <= until:
            moment, line = heappop(self.effects)
            self.stacks.touch(line)
            self.write_log(Effect(moment.time, line))
            if line in self.mshrs and self.mshrs[line].last == moment:
                del self.mshrs[line]
                freed = True
        return freed

    def finish_issue(self, warp: _PaperWarp | None) -> Generator[int, Block | None, None]:
        """(b) Let the warp that issued advance, wait for its data, or wait for an MSHR."""
        if warp is None:
            return
        if not warp.complete:
            (self.stalled if self.options.divergence else self.ready).append(warp)
        elif self.options.divergence and warp.arrival.time > self.now:
            heappush(self.waiting, (warp.arrival, warp))
        else:
            yield from self.advance(warp)

    def advance(self, warp: _PaperWarp) -> Generator[int, Block | None, None]:
        """Move a warp to its next instruction, at the back of the ready queue, or end it."""
        warp.position += 1
        warp.issued = 0
        warp.arrival = NOTHING_ISSUED
        self.pass_stores(warp)
        if warp.position < len(warp.program):
            self.ready.append(warp)
        else:
            self.slots.end_warp(warp.block)
            yield from self.slots.fill(self.now, self.start)
