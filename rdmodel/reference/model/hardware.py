"""Restate the `hardware` definition in plain Python: time, warps and the issue port (docs/model.md section 11).

The cache is in `rdmodel.reference.model.l1`. The numbers in parentheses are the phases of a step, as in that section.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate

from rdmodel.gpu.config import CacheConfig
from rdmodel.model.options import Options
from rdmodel.reference.model.blocks import SM, Block, Instruction, LineRequest, ResidentBlock, Slots
from rdmodel.reference.model.l1 import L1
from rdmodel.reference.model.record import L2Request, Log, Moment
from rdmodel.reference.needs import needs_load
from rdmodel.trace import Op

NO_STORES = range(0)
"""Value of `skipped` in a warp that has passed no stores."""


@dataclass(slots=True, eq=False)
class _HardwareWarp:
    """A warp of the reference `hardware` model.

    Instruction `position` of `program` is next. Before it, the warp passes the stores at `skipped` and issues `gap`
    non-memory instructions. `issued` transactions of the instruction have been issued. `arrivals` maps each issued load
    to the moment at which its data arrives. `numbers` has the number of memory instructions before each instruction.
    """

    number: int
    block: ResidentBlock
    index: int
    block_warps: int
    program: list[Instruction]
    position: int = 0
    issued: int = 0
    gap: int = 0
    skipped: range = NO_STORES
    arrivals: dict[int, Moment] = field(default_factory=dict)
    numbers: list[int] = field(init=False)

    def __post_init__(self) -> None:
        memory = (instruction.op != Op.BARRIER for instruction in self.program)
        self.numbers = list(accumulate(memory, initial=0))

    @property
    def age(self) -> tuple[int, int]:
        """Sort key of a warp's age: the block that started first, then the lower warp of a block."""
        return self.block.number, self.index

    @property
    def place(self) -> int:
        """Warp slot on the SM: block slots in order, and the warps of a block in order."""
        return self.block.slot * self.block_warps + self.index

    @property
    def finished(self) -> bool:
        """Whether the warp has no instruction left to issue."""
        return self.position == len(self.program)

    @property
    def at_barrier(self) -> bool:
        """Whether the warp's next instruction is a barrier."""
        return not self.finished and self.program[self.position].op == Op.BARRIER


def hardware(
    cache: CacheConfig,
    options: Options,
    slots: int,
    latencies: Iterator[int],
    choices: Iterator[float],
    log: Log | None = None,
    requests: list[L2Request] | None = None,
) -> SM:
    """Model one SM with `slots` resident blocks by the definition `hardware`.

    `latencies` yields the latency of each miss beyond `lat_min`, in order of issue, in steps. `choices` yields the
    uniform draws of ``sched="random"``. If given, `log` receives every try and every fill, and `requests` every request
    that leaves the SM. Raises `ConfigError` if the latencies of `options` are None.
    """
    sm = _Hardware(cache, options, slots, latencies, choices, log)
    if requests is not None:
        sm.l1.requests = requests
    return (yield from sm.run())


class _Hardware:
    """State of one SM during a run of the reference `hardware` model."""

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
        self.tags_per_step = cache.tags_per_step
        self.choices = choices
        self.l1 = L1(cache, options, latencies, log)
        self.slots = Slots(slots, options)
        self.now = 0
        self.warps = 0
        self.ready: list[_HardwareWarp] = []
        self.parked: list[_HardwareWarp] = []
        self.standing: dict[ResidentBlock, list[_HardwareWarp]] = {}
        self.waiting: list[tuple[Moment, tuple[int, int], _HardwareWarp]] = []
        self.port: _HardwareWarp | None = None
        self.blocked = False  # stall="head": stalled, and no line was filled since
        self.last_chosen: list[_HardwareWarp | None] = [None] * options.schedulers
        self.first_scheduler = 0  # the scheduler that acts first in the next step

    def run(self) -> SM:
        """Run the steps until no warp is left, and return the counts."""
        while True:
            if self.l1.fill(self.now):
                self.resume()
            self.wake()
            yield from self.slots.fill(self.now, self.start)
            if self.issue():
                self.now += 1
            elif self.waiting or self.parked or self.port:
                self.now = min(queue[0][0].time for queue in (self.l1.fills, self.waiting) if queue)
            else:
                break
        self.l1.counts.steps = self.now
        return self.l1.ledger.total()

    # Phases (1) to (3): data arrives, warps wake, blocks start.

    def resume(self) -> None:
        """(1) After a fill, make parked warps ready in the order in which they stalled, and let the port try again."""
        self.ready.extend(self.parked)
        self.parked.clear()
        self.blocked = False

    def wake(self) -> None:
        """(2) Make the warps ready whose needs have arrived; end those that have finished."""
        while self.waiting and self.waiting[0][0].time <= self.now:
            warp = heappop(self.waiting)[-1]
            self.pass_stores(warp)
            if warp.finished:
                self.slots.end_warp(warp.block)
                self.open_barrier(warp.block)
            else:
                self.admit(warp)

    def admit(self, warp: _HardwareWarp) -> None:
        """Make a warp ready, or let it stand at its barrier, after which the warps of its block may go on."""
        if not warp.at_barrier or warp.gap:
            self.ready.append(warp)
            return
        self.standing.setdefault(warp.block, []).append(warp)
        self.open_barrier(warp.block)

    def open_barrier(self, block: ResidentBlock) -> None:
        """Let the warps of a block go on in the next step if all that have not ended stand at a barrier."""
        standing = self.standing.get(block, [])
        if not standing or len(standing) < block.live_warps:
            return
        del self.standing[block]
        opened = Moment(self.now + 1, self.l1.take_order())
        for warp in standing:
            self.wait(warp, max(opened, self.look_ahead(warp, warp.position + 1)))

    def start(self, block: Block, resident: ResidentBlock) -> int:
        """(3) Start a block, delayed by `stagger` in the initial fill; return the number of its warps with work."""
        delay = self.options.stagger * resident.number if self.now == 0 else 0
        warps = [_HardwareWarp(self.warps + i, resident, i, len(block), program) for i, program in enumerate(block)]
        self.warps += len(warps)
        for warp in warps:
            self.look_ahead(warp, 0)
        resident.live_warps = sum(not warp.finished for warp in warps)
        for warp in warps:
            if delay and not warp.finished:
                self.wait(warp, Moment(delay, -1))
                continue
            self.pass_stores(warp)
            if not warp.finished:
                self.admit(warp)
        return resident.live_warps

    def pass_stores(self, warp: _HardwareWarp) -> None:
        """Apply the stores before the warp's next instruction."""
        for at in warp.skipped:
            self.send_writes(warp.program[at])
            if self.options.stores == "evict":
                self.l1.evict(warp.program[at].lines)
        warp.skipped = NO_STORES

    def send_writes(self, store: Instruction) -> None:
        """Send one write per transaction of a store to the L2."""
        atomic = store.op == Op.ATOMIC
        self.l1.requests.extend(
            L2Request(self.now, each.line, write=True, sectors=each.sectors, full=each.full, atomic=atomic)
            for each in store.transactions
        )

    # Phase (4): one warp takes the port.

    def schedule(self) -> bool:
        """(4) Let every scheduler issue once, from behind the last one to take the port; return whether any did."""
        issued = False
        for number in [*range(self.first_scheduler, len(self.last_chosen)), *range(self.first_scheduler)]:
            candidates = [warp for warp in self.ready if warp.place % len(self.last_chosen) == number]
            if not candidates:
                continue
            chosen = self.choose_warp(candidates, self.last_chosen[number])
            if chosen.gap:
                chosen.gap -= 1
                self.wait(chosen, Moment(self.now, self.l1.take_order()))
            elif self.port is None:
                self.port = chosen
                self.first_scheduler = (number + 1) % len(self.last_chosen)
            else:
                continue
            self.ready.remove(chosen)
            self.last_chosen[number] = chosen
            issued = True
        return issued

    def choose_warp(self, ready: list[_HardwareWarp], last: _HardwareWarp | None) -> _HardwareWarp:
        """Choose one of a scheduler's ready warps by its policy; `last` is the warp that it chose before."""
        policy = self.options.sched if self.options.divergence else "fifo"
        if policy == "random":
            return ready[int(next(self.choices) * len(ready))]
        if policy == "lrr":
            place = -1 if last is None else last.place
            return min(ready, key=lambda warp: (warp.place <= place, warp.place))
        if policy in ("gto", "gty") and last in ready:
            return last
        if policy in ("gto", "oldest"):
            return min(ready, key=lambda warp: warp.age)
        if policy == "gty":
            return max(ready, key=lambda warp: warp.age)
        return ready[0]

    # Phases (5) and (6): the transactions act, and the warp waits for its next needs.

    def issue(self) -> bool:
        """Issue what one step allows; return False if nothing can be issued."""
        issued = self.port is None and self.schedule()
        warp = self.port
        if warp is None or self.blocked:
            return issued
        if not self.issue_transactions(warp):
            self.stall_warp(warp)
        elif warp.issued == len(self.transactions_of(warp)):
            if self.options.stores == "step" and not self.is_load(warp.program[warp.position]):
                self.send_writes(warp.program[warp.position])
            self.count_request(warp)
            warp.issued = 0
            self.wait(warp, self.look_ahead(warp, warp.position + 1))
            self.port = None
        return True

    def issue_transactions(self, warp: _HardwareWarp) -> bool:
        """(5) Issue the next transactions of the instruction at the port; return False if one stalls.

        With ``step="instruction"`` issue all transactions that are left, up to the first one that stalls, otherwise as
        many as the tag stage looks up in a step.
        """
        left = self.transactions_of(warp)[warp.issued :]
        for transaction in left if self.options.step == "instruction" else left[: self.tags_per_step]:
            self.l1.ledger.turn_to(warp.program[warp.position].pc, transaction.line)
            if not self.is_load(warp.program[warp.position]):
                atomic = warp.program[warp.position].op == Op.ATOMIC
                self.l1.store(self.now, transaction, atomic=atomic)
                warp.issued += 1
                continue
            if warp.program[warp.position].bypass:
                arrival: Moment | None = self.l1.bypass(self.now, transaction)
            else:
                arrival = self.l1.access(self.now, warp.number, transaction)
            if arrival is None:
                return False
            warp.arrivals[warp.position] = max(warp.arrivals.get(warp.position, arrival), arrival)
            warp.issued += 1
        return True

    def transactions_of(self, warp: _HardwareWarp) -> list[LineRequest]:
        """Return the transactions of the warp's next instruction; a store that only takes a step has none."""
        instruction = warp.program[warp.position]
        return instruction.transactions if self.options.stores != "step" or self.is_load(instruction) else []

    def count_request(self, warp: _HardwareWarp) -> None:
        """Count the instruction that the warp has issued, if it had transactions."""
        instruction = warp.program[warp.position]
        if not warp.issued:
            return
        if not self.is_load(instruction):
            self.l1.counts.store_requests += 1
        elif instruction.bypass:
            self.l1.counts.bypassed_requests += 1
        else:
            self.l1.counts.requests += 1

    def stall_warp(self, warp: _HardwareWarp) -> None:
        """Set the stalled warp aside until the next fill (``stall="park"``), or stop the SM (``stall="head"``)."""
        if self.options.stall == "head":
            self.blocked = True
        else:
            self.parked.append(warp)
            self.port = None

    def look_ahead(self, warp: _HardwareWarp, at: int) -> Moment:
        """(6) Advance to the next instruction from `at` on that takes the port or holds the warp, a barrier.

        Returns when its needs arrive.
        """
        program = warp.program
        warp.position = at
        while not warp.finished and not self.takes_port(program[warp.position]):
            if warp.at_barrier and self.options.divergence:
                break
            warp.position += 1
        warp.skipped = range(at, warp.position)
        ahead = range(at, min(warp.position + 1, len(program)))
        warp.gap = sum(program[i].gap for i in ahead) if self.options.gap and not warp.finished else 0
        if warp.finished:
            needed = set(warp.arrivals)
        elif self.options.divergence:
            needed = {load for i in ahead for load in needed_loads(warp, i)}
        else:
            needed = set()
        return max((warp.arrivals[load] for load in needed), default=Moment(self.now, self.l1.order - 1))

    def is_load(self, instruction: Instruction) -> bool:
        """Return whether the model treats an instruction as a load."""
        return instruction.op == Op.LOAD or self.options.stores == "allocate"

    def takes_port(self, instruction: Instruction) -> bool:
        """Return whether an instruction takes the port: of stores, those that take a step or look up lines."""
        if instruction.op == Op.BARRIER:
            return False
        looks_up = self.options.stores in ("update", "through") and bool(instruction.lines)
        return self.is_load(instruction) or looks_up or self.options.stores == "step"

    def wait(self, warp: _HardwareWarp, until: Moment) -> None:
        """Let a warp wait until a moment; of equal moments, the older warp wakes first."""
        heappush(self.waiting, (until, warp.age, warp))


def needed_loads(warp: _HardwareWarp, at: int) -> list[int]:
    """Return the issued loads that instruction `at` needs, whose distance is counted in memory instructions."""
    needs, numbers = warp.program[at].needs, warp.numbers
    return [load for load in warp.arrivals if needs_load(needs, numbers[at] - numbers[load])]
