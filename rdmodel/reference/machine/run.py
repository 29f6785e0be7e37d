"""Run the whole reference machine: SMs, memory, the dispatcher and time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import SimulationError
from rdmodel.gpu.config import GPU
from rdmodel.reference.machine.choice import Shape, make_throttle
from rdmodel.reference.machine.instruction import MachineBlock
from rdmodel.reference.machine.memory import IdealMemory, MemorySystem, SharedMemory
from rdmodel.reference.machine.partitions import PartitionedMemory
from rdmodel.reference.machine.plugin import make_plugins
from rdmodel.reference.machine.record import Counters, Entry, EventLog
from rdmodel.reference.machine.sm import SM
from rdmodel.simulator.options import SimulationOptions
from rdmodel.trace import Op

MAX_IDLE_CYCLES = 1_000_000
"""Cycles without an event after which the machine is taken to have come to a standstill."""


@dataclass(frozen=True, slots=True)
class MachineResult:
    """Result of a run of the reference machine: its cycles, and the counters of every SM, L2 slice and DRAM channel.

    `cycles` ends with the last block; messages that travel on after that still count in slices and channels. `log` is
    empty unless it was requested. `limits` is the number of warps per scheduler that ``dwt-cs`` decided upon, if it
    did.
    """

    cycles: int
    sms: list[Counters]
    slices: list[Counters]
    channels: list[Counters]
    log: list[Entry]
    limits: int | None


def simulate(
    blocks: Sequence[MachineBlock],
    gpu: GPU,
    options: SimulationOptions,
    slots: int,
    block_warps: int,
    log: bool = False,
) -> MachineResult:
    """Run `blocks`, each of at most `block_warps` warps, with `slots` of them resident on an SM.

    `options` must be resolved for `gpu`; of its fields, only `sms`, `sched`, `memory` and `policies` are used. With
    `log`, the result has a log of all events. Raises `SimulationError` if the machine comes to a standstill.
    """
    return Machine(blocks, gpu, options, slots, block_warps, EventLog(keep=log)).run()


def simulate_in_turn(
    launches: Sequence[Sequence[MachineBlock]],
    gpu: GPU,
    options: SimulationOptions,
    slots: int,
    block_warps: int,
    log: bool = False,
) -> list[MachineResult]:
    """Run the blocks of launches one launch after another, each as `simulate`, on the L2 that the one before left."""
    results: list[MachineResult] = []
    previous: Machine | None = None
    for blocks in launches:
        machine = Machine(blocks, gpu, options, slots, block_warps, EventLog(keep=log))
        if previous is not None:
            machine.take_l2(previous)
        results.append(machine.run())
        previous = machine
    return results


class Machine:
    """The reference machine with blocks to run."""

    def __init__(
        self,
        blocks: Sequence[MachineBlock],
        gpu: GPU,
        options: SimulationOptions,
        slots: int,
        block_warps: int,
        log: EventLog,
    ) -> None:
        assert options.sms is not None
        assert all(len(block) <= block_warps for block in blocks)
        self._slots = slots
        self._log = log
        self._blocks = blocks
        self._pending = deque(range(len(blocks)))
        max_warps = -(-slots * block_warps // gpu.core.schedulers)
        self._plugins = make_plugins(options.policies, gpu, options.sms, slots * block_warps)
        shape = Shape(options.sms, max_warps, slots, block_warps, gpu.l1)
        self._throttle = make_throttle(options.policies, shape, self._plugins)
        self._sms = [
            SM(number, gpu, options, slots, block_warps, self._throttle, self._plugins, log)
            for number in range(options.sms)
        ]
        self._memory: MemorySystem
        if options.memory is not None:
            self._memory = IdealMemory(options.memory, acknowledges=gpu.core.store_acks)
        else:
            kind = PartitionedMemory if gpu.l2.partitions > 1 else SharedMemory
            self._memory = kind(gpu, self._sms, options.policies, log)

    def take_l2(self, previous: Machine) -> None:
        """Begin with the lines in the L2 of an earlier launch, whose run is over."""
        self._memory.take_lines(previous._memory)

    def run(self) -> MachineResult:
        """Run until every block has ended and no message is under way."""
        self._dispatch([(sm, slot) for slot in range(self._slots) for sm in self._sms], -1)
        now, last_change, events = 0, 0, -1
        while not self._done():
            self._cycle(now)
            if self._log.events != events:
                last_change, events = now, self._log.events
            elif now - last_change >= MAX_IDLE_CYCLES:
                raise SimulationError(f"no component has had an event since cycle {last_change}")
            now += 1
        self._check()
        cycles = max(sm.last_end for sm in self._sms) + 1
        counts = [sm.counts for sm in self._sms]
        return MachineResult(cycles, counts, *self._memory.counters(), self._log.entries, self._throttle.limit)

    def _cycle(self, now: int) -> None:
        for sm in self._sms:
            sm.step(now)
            self._memory.send(sm, now)
        self._memory.step(now)
        if self._running:
            self._throttle.end_cycle(now, [sm.counts for sm in self._sms])
            for sm in self._sms:
                sm.admission.end_cycle(now, sm.counts["thread_instructions"])
            self._memory.end_cycle(now)
            for plugin in self._plugins:
                plugin.end_cycle(now, [sm.counts for sm in self._sms])
        for sm in self._sms:
            sm.settle(now)
        self._dispatch([(sm, slot) for sm in self._sms for slot in range(self._slots)], now)

    def _dispatch(self, places: Sequence[tuple[SM, int]], now: int) -> None:
        """Start the next blocks of the grid, each in the first of `places` that is free and may get one (E3)."""
        while self._pending:
            place = next(((sm, slot) for sm, slot in places if self._is_open(sm, slot)), None)
            if place is None:
                return
            sm, slot = place
            number = self._pending.popleft()
            sm.begin(slot, number, self._blocks[number], now)

    def _is_open(self, sm: SM, slot: int) -> bool:
        return sm.residents[slot] is None and self._throttle.takes_block(sm.number, sm.resident)

    @property
    def _running(self) -> bool:
        """Whether blocks are resident; blocks are pending only while some are."""
        return any(sm.resident for sm in self._sms)

    def _done(self) -> bool:
        return not self._running and not any(sm.l1.miss_queue for sm in self._sms) and self._memory.idle

    def _check(self) -> None:
        """Assert that the machine is empty and that its counters add up."""
        assert not self._pending
        for sm in self._sms:
            sm.check_drained()
        self._memory.check_drained()
        instructions = [instruction for block in self._blocks for warp in block for instruction in warp]
        lines = sum(len(instruction.lines) for instruction in instructions if instruction.op != Op.BARRIER)
        assert sum(sm.counts["transactions"] for sm in self._sms) == lines
        issued = sum(1 + instruction.gap for instruction in instructions)
        assert sum(sm.counts["warp_instructions"] for sm in self._sms) == issued
