"""Find the time of blocks whose warps wait for mbarriers, and for groups of asynchronous products and copies.

The emulator notes which pieces each warp enters, and its arrivals and waits at barriers (`Events`). Here the warps pass
these pieces again, in the order of their times. A piece takes the time of a warp that is alone, or longer if another
warp of its sub-core occupies a unit. Matrix products and copies go on while their warp does, and mbarriers open when
all arrivals and bytes that they expect are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.isa._code import CLUSTER_RANK_BITS, MBARRIERS
from tracegen.ptx.lowering.asynchronous_pieces import (
    COMMIT_COPIES,
    COMMIT_PRODUCTS,
    COMMIT_STORES,
    COPY,
    WAIT_COPIES,
    WAIT_PRODUCTS,
    WAIT_STORES,
    Action,
    AsynchronousPiece,
    TimedPiece,
    asynchronous_pieces,
    product_cycles,
    time_piece,
)
from tracegen.ptx.lowering.links import Product
from tracegen.ptx.lowering.memory_and_shuffles import CLUSTER_BARRIER
from tracegen.ptx.lowering.program import LoweredKernel, Step

ENTRY = -1
"""Place of an event that is the entry of a warp into a piece."""

LINE = 128
"""Bytes of a line: the lines of a bulk copy come from DRAM independently of each other."""

WARP_THREADS = 32

ARRIVED = -1
"""In place of a warp that does not wait at the barrier at which it has arrived."""

_TESTS = (MBARRIERS["MBAR_TEST"], MBARRIERS["MBAR_TEST_PARITY"])
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


class TimedWarp:
    """A warp: its visits that are still to come, its `time`, and what it has under way."""

    def __init__(self, number: int, visits: Sequence[Visit]) -> None:
        self.number = number
        self.visits = iter(visits)
        self.time = 0.0
        self.products, self.copies, self.stores = Groups(), Groups(), Groups()
        self.tensor_products = 0.0  # when the last product in tensor memory is complete
        self.phases: dict[int, int] = {}  # of each mbarrier that it has waited for

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


class BlockTimelines:
    """The times of blocks of a kernel, which are kept for the latencies that were given last.

    `live` are the registers that are live at each instruction, as in `straight_pieces`. A block has `warps` warps.
    """

    def __init__(self, kernel: LoweredKernel, live: Mapping[int, int], warps: int) -> None:
        self._steps, self._warps = kernel.steps, warps
        self._pieces = asynchronous_pieces(kernel, live)
        self._given: tuple[object, ...] = ()
        self._timed: list[TimedPiece] = []
        self._cycles: dict[bytes, float | None] = {}

    def cycles(
        self, events: NDArray[np.int64], entries: int, latencies: Mapping[str, float], registers: int
    ) -> float | None:
        """Return the cycles of a block, or of the blocks of a cluster, with these events.

        `latencies` and `registers` are those of `Piece.longest_chain`. Warps have entered pieces `entries` times. The
        events may have the first ones only: then the rest takes as long for each entry. The result is None if the warps
        wait for something that is not followed.
        """
        given = (registers, *latencies.items())
        if self._given != given:
            self._given, self._cycles = given, {}
            self._timed = [time_piece(own, latencies, registers) for own in self._pieces]
        key = events.tobytes()
        if key not in self._cycles:
            noted = int((events[:, 2] == ENTRY).sum())
            self._cycles[key] = self._time(visits_of(events, self._steps, self._pieces), latencies, entries / noted)
        return self._cycles[key]

    def _time(
        self, visits: Mapping[int, Sequence[Visit]], latencies: Mapping[str, float], share: float
    ) -> float | None:
        """Return the cycles of blocks of whose visits these are one part in `share`."""
        total = sum(map(len, visits.values()))
        run = ClusterRun(self._steps, self._pieces, self._timed, latencies, visits, self._warps)
        passed = run.finish()
        if not passed or (passed < total and share == 1):
            return None
        return run.end * share * total / passed


def visits_of(
    events: NDArray[np.int64], steps: Sequence[Step], pieces: Sequence[AsynchronousPiece]
) -> dict[int, list[Visit]]:
    """Return the visits of each warp; a warp that tests an mbarrier again enters its piece once."""
    by_step = {own.piece.counted: number for number, own in enumerate(pieces)}
    found: dict[int, list[Visit]] = {}
    for warp, step, place, amount, size in events.tolist():
        visits = found.setdefault(warp, [])
        if place != ENTRY:
            visits[-1].events.append((step, place, amount, size))
        elif not (visits and steps[step].op == "MBAR" and visits[-1] == Visit(by_step[step], [])):
            visits.append(Visit(by_step[step], []))
    return found


class Core:
    """An SM: when the units of each sub-core are free, and the port to and from the L2; and who waits at barriers."""

    def __init__(self, sub_cores: int) -> None:
        self.free: list[dict[str, float]] = [{} for _ in range(sub_cores)]
        self.port_in = self.port_out = 0.0
        self.running = 0
        self.at_barrier: dict[int, list[tuple[int, int]]] = {}  # warps and the threads that each expects, by number


class ClusterRun:
    """The warps of the blocks of a cluster on their way through the pieces; `end` is the time of the last one.

    Each block has an SM of its own, and `block_warps` warps. Of the latencies, those of bulk copies are used, too
    (`rdmodel.timing.latency.bulk_copies`).
    """

    def __init__(
        self,
        steps: Sequence[Step],
        pieces: Sequence[AsynchronousPiece],
        timed: Sequence[TimedPiece],
        latencies: Mapping[str, float],
        visits: Mapping[int, Sequence[Visit]],
        block_warps: int,
    ) -> None:
        self._steps, self._pieces, self._timed, self._latencies = steps, pieces, timed, latencies
        self._block_warps = block_warps
        self._cores = [Core(int(latencies["sub_cores"])) for _ in range(max(visits, default=0) // block_warps + 1)]
        self._warps = {number: TimedWarp(number, own) for number, own in visits.items()}
        for number in self._warps:
            self._core_of(number).running += 1
        self._ready = [(0.0, number) for number in sorted(self._warps)]
        self._mbarriers: dict[int, Mbarrier] = {}
        self._waiting: dict[tuple[int, int], list[int]] = {}  # warps, by mbarrier and phase
        self._arrived: dict[int, float] = {}  # warps that have arrived at the barrier of the cluster, with their times
        self._at_cluster: list[int] = []  # those that wait there
        self.end = 0.0

    def _core_of(self, warp: int) -> Core:
        return self._cores[warp // self._block_warps]

    def _sub_core_of(self, warp: int) -> dict[str, float]:
        free = self._core_of(warp).free
        return free[warp % self._block_warps % len(free)]

    def finish(self) -> int:
        """Let all warps pass their visits, as far as they come; return the number of visits."""
        passed = 0
        while self._ready or self._open_barriers():
            time, number = heappop(self._ready)
            warp = self._warps[number]
            warp.time = max(warp.time, time)
            visit = next(warp.visits, None)
            if visit is None:
                del self._warps[number]
                self._core_of(number).running -= 1
                continue
            passed += 1
            if not self._pass(warp, visit):
                heappush(self._ready, (warp.time, number))
            self.end = max(self.end, warp.time)
        return passed

    def _pass(self, warp: TimedWarp, visit: Visit) -> bool:
        """Let a warp pass a piece; return whether it then waits for other warps."""
        timed, own, begin = self._timed[visit.piece], self._pieces[visit.piece], warp.time
        free = self._sub_core_of(warp.number)
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
            warp.products.add(self._multiply([self._sub_core_of(warp.number)], action.product, time))
        elif action.kind == COPY:
            latency = self._latencies.get(f"load_global:{action.pc}", self._latencies["load_global"])
            warp.copies.add(time + latency)
        else:
            warp.act(action)

    def _multiply(self, cores: Sequence[dict[str, float]], product: Product, time: float) -> float:
        """Occupy the tensor cores of sub-cores; return when the result is there."""
        start = max(time, *(core.get("matrix", 0.0) for core in cores))
        end = start + product_cycles(product, self._latencies) / len(cores)
        for core in cores:
            core["matrix"] = end
        return end + self._latencies["matrix_depth"]

    def _note(self, warp: TimedWarp, own: AsynchronousPiece, event: Event, time: float) -> bool:
        """Do what a warp does at a barrier, or asynchronously; return whether it waits for other warps."""
        at, place, amount, size = event
        step, core = self._steps[at], self._core_of(warp.number)
        if at in own.products:
            done = self._multiply(self._cores_of_product(warp, step), own.products[at], time)
            warp.tensor_products = max(warp.tensor_products, done)
        elif step.op == "BAR" and step.count == CLUSTER_BARRIER:
            return self._reach_cluster(warp, step)
        elif step.op == "BAR":
            return self._reach(warp, step, place, amount)
        elif step.op == "COPY_BULK" and size > 0:
            # The bytes that a copy stores are read from shared memory as fast as the port of the SM takes them.
            core.port_out = max(time, core.port_out) + size * self._latencies["bulk_byte"]
            warp.stores.add(core.port_out)
        elif step.op == "COPY_BULK":
            target = self._cores[place >> CLUSTER_RANK_BITS]
            target.port_in = max(time, target.port_in) - size * self._latencies["bulk_byte"]
            self._arrive(place, 0, size, target.port_in + self._latency_of_copy(-size))
        elif step.mode in _TESTS:
            return self._test(warp, place, amount)
        elif step.mode == _INIT:
            self._mbarriers[place] = Mbarrier(amount)
            for each in self._warps.values():
                each.phases.pop(place, None)
        else:
            # Copies and products arrive when they are complete.
            under_way = {"tcgen05": warp.tensor_products, "cp": warp.copies.complete}
            self._arrive(place, amount, size, max(time, under_way.get(step.origin.opcode, 0.0)))
            if step.mode == _DROP:
                self._mbarriers[place].count -= amount
        return False

    def _cores_of_product(self, warp: TimedWarp, step: Step) -> list[dict[str, float]]:
        """Return the sub-cores that compute a product of ``tcgen05``: those of the SM, or of a pair of SMs."""
        rank = warp.number // self._block_warps
        ranks = {rank, rank ^ 1} if "cta_group::2" in step.origin.modifiers else {rank}
        return [free for each in sorted(ranks) if each < len(self._cores) for free in self._cores[each].free]

    def _latency_of_copy(self, size: int) -> float:
        """Return the cycles of a bulk copy of so many bytes: it waits for the slowest of its lines."""
        latencies, lines = self._latencies, max(1, size // LINE)
        cycles = latencies["bulk"]
        for longer in ("bulk_far", "bulk_dram"):
            cycles += latencies[longer] * (1.0 - (1.0 - latencies[f"{longer}_share"]) ** lines)
        return cycles

    def _arrive(self, place: int, amount: int, size: int, time: float) -> None:
        mbarrier = self._mbarriers.setdefault(place, Mbarrier(amount))
        if mbarrier.arrive(amount, size, time):
            for number in self._waiting.pop((place, len(mbarrier.ends)), ()):
                heappush(self._ready, (mbarrier.ends[-1], number))

    def _test(self, warp: TimedWarp, place: int, parity: int) -> bool:
        """Wait for the phase of a parity; return whether its end is not known yet."""
        ends = self._mbarriers.setdefault(place, Mbarrier(0)).ends
        phase = warp.phases.get(place, 0)
        phase += (phase + 1) % 2 != parity  # of two phases that follow each other, one has the parity
        warp.phases[place] = phase
        if phase <= len(ends):
            warp.time = max(warp.time, ends[phase - 1] if phase else 0.0)
            return False
        self._waiting.setdefault((place, phase), []).append(warp.number)
        return True

    def _reach(self, warp: TimedWarp, step: Step, number: int, expected: int) -> bool:
        """Arrive at a barrier of the block; return whether the warp waits there."""
        arrives, core = _arrives(step), self._core_of(warp.number)
        waiting = core.at_barrier.setdefault(number, [])
        waiting.append((ARRIVED if arrives else warp.number, expected))
        if expected and len(waiting) * WARP_THREADS >= expected:
            self._open(core, number)
        return not arrives

    def _reach_cluster(self, warp: TimedWarp, step: Step) -> bool:
        """Arrive at the barrier of the cluster, or wait there for all warps; return whether the warp waits."""
        if _arrives(step):
            self._arrived[warp.number] = warp.time
            return False
        self._at_cluster.append(warp.number)
        return True

    def _open_barriers(self) -> bool:
        """Open the barriers at which all warps are that still run; return whether warps can go on."""
        for core in self._cores:
            for number, waiting in list(core.at_barrier.items()):
                if not any(expected for _, expected in waiting) and len(waiting) >= core.running:
                    self._open(core, number)
        if self._at_cluster and self._arrived.keys() >= self._warps.keys():
            time = max(self._arrived.values())
            for number in self._at_cluster:
                heappush(self._ready, (time, number))
            self._at_cluster, self._arrived = [], {}
        return bool(self._ready)

    def _open(self, core: Core, number: int) -> None:
        waiting = [warp for warp, _ in core.at_barrier.pop(number) if warp != ARRIVED]
        time = max((self._warps[warp].time for warp in waiting), default=0.0)
        for warp in waiting:
            heappush(self._ready, (time, warp))


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
