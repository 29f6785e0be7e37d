"""Say why a block stopped: the instruction, its lines in the PTX and in the source, and the thread."""

from __future__ import annotations

from collections.abc import Mapping

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import TraceError
from rdmodel.trace import Launch
from tracegen.ptx.emulator._emulator import Emulator, Status
from tracegen.ptx.emulator.device_memory import DeviceMemory
from tracegen.ptx.isa.special_registers import block_index
from tracegen.ptx.lowering.memory_and_shuffles import CLUSTER_BARRIER
from tracegen.ptx.lowering.poisoning import PoisonFlow
from tracegen.ptx.lowering.program import LoweredKernel, Step
from tracegen.ptx.lowering.slicing import REGISTER_SPACES, is_memory_step

_AT_MBARRIER = 255
"""Number that the emulator gives to threads at an mbarrier in place of the number of a barrier."""


@dataclass(frozen=True, slots=True)
class StoppedLaunch:
    """The parts of a launch that its errors name, with bytes of `shared` and `local` memory."""

    program: LoweredKernel
    launch: Launch
    memory: DeviceMemory
    files: Mapping[int, str]
    poisoned: PoisonFlow
    shared: int
    local: int
    limit: int


NOT_ALLOCATED = frozenset({"SHARED", "LOCAL", *REGISTER_SPACES})
"""Spaces of memory in which there are no allocations."""


class LaunchErrors:
    """Errors of the blocks of one launch."""

    def __init__(self, launched: StoppedLaunch) -> None:
        self._launched = launched

    def of(self, emulator: Emulator, status: Status, block: int) -> TraceError:
        """Return the error of a block that stopped: what it executed, where, and why it could not go on."""
        step = self._launched.program.steps[min(emulator.step, len(self._launched.program.steps) - 1)]
        instruction = ".".join((step.origin.opcode, *step.origin.modifiers))
        thread = self._thread(block, emulator.thread)
        if status == Status.OUTSIDE:
            address = emulator.address
            size = "" if step.op in ("MOVE_BULK", "COPY_BULK") else f" of {step.count * step.width // 8} bytes"
            place = self._where_is(step.space, address)
            advice = "" if step.space in NOT_ALLOCATED else self._launched.memory.advice
            return self._located(step, f"{instruction}{size} at {place}, {thread}{advice}")
        if status == Status.TOO_LONG:
            message = f"block {block} executed more than max_instructions={self._launched.limit} warp instructions"
            return self._located(step, f"{message}; it is at {instruction}")
        if status == Status.NO_MEMORY:
            return self._located(step, f"the record of block {block} does not fit in memory")
        if status == Status.DEADLOCK:
            return self._deadlock(emulator, block)
        if status == Status.UNCOMPUTED:
            what = self._dependence(step, emulator.slot, instruction, emulator.changes_copies)
            return self._located(step, f"{what}, {thread}")
        reason = step.reason or f"{instruction}: the number of a barrier must be 0 to 15"
        return self._located(step, f"{reason}, {thread}")

    def _dependence(self, step: Step, slot: int, instruction: str, copied: bool) -> str:
        """Describe what depends on a value that is not computed, and through which instructions."""
        what = f"the address of {instruction}"
        if slot < 0:
            what = f"{instruction} stores a result that"
        elif slot == step.guard:
            what = f"the predicate of {instruction}"
        elif not is_memory_step(step):
            what = f"an operand of {instruction}"
        way = self._launched.poisoned.chain(None if slot < 0 else slot, step, self._describe, copied=copied)
        return f"{what} depends on a value that is not computed: {way} (its values are not computed here)"

    def _describe(self, step: Step) -> str:
        name = ".".join((step.origin.opcode, *step.origin.modifiers))
        return f"{name} in PTX line {step.origin.line}"

    def _located(self, step: Step, message: str) -> TraceError:
        origin = step.origin
        source = ""
        if origin.source is not None:
            file, line = origin.source
            source = f" ({self._launched.files.get(file, file)}:{line})"
        return TraceError(f"{self._launched.program.name}: PTX line {origin.line}{source}: {message}")

    def _thread(self, block: int, thread: int) -> str:
        launch = self._launched.launch
        x, y, _ = launch.block
        return f"thread {(thread % x, thread // x % y, thread // (x * y))} of block {block_index(launch, block)}"

    def _where_is(self, space: str, address: int) -> str:
        if space in NOT_ALLOCATED:
            size = self._launched.shared if space == "SHARED" else self._launched.local
            name = "local" if space == "KEPT" else space.lower()
            return f"offset {address} of {name} memory ({size} bytes)"
        return f"address {address:#x}, {self._launched.memory.describe(address)}"

    def _deadlock(self, emulator: Emulator, block: int) -> TraceError:
        groups: dict[tuple[int, int], int] = {}
        for _, step, barrier in emulator.waiting():
            groups[step, barrier] = groups.get((step, barrier), 0) + 1
        steps = self._launched.program.steps
        parts = [
            f"{threads} threads at {_barrier_name(barrier)} in PTX line {steps[step].origin.line}"
            for (step, barrier), threads in sorted(groups.items())
        ]
        first, _ = min(groups)
        return self._located(
            self._launched.program.steps[first], f"deadlock in block {block}: {' and '.join(parts)} wait for each other"
        )


def _barrier_name(barrier: int) -> str:
    names = {_AT_MBARRIER: "an mbarrier", CLUSTER_BARRIER: "the barrier of the cluster"}
    return names.get(barrier, f"barrier {barrier}")
