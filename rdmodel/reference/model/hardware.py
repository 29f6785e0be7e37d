"""The `hardware` definition: time, warps and the port they share; the cache is in `l1` (docs/model.md section 11)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from rdmodel.gpu.config import CacheConfig
from rdmodel.model.options import Options
from rdmodel.reference.model.blocks import SM, Block, Instruction, Resident, Slots
from rdmodel.reference.model.l1 import L1, Moment
from rdmodel.reference.model.record import Log, Request
from rdmodel.trace import Op

NEEDS_BITS = 64
NO_STORES = range(0)


@dataclass(slots=True, eq=False)
class _Warp:
    """A warp: instruction `at` of `program` is next, after the `skipped` stores before it and `gap` steps.

    `done` of its transactions are issued. `arrivals` has the moment at which the data of each issued load is
    there.
    """

    number: int
    block: Resident
    index: int
    of: int
    program: list[Instruction]
    at: int = 0
    done: int = 0
    gap: int = 0
    skipped: range = NO_STORES
    arrivals: dict[int, Moment] = field(default_factory=dict)

    @property
    def age(self) -> tuple[int, int]:
        """Smaller for a block that started earlier, then for a lower warp of the block."""
        return self.block.number, self.index

    @property
    def place(self) -> int:
        """The warp's slot on the SM: slots of blocks in order, and in each the block's warps."""
        return self.block.slot * self.of + self.index

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to issue."""
        return self.at == len(self.program)


def hardware(
    cache: CacheConfig,
    options: Options,
    slots: int,
    latencies: Iterator[int],
    choices: Iterator[float],
    log: Log | None = None,
    requests: list[Request] | None = None,
) -> SM:
    """Model one SM with `slots` resident blocks by the definition `hardware`.

    `latencies` gives what a miss takes beyond `lat_min`, in issue order; `choices` the uniform draws of
    ``sched="random"``. `log` is filled with every try and fill, `requests` with what leaves the SM. Raises
    `ConfigError` if the latencies of `options` are None.
    """
    sm = _Hardware(cache, options, slots, latencies, choices, log)
    if requests is not None:
        sm.l1.requests = requests
    return (yield from sm.run())


class _Hardware:
    def __init__(
        self,
        cache: CacheConfig,
        options: Options,
        slots: int,
        latencies: Iterator[int],
        choices: Iterator[float],
        log: Log | None,
    ) -> None:
        self.options = options
        self.choices = choices
        self.l1 = L1(cache, options, latencies, log)
        self.slots = Slots(slots, options)
        self.now = 0
        self.warps = 0
        self.ready: list[_Warp] = []
        self.parked: list[_Warp] = []
        self.waiting: list[tuple[Moment, tuple[int, int], _Warp]] = []
        self.port: _Warp | None = None
        self.blocked = False  # stall="head": the port's instruction stalled, and nothing was filled since
        self.last: list[_Warp | None] = [None] * options.schedulers
        self.turn = 0  # the scheduler that acts first in the next step

    def run(self) -> SM:
        while True:
            if self.l1.fill(self.now):
                self.resume()
            self.wake()
            yield from self.slots.fill(self.now, self.start)
            if self.issue():
                self.now += 1
            elif self.waiting or self.parked or self.port:
                self.now = min(queue[0][0][0] for queue in (self.l1.fills, self.waiting) if queue)
            else:
                break
        self.l1.counts.steps = self.now
        return self.l1.counts

    # (1) to (3): data arrives, warps wake, blocks start.

    def resume(self) -> None:
        """(1) Let parked warps join the ready list, as they stalled, or the stalled port try again."""
        self.ready.extend(self.parked)
        self.parked.clear()
        self.blocked = False

    def wake(self) -> None:
        """(2) Let the warps whose needs have arrived join the ready list or end."""
        while self.waiting and self.waiting[0][0][0] <= self.now:
            warp = heappop(self.waiting)[-1]
            self.pass_stores(warp)
            if warp.finished:
                self.slots.leave(warp.block)
            else:
                self.ready.append(warp)

    def start(self, block: Block, resident: Resident) -> int:
        """(3) Start a block, at once or in its turn of the initial fill; return how many warps have work."""
        alive = 0
        delay = self.options.stagger * resident.number if self.now == 0 else 0
        for index, program in enumerate(block):
            warp = _Warp(self.warps, resident, index, len(block), program)
            self.warps += 1
            self.look_ahead(warp, 0)
            alive += not warp.finished
            if delay and not warp.finished:
                self.wait(warp, (delay, -1))
                continue
            self.pass_stores(warp)
            if not warp.finished:
                self.ready.append(warp)
        return alive

    def pass_stores(self, warp: _Warp) -> None:
        """Let the stores before the warp's next instruction take their place."""
        for at in warp.skipped:
            self.write(warp.program[at])
            if self.options.stores == "evict":
                self.l1.evict(warp.program[at].lines)
        warp.skipped = NO_STORES

    def write(self, store: Instruction) -> None:
        """Let the lines of a store leave the SM."""
        self.l1.requests.extend(Request(self.now, line, write=True) for line in store.lines)

    # (4): one warp takes the port.

    def give_port(self) -> bool:
        """(4) Let each scheduler issue, from behind that which had the port last; return False if none can."""
        issued = False
        for number in [*range(self.turn, len(self.last)), *range(self.turn)]:
            own = [warp for warp in self.ready if warp.place % len(self.last) == number]
            if not own:
                continue
            chosen = self.choose(own, self.last[number])
            if chosen.gap:
                chosen.gap -= 1
                self.wait(chosen, (self.now, self.l1.take_order()))
            elif self.port is None:
                self.port = chosen
                self.turn = (number + 1) % len(self.last)
            else:
                continue
            self.ready.remove(chosen)
            self.last[number] = chosen
            issued = True
        return issued

    def choose(self, ready: list[_Warp], last: _Warp | None) -> _Warp:
        """Choose one of a scheduler's ready warps by the scheduling policy; `last` is what it chose before."""
        policy = self.options.sched if self.options.divergence else "fifo"
        if policy == "random":
            return ready[int(next(self.choices) * len(ready))]
        if policy == "lrr":
            place = -1 if last is None else last.place
            return min(ready, key=lambda warp: (warp.place <= place, warp.place))
        if policy == "gto" and last in ready:
            return last
        if policy in ("gto", "oldest"):
            return min(ready, key=lambda warp: warp.age)
        return ready[0]

    # (5) and (6): its transactions act, and it waits for its next needs.

    def issue(self) -> bool:
        """Do what one step issues; return False if there is nothing."""
        issued = self.port is None and self.give_port()
        warp = self.port
        if warp is None or self.blocked:
            return issued
        if not self.transact(warp):
            self.stall(warp)
        elif warp.done == len(self.lines_of(warp)):
            if not self.is_load(warp.program[warp.at]):
                self.write(warp.program[warp.at])
            warp.done = 0
            self.wait(warp, self.look_ahead(warp, warp.at + 1))
            self.port = None
        return True

    def transact(self, warp: _Warp) -> bool:
        """(5) Issue the next transaction of the port's instruction, or all the rest; False if one stalls."""
        lines = self.lines_of(warp)[warp.done :]
        for line in lines if self.options.step == "instruction" else lines[:1]:
            arrival = self.l1.access(self.now, warp.number, line)
            if arrival is None:
                return False
            warp.arrivals[warp.at] = max(warp.arrivals.get(warp.at, arrival), arrival)
            warp.done += 1
        return True

    def lines_of(self, warp: _Warp) -> tuple[int, ...]:
        """Return the transactions of the next instruction; a store that takes a step has none."""
        instruction = warp.program[warp.at]
        return instruction.lines if self.is_load(instruction) else ()

    def stall(self, warp: _Warp) -> None:
        """Set the warp aside until the next fill, or the whole SM."""
        if self.options.stall == "head":
            self.blocked = True
        else:
            self.parked.append(warp)
            self.port = None

    def look_ahead(self, warp: _Warp, at: int) -> Moment:
        """(6) Go to the first instruction from `at` on that takes the port; return when it may join."""
        program = warp.program
        warp.at = at
        while not warp.finished and not self.takes_port(program[warp.at]):
            warp.at += 1
        warp.skipped = range(at, warp.at)
        ahead = range(at, min(warp.at + 1, len(program)))
        warp.gap = sum(program[i].gap for i in ahead) if self.options.gap and not warp.finished else 0
        if warp.finished:
            needed = set(warp.arrivals)
        elif self.options.divergence:
            needed = {load for i in ahead for load in needed_loads(warp, i)}
        else:
            needed = set()
        return max((warp.arrivals[load] for load in needed), default=(self.now, self.l1.order - 1))

    def is_load(self, instruction: Instruction) -> bool:
        return instruction.op == Op.LOAD or self.options.stores == "allocate"

    def takes_port(self, instruction: Instruction) -> bool:
        return self.is_load(instruction) or self.options.stores == "step"

    def wait(self, warp: _Warp, until: Moment) -> None:
        heappush(self.waiting, (until, warp.age, warp))


def needed_loads(warp: _Warp, at: int) -> list[int]:
    """Return the issued loads that instruction `at` needs: bit i is the (i+1)-th before it."""
    needs = warp.program[at].needs
    return [load for load in warp.arrivals if at - load > NEEDS_BITS or needs >> (at - load - 1) & 1]
