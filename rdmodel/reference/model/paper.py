"""The `paper` definition: Nugteren et al., HPCA 2014, 4.2 to 4.5, made precise (docs/model.md sections 4 to 6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from rdmodel.gpu.config import CacheConfig
from rdmodel.model.options import Options
from rdmodel.reference.model.blocks import SM, Block, Instruction, Resident, Slots, resolved_latencies
from rdmodel.reference.model.record import Counts, Effect, Log, Outcome, Request, Try
from rdmodel.reference.model.stack import Stacks
from rdmodel.trace import Op

Moment = tuple[int, int]
"""A time and the issue number of a transaction: effects and arrivals are ordered by both."""

NOTHING_ISSUED: Moment = (-1, -1)


@dataclass(slots=True, eq=False)
class _Warp:
    """A warp at instruction `at` of `program`, with `done` transactions issued, all there by `arrival`."""

    number: int
    block: Resident
    program: list[Instruction]
    at: int = 0
    done: int = 0
    arrival: Moment = NOTHING_ISSUED

    @property
    def complete(self) -> bool:
        """Whether all transactions of the current instruction are issued."""
        return self.done == len(self.program[self.at].lines)


@dataclass(slots=True, eq=False)
class _Mshr:
    """An entry for a line in flight: its first request's warp and time, its last request, their number."""

    owner: _Warp
    time: int
    last: Moment
    served: int = 1


def paper(
    cache: CacheConfig,
    options: Options,
    slots: int,
    latencies: Iterator[int],
    log: Log | None = None,
    requests: list[Request] | None = None,
) -> SM:
    """Model one SM with `slots` resident blocks by the definition `paper`.

    `latencies` gives what a miss (and with ``clip=False`` a merged request) takes beyond `lat_min`, in issue
    order. `log` is filled with every try and effect, `requests` with what leaves the SM. Raises `ConfigError` if the
    latencies of `options` are None.
    """
    sm = _Paper(cache, options, slots, latencies, log)
    if requests is not None:
        sm.requests = requests
    return (yield from sm.run())


class _Paper:
    def __init__(
        self, cache: CacheConfig, options: Options, slots: int, latencies: Iterator[int], log: Log | None
    ) -> None:
        self.cache = cache
        self.options = options
        self.lat_min, self.hit_latency = resolved_latencies(options)
        self.latencies = latencies
        self.log = log
        self.counts = Counts()
        self.requests: list[Request] = []
        self.stacks = Stacks(cache)
        self.slots = Slots(slots, options)
        self.now = 0
        self.order = 0
        self.warps = 0
        self.ready: deque[_Warp] = deque()
        self.stalled: list[_Warp] = []
        self.waiting: list[tuple[Moment, _Warp]] = []
        self.effects: list[tuple[Moment, int]] = []
        self.mshrs: dict[int, _Mshr] = {}

    def run(self) -> SM:
        before = self.options.effects == "before"
        yield from self.slots.fill(self.now, self.start)
        while True:
            if before:
                yield from self.settle(None)
            warp = self.issue() if self.ready else None
            yield from self.go_on(warp) if before else self.settle(warp)
            if self.ready:
                self.now += 1
            elif self.waiting or self.stalled:
                self.now = self.next_event()
            else:
                break
        self.counts.steps = self.now
        self.apply_effects(inf)
        return self.counts

    def start(self, block: Block, resident: Resident) -> int:
        """Put the warps of a block that have loads at the back of the ready queue; return how many."""
        alive = 0
        for instructions in block:
            warp = _Warp(self.warps, resident, instructions)
            self.pass_stores(warp)
            if warp.at < len(instructions):
                self.ready.append(warp)
                alive += 1
            self.warps += 1
        return alive

    def pass_stores(self, warp: _Warp) -> None:
        """Let the stores before the warp's next load leave the SM: the model sees nothing else of them."""
        program = warp.program
        while warp.at < len(program) and not (program[warp.at].op == Op.LOAD or self.options.stores == "allocate"):
            self.requests.extend(Request(self.now, line, write=True) for line in program[warp.at].lines)
            warp.at += 1

    def next_event(self) -> int:
        """Return the time of the next effect or arrival; a step later at least, as one time has one step."""
        heads = [queue[0][0][0] for queue in (self.effects, self.waiting) if queue]
        return max(min(heads), self.now + 1)

    # The issue: one instruction of one warp looks at the state as it is.

    def issue(self) -> _Warp:
        """Issue the front warp's instruction, or the rest of it, up to the first transaction that stalls."""
        warp = self.ready.popleft()
        for line in warp.program[warp.at].lines[warp.done :]:
            if not self.access(warp, line):
                self.counts.stalls_mshr += 1
                break
            warp.done += 1
        return warp

    def access(self, warp: _Warp, line: int) -> bool:
        """Try one transaction; return whether it could be issued."""
        distance = self.stacks.distance(line)
        used = len(self.mshrs)
        mshr = self.mshrs.get(line)
        outcome: Outcome
        if 0 <= distance < self.cache.ways:
            outcome, time = "hit", self.now + self.hit_latency
            self.counts.add("hits", distance)
        elif mshr is not None and self.may_merge(mshr):
            outcome, time = "latency", mshr.time if self.options.clip else self.miss_time()
            mshr.served += 1
            mshr.last = max(mshr.last, (time, self.order))
            self.counts.add("latency_misses", distance)
        elif mshr is None and self.may_allocate(warp):
            outcome, time = "miss", self.miss_time()
            self.requests.append(Request(self.now, line, write=False))
            self.mshrs[line] = _Mshr(warp, time, (time, self.order))
            self.counts.add(self.stacks.cause(line), distance)
        else:
            self.note(Try(self.now, warp.number, line, distance, "stall", used, used, None, None))
            return False
        heappush(self.effects, ((time, self.order), line))
        warp.arrival = max(warp.arrival, (time, self.order))
        self.order += 1
        latency = time - self.now
        self.note(Try(self.now, warp.number, line, distance, outcome, used, len(self.mshrs), latency, time))
        return True

    def may_merge(self, mshr: _Mshr) -> bool:
        return self.cache.mshr_merge is None or mshr.served < self.cache.mshr_merge

    def may_allocate(self, warp: _Warp) -> bool:
        held = sum(mshr.owner is warp for mshr in self.mshrs.values())
        return (self.cache.mshrs is None or len(self.mshrs) < self.cache.mshrs) and (
            self.cache.mshr_per_warp is None or held < self.cache.mshr_per_warp
        )

    def miss_time(self) -> int:
        return self.now + self.lat_min + int(next(self.latencies))

    def note(self, record: Try | Effect) -> None:
        if self.log is not None:
            self.log.append(record)

    # The end of a step, (a) to (d) of docs/model.md section 4; its beginning with effects="before", less (b).

    def settle(self, stepped: _Warp | None) -> Generator[int, Block | None, None]:
        """Apply effects, let the warp of the step and those that waited go on, and wake stalled ones."""
        freed = self.apply_effects(self.now)
        yield from self.go_on(stepped)
        while self.waiting and self.waiting[0][0][0] <= self.now:
            yield from self.advance(heappop(self.waiting)[1])
        if freed:
            self.ready.extend(self.stalled)
            self.stalled.clear()

    def apply_effects(self, until: float) -> bool:
        """(a) Apply the effects due by `until`, in (time, issue) order; return whether an MSHR was freed."""
        freed = False
        while self.effects and self.effects[0][0][0] <= until:
            moment, line = heappop(self.effects)
            self.stacks.touch(line)
            self.note(Effect(moment[0], line))
            if line in self.mshrs and self.mshrs[line].last == moment:
                del self.mshrs[line]
                freed = True
        return freed

    def go_on(self, warp: _Warp | None) -> Generator[int, Block | None, None]:
        """(b) Let the warp of the step go on, wait for its data, or wait for an MSHR."""
        if warp is None:
            return
        if not warp.complete:
            (self.stalled if self.options.divergence else self.ready).append(warp)
        elif self.options.divergence and warp.arrival[0] > self.now:
            heappush(self.waiting, (warp.arrival, warp))
        else:
            yield from self.advance(warp)

    def advance(self, warp: _Warp) -> Generator[int, Block | None, None]:
        """Send a warp to its next instruction, at the back of the ready queue, or end it."""
        warp.at += 1
        warp.done = 0
        warp.arrival = NOTHING_ISSUED
        self.pass_stores(warp)
        if warp.at < len(warp.program):
            self.ready.append(warp)
        else:
            self.slots.leave(warp.block)
            yield from self.slots.fill(self.now, self.start)
