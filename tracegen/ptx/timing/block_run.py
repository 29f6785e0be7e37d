"""Let the warps of blocks that are resident on an SM, or on those of a cluster, pass their pieces of code in time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.isa._code import CLUSTER_RANK_BITS, MBARRIERS
from tracegen.ptx.lowering.memory_and_shuffles import CLUSTER_BARRIER
from tracegen.ptx.lowering.program import Step
from tracegen.ptx.timing.asynchronous_pieces import (
    COMMIT_COPIES,
    COMMIT_PRODUCTS,
    COMMIT_STORES,
    COPY,
    TESTS,
    WAIT_COPIES,
    WAIT_PRODUCTS,
    WAIT_STORES,
    Action,
    AsynchronousPiece,
    TimedPiece,
    product_cycles,
)
from tracegen.ptx.timing.links import Product, depth_of

LINE = 128
"""Bytes of a line: the lines of a bulk copy come from DRAM independently of each other."""

WARP_THREADS = 32

_INIT, _DROP = MBARRIERS["MBAR_INIT"], MBARRIERS["MBAR_DROP"]

Event = tuple[int, int, int, int]
"""Step, place, amount and bytes of a row of `Events`."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A passage of a warp through a piece, by number, with what it does at barriers."""

    piece: int
    events: list[Event]


class Mbarrier:
    """An mbarrier: the arrivals and bytes that it still expects, and when each of its phases was over (`ends`)."""

    def __init__(self, count: int) -> None:
        self.count = self._pending = count
        self._bytes = 0
        self._latest = 0.0
        self.ends: list[float] = []

    def arrive(self, amount: int, expected: int, time: float) -> bool:
        """Expect bytes (a negative number completes them), then arrive; return whether the phase is over."""
        self._bytes += expected
        self._pending -= amount
        self._latest = max(self._latest, time)
        if self._pending or self._bytes:
            return False
        self.ends.append(self._latest)
        self._pending, self._latest = self.count, 0.0
        return True


class Groups:
    """Asynchronous operations of a warp: those of no group yet (`open`), and when each group of others is complete."""

    def __init__(self) -> None:
        self.open = 0.0
        self._ends: list[float] = []

    def add(self, time: float) -> None:
        """Add an operation that is complete at a time."""
        self.open = max(self.open, time)

    def commit(self) -> None:
        """Make a group of the open operations, which is waited for with all groups before it."""
        self._ends.append(max(self.open, self.wait(0)))
        self.open = 0.0

    def wait(self, left: int) -> float:
        """Return when all groups but the last `left` are complete."""
        return self._ends[-1 - left] if left < len(self._ends) else 0.0

    @property
    def complete(self) -> float:
        """When all operations are complete."""
        return max(self.open, self.wait(0))


class Core:
    """An SM: when the units of each of its sub-cores are free, and the port from and to the L2."""

    def __init__(self, sub_cores: int) -> None:
        self.free: list[dict[str, float]] = [{} for _ in range(sub_cores)]
        self.port_in = self.port_out = 0.0


class Cluster:
    """Blocks that share mbarriers, and a barrier: one block alone, or those of a cluster."""

    def __init__(self) -> None:
        self.mbarriers: dict[int, Mbarrier] = {}
        self.waiting: dict[tuple[int, int], list[TimedWarp]] = {}  # by mbarrier and phase
        self.running: list[TimedWarp] = []
        self.arrived: dict[int, float] = {}  # warps that have arrived at the barrier of the cluster, with their times
        self.meetings: list[float] = []  # when all had arrived there
        self.at_meeting: list[TimedWarp] = []


class RunningBlock:
    """A block: its SM, its cluster, the number of its warps that run, and who is at its barriers."""

    def __init__(self, core: Core, pair: Core, cluster: Cluster) -> None:
        self.core, self.pair, self.cluster = core, pair, cluster
        self.running = 0
        self.at_barrier: dict[int, list[tuple[TimedWarp | None, int]]] = {}  # and the threads that each expects


class TimedWarp:
    """A warp: its visits that are still to come, its `time`, and what it has under way."""

    def __init__(self, number: int, block: RunningBlock, sub_core: dict[str, float], visits: Sequence[Visit]) -> None:
        self.number, self.block, self.sub_core = number, block, sub_core
        self.visits = iter(visits)
        self.time = 0.0
        self.products, self.copies, self.stores = Groups(), Groups(), Groups()
        self.tensor_products = 0.0  # when the last product in tensor memory is complete
        self.phases: dict[int, int] = {}  # of each mbarrier that it has waited for
        self.meetings = 0  # at the barrier of the cluster, at which it has arrived

    def act(self, action: Action) -> None:
        """Make a group of operations, or wait for groups."""
        groups = {
            **dict.fromkeys((COMMIT_PRODUCTS, WAIT_PRODUCTS), self.products),
            **dict.fromkeys((COMMIT_COPIES, WAIT_COPIES), self.copies),
            **dict.fromkeys((COMMIT_STORES, WAIT_STORES), self.stores),
        }[action.kind]
        if action.kind in (COMMIT_PRODUCTS, COMMIT_COPIES, COMMIT_STORES):
            groups.commit()
        else:
            self.time = max(self.time, groups.wait(action.left))


class BlockRun:
    """The warps of blocks on their way through the pieces; `end` is the time of the last one.

    `visits` are those of the warps of a block of `block_warps` warps, or of the blocks of a cluster, one after the
    other, each of which is on an SM of its own. As many as `resident` such blocks or clusters do the same on these SMs.
    Of the latencies, those of bulk copies are used, too (`rdmodel.timing.latency.bulk_copies`).
    """

    def __init__(
        self,
        steps: Sequence[Step],
        pieces: Sequence[AsynchronousPiece],
        timed: Sequence[TimedPiece],
        latencies: Mapping[str, float],
        visits: Mapping[int, Sequence[Visit]],
        block_warps: int,
        resident: int = 1,
    ) -> None:
        self._steps, self._pieces, self._timed, self._latencies = steps, pieces, timed, latencies
        ranks = max(visits, default=0) // block_warps + 1
        cores = [Core(int(latencies["sub_cores"])) for _ in range(ranks)]
        self._cores = cores
        self._ready: list[tuple[float, int, TimedWarp]] = []  # by time, and in the order in which they became ready
        self._turn = 0
        self.end = 0.0
        for _ in range(resident):
            cluster = Cluster()
            blocks = [RunningBlock(core, cores[min(rank ^ 1, ranks - 1)], cluster) for rank, core in enumerate(cores)]
            for number in sorted(visits):
                block = blocks[number // block_warps]
                free = block.core.free
                warp = TimedWarp(number, block, free[number % block_warps % len(free)], visits[number])
                cluster.running.append(warp)
                block.running += 1
                self._release([warp], 0.0)

    def finish(self) -> int:
        """Let all warps pass their visits, as far as they come; return the number of visits."""
        passed = 0
        while self._ready:
            time, _, warp = heappop(self._ready)
            warp.time = max(warp.time, time)
            visit = next(warp.visits, None)
            if visit is None:
                self._leave(warp)
                continue
            passed += 1
            if not self._pass(warp, visit):
                self._release([warp], warp.time)
            self.end = max(self.end, warp.time)
        return passed

    def _release(self, warps: Sequence[TimedWarp], time: float) -> None:
        """Let warps go on at a time; of several, in their order."""
        for warp in warps:
            heappush(self._ready, (time, self._turn, warp))
            self._turn += 1

    def _leave(self, warp: TimedWarp) -> None:
        """Let a warp end, for which others then do not wait any more."""
        warp.block.running -= 1
        warp.block.cluster.running.remove(warp)
        self._open_barriers(warp.block)
        self._meet(warp.block.cluster)

    def _pass(self, warp: TimedWarp, visit: Visit) -> bool:
        """Let a warp pass a piece; return whether it then waits for other warps."""
        timed, own, begin, free = self._timed[visit.piece], self._pieces[visit.piece], warp.time, warp.sub_core
        end = begin + timed.cycles
        for unit, cycles in timed.busy.items():
            free[unit] = max(begin, free.get(unit, 0.0)) + cycles
            end = max(end, free[unit])
        warp.time = end
        waits = False
        for at, action, event in _in_order(own.actions, visit.events):
            time = min(end, begin + timed.starts.get(at, timed.cycles))
            if event is not None:
                waits |= self._note(warp, own, event, time)
            elif action is not None:
                self._act(warp, action, time)
        return waits

    def _act(self, warp: TimedWarp, action: Action, time: float) -> None:
        if action.product is not None:
            warp.products.add(self._multiply([warp.sub_core], action.product, time))
        elif action.kind == COPY:
            latency = self._latencies.get(f"load_global:{action.pc}", self._latencies["load_global"])
            warp.copies.add(time + latency)
        else:
            warp.act(action)

    def _multiply(self, sub_cores: Sequence[dict[str, float]], product: Product, time: float) -> float:
        """Occupy the tensor cores of sub-cores; return when the result is there."""
        start = max(time, *(free.get("matrix", 0.0) for free in sub_cores))
        end = start + product_cycles(product, self._latencies) / len(sub_cores)
        for free in sub_cores:
            free["matrix"] = end
        return end + depth_of(product, self._latencies)

    def _note(self, warp: TimedWarp, own: AsynchronousPiece, event: Event, time: float) -> bool:
        """Do what a warp does at a barrier, or asynchronously; return whether it waits for other warps."""
        at, place, amount, size = event
        step, block = self._steps[at], warp.block
        if at in own.products:
            both = block.pair.free if "cta_group::2" in step.origin.modifiers and block.pair is not block.core else []
            done = self._multiply([*block.core.free, *both], own.products[at], time)
            warp.tensor_products = max(warp.tensor_products, done)
        elif step.op == "BAR":
            return (
                self._meet_at(warp, step) if step.count == CLUSTER_BARRIER else self._reach(warp, step, place, amount)
            )
        elif step.op == "COPY_BULK" and size > 0:
            # The bytes that a copy stores are read from shared memory as fast as the port of the SM takes them.
            block.core.port_out = max(time, block.core.port_out) + size * self._latencies["bulk_byte"]
            warp.stores.add(block.core.port_out)
        elif step.op == "COPY_BULK":
            target = self._cores[place >> CLUSTER_RANK_BITS]
            target.port_in = max(time, target.port_in) - size * self._latencies["bulk_byte"]
            self._arrive(block.cluster, place, 0, size, target.port_in + self._latency_of_copy(-size))
        elif step.mode in TESTS:
            return self._test(warp, place, amount)
        elif step.mode == _INIT:
            block.cluster.mbarriers[place] = Mbarrier(amount)
            for each in block.cluster.running:
                each.phases.pop(place, None)
        else:
            # Copies and products arrive when they are complete.
            under_way = {"tcgen05": warp.tensor_products, "cp": warp.copies.complete}
            self._arrive(block.cluster, place, amount, size, max(time, under_way.get(step.origin.opcode, 0.0)))
            if step.mode == _DROP:
                block.cluster.mbarriers[place].count -= amount
        return False

    def _latency_of_copy(self, size: int) -> float:
        """Return the cycles of a bulk copy of so many bytes: it waits for the slowest of its lines."""
        latencies, lines = self._latencies, max(1, size // LINE)
        cycles = latencies["bulk"]
        for longer in ("bulk_far", "bulk_dram"):
            cycles += latencies[longer] * (1.0 - (1.0 - latencies[f"{longer}_share"]) ** lines)
        return cycles

    # ---- barriers

    def _arrive(self, cluster: Cluster, place: int, amount: int, size: int, time: float) -> None:
        mbarrier = cluster.mbarriers.setdefault(place, Mbarrier(amount))
        if mbarrier.arrive(amount, size, time):
            self._release(cluster.waiting.pop((place, len(mbarrier.ends)), []), mbarrier.ends[-1])

    def _test(self, warp: TimedWarp, place: int, parity: int) -> bool:
        """Wait for the phase of a parity; return whether its end is not known yet."""
        cluster = warp.block.cluster
        ends = cluster.mbarriers.setdefault(place, Mbarrier(0)).ends
        phase = warp.phases.get(place, 0)
        phase += (phase + 1) % 2 != parity  # of two phases that follow each other, one has the parity
        warp.phases[place] = phase
        if phase <= len(ends):
            warp.time = max(warp.time, ends[phase - 1] if phase else 0.0)
            return False
        cluster.waiting.setdefault((place, phase), []).append(warp)
        return True

    def _reach(self, warp: TimedWarp, step: Step, number: int, expected: int) -> bool:
        """Arrive at a barrier of the block; return whether the warp waits there."""
        arrives = _arrives(step)
        warp.block.at_barrier.setdefault(number, []).append((None if arrives else warp, expected))
        self._open_barriers(warp.block)
        return not arrives

    def _open_barriers(self, block: RunningBlock) -> None:
        """Open the barriers of a block at which all threads are that they expect: a number, or all that still run."""
        for number, waiting in list(block.at_barrier.items()):
            expected = max(threads for _, threads in waiting) or WARP_THREADS * block.running
            if len(waiting) * WARP_THREADS >= expected:
                del block.at_barrier[number]
                warps = [warp for warp, _ in waiting if warp is not None]
                self._release(warps, max((warp.time for warp in warps), default=0.0))

    def _meet_at(self, warp: TimedWarp, step: Step) -> bool:
        """Arrive at the barrier of the cluster, or wait there for all warps; return whether the warp waits."""
        cluster = warp.block.cluster
        if _arrives(step):
            warp.meetings += 1
            cluster.arrived[warp.number] = warp.time
            self._meet(cluster)
            return False
        if warp.meetings <= len(cluster.meetings):
            warp.time = max(warp.time, cluster.meetings[warp.meetings - 1])
            return False
        cluster.at_meeting.append(warp)
        return True

    def _meet(self, cluster: Cluster) -> None:
        """Open the barrier of a cluster if all warps that still run have arrived."""
        if cluster.arrived and all(warp.number in cluster.arrived for warp in cluster.running):
            cluster.meetings.append(max(cluster.arrived.values()))
            self._release(cluster.at_meeting, cluster.meetings[-1])
            cluster.at_meeting, cluster.arrived = [], {}


def _arrives(step: Step) -> bool:
    """Return whether a step arrives at a barrier, and does not wait there."""
    return "arrive" in step.origin.modifiers


def _in_order(actions: Sequence[Action], events: Sequence[Event]) -> Iterator[tuple[int, Action | None, Event | None]]:
    """Yield actions and events of a piece in the order of their steps."""
    at = 0
    for event in events:
        while at < len(actions) and actions[at].step < event[0]:
            yield actions[at].step, actions[at], None
            at += 1
        yield event[0], None, event
    for action in actions[at:]:
        yield action.step, action, None
