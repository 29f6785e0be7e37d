"""Implement ``daws`` in the reference machine: warps load in loops while what they use again fits in the L1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rdmodel.gpu.config import CacheConfig
from rdmodel.gpu.served_loads import looks_into_l1
from rdmodel.policies import DAWS
from rdmodel.reference.machine.instruction import MachineInstruction, Owner
from rdmodel.reference.machine.messages import Transaction
from rdmodel.reference.machine.record import Counters
from rdmodel.reference.machine.throttling import Permit, Throttle
from rdmodel.reference.machine.warps import Warp
from rdmodel.trace import Op, Space


@dataclass(slots=True, eq=False)
class SampledLoad:
    """A load as sampled warps have shown it: its transactions, and the number of accesses that found its lines again.

    `loop` has all loads of its loop; it is empty if the load is in no loop.
    """

    loop: list[SampledLoad] = field(default_factory=list)
    divergent: bool = False
    transactions: int = 0
    found: int = 0

    def has_locality(self, reuse: float) -> bool:
        """Return whether its lines were found again at least `reuse` times as often as it made transactions."""
        return self.found > 0 and self.found >= reuse * self.transactions

    def lines(self, lanes: int, reuse: float) -> int:
        """Return the lines that the load uses again in a warp of so many active lanes."""
        if not self.has_locality(reuse):
            return 0
        return lanes if self.divergent else 1


class SampledLoads:
    """The loads of one SM, by pc."""

    def __init__(self, most: int) -> None:
        self._by_pc: dict[int, SampledLoad] = {}
        self._most = most

    def learn(self, pc: int) -> SampledLoad | None:
        """Return the load of a pc, a new one for a new pc; None if there are too many."""
        if pc not in self._by_pc and len(self._by_pc) < self._most:
            self._by_pc[pc] = SampledLoad()
        return self._by_pc.get(pc)

    def loop(self, pc: int) -> list[SampledLoad]:
        """Return the loads of the loop that the load of a pc is in; none if it is in no loop, or not known."""
        return self._by_pc[pc].loop if pc in self._by_pc else []


@dataclass(slots=True)
class LineTag:
    """The last access of the sampled warp to a line: the number of the instruction, and the load that brought it."""

    bringer: SampledLoad
    instruction: int


class SampledWarp:
    """A warp whose loads show loops, divergence and locality; it has tags of the last `lines` lines that it loaded."""

    def __init__(self, owner: Owner, policy: DAWS, loads: SampledLoads, lines: int) -> None:
        self.owner = owner
        self._policy = policy
        self._loads = loads
        self._lines = lines
        self._path: list[SampledLoad] = []  # in the order in which they were executed last
        self._tags: dict[int, LineTag] = {}  # by line, least recently used first

    def see(self, transaction: Transaction) -> None:
        """Learn from a transaction of the warp."""
        load = self._loads.learn(transaction.instruction.pc)
        if load is None:
            return
        if transaction.place == 0:
            self._pass(load)
        if transaction.place == self._policy.converged:
            load.divergent = True
        load.transactions += 1
        tag = self._tags.pop(transaction.line, None)
        if tag is not None and tag.instruction != transaction.number:
            tag.bringer.found += 1
        self._tags[transaction.line] = LineTag(load if tag is None else tag.bringer, transaction.number)
        if len(self._tags) > self._lines:
            del self._tags[next(iter(self._tags))]

    def _pass(self, load: SampledLoad) -> None:
        """Step to a load; if the warp has executed it before, all loads since then are in one loop with it."""
        if load in self._path:
            since = self._path[self._path.index(load) :]
            loop = list(dict.fromkeys(other for member in since for other in (member, *member.loop)))
            for member in loop:
                member.loop = loop
            self._path.remove(load)
        self._path.append(load)


@dataclass(slots=True)
class Position:
    """The load that a warp executes next or executed last, and the one with which it came into the loop.

    `lanes` is the largest number of active lanes since it was last at the latter.
    """

    pc: int
    first_pc: int
    lanes: int


class LoopFootprints:
    """The predictions of one SM, whose L1 has `lines` lines; `may_load` has the warps that may load in this cycle."""

    def __init__(self, policy: DAWS, lines: int) -> None:
        self.may_load: set[Owner] = set()
        self._policy = policy
        self._lines = lines
        self._loads = SampledLoads(policy.loads)
        self._warps: list[Owner] = []  # that have not ended, the oldest first
        self._positions: dict[Owner, Position] = {}
        self._sampled: SampledWarp | None = None

    def add_warp(self, warp: Owner) -> None:
        """Add a warp that begins."""
        self._warps.append(warp)
        self._sample_oldest()

    def remove_warp(self, warp: Owner) -> None:
        """Remove a warp that ends."""
        self._warps.remove(warp)
        self._positions.pop(warp, None)
        self._sample_oldest()

    def _sample_oldest(self) -> None:
        if not self._warps:
            self._sampled = None
        elif self._sampled is None or self._sampled.owner != self._warps[0]:
            self._sampled = SampledWarp(self._warps[0], self._policy, self._loads, self._lines)

    def see(self, transaction: Transaction) -> None:
        """Learn from a transaction if its warp is sampled."""
        if self._sampled is not None and self._sampled.owner == transaction.warp.owner:
            self._sampled.see(transaction)

    def move(self, warp: Owner, load: MachineInstruction) -> None:
        """Move a warp to its next load."""
        loop = self._loads.loop(load.pc)
        old = self._positions.get(warp)
        if old is None or not loop or self._loads.loop(old.pc) is not loop:
            self._positions[warp] = Position(load.pc, load.pc, load.lanes)
            return
        again = load.pc == old.first_pc
        self._positions[warp] = Position(load.pc, old.first_pc, load.lanes if again else max(old.lanes, load.lanes))

    def leave(self, warp: Owner) -> None:
        """Remove the position of a warp that has no further instruction."""
        self._positions.pop(warp, None)

    def footprint(self, warp: Owner) -> int:
        """Return the lines that a warp is predicted to use again in its loop."""
        at = self._positions.get(warp)
        if at is None:
            return 0
        return sum(load.lines(at.lanes, self._policy.reuse) for load in self._loads.loop(at.pc))

    def choose_loaders(self, active: Sequence[Warp]) -> None:
        """Choose the active warps that may issue loads in this cycle."""
        self.may_load = set()
        total = 0
        for warp in sorted(active, key=lambda warp: warp.age):
            footprint = self.footprint(warp.owner)
            is_first = total == 0
            total += footprint
            if footprint == 0 or is_first or total <= self._policy.share * self._lines:
                self.may_load.add(warp.owner)


class FootprintThrottle(Throttle):
    """``daws``: every SM has its own `LoopFootprints`."""

    def __init__(self, policy: DAWS, sms: int, l1: CacheConfig) -> None:
        self._l1 = l1
        self._sms = [LoopFootprints(policy, l1.lines) for _ in range(sms)]

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return whether a warp may issue loads now."""
        return Permit.ALLOCATE if warp.owner in self._sms[sm].may_load else Permit.WAIT

    def on_warp_begin(self, sm: int, warp: Warp) -> None:
        """Add a new warp, and move it to its first load."""
        self._sms[sm].add_warp(warp.owner)
        self.on_issue(sm, warp)

    def on_issue(self, sm: int, warp: Warp) -> None:
        """Move a warp on, unless its next instruction is not one that loads through the L1."""
        instruction = warp.next_instruction
        if instruction is None:
            self._sms[sm].leave(warp.owner)
        elif instruction.op == Op.LOAD and instruction.lines and self._looks_into_l1(instruction):
            self._sms[sm].move(warp.owner, instruction)

    def _looks_into_l1(self, load: MachineInstruction) -> bool:
        return looks_into_l1(self._l1, Space.LOCAL if load.local else Space.GLOBAL, load.cache_op)

    def on_load(self, sm: int, transaction: Transaction, active: int, counts: Counters, *, absent: bool) -> None:
        """Learn from a load."""
        self._sms[sm].see(transaction)

    def before_issue(self, sm: int, active: Sequence[Warp]) -> None:
        """Choose the warps that may load in this cycle."""
        self._sms[sm].choose_loaders(active)

    def on_warp_end(self, sm: int, warp: Warp) -> None:
        """Remove a warp that has ended."""
        self._sms[sm].remove_warp(warp.owner)
