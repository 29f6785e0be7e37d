"""Turn the counters of the emulator, one row per step, into the work of a block."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rdmodel.trace import Work
from rdmodel.trace.work import INSTRUCTION_CLASSES, MATRIX_TYPES, OPERATIONS, SHARED_ACCESSES
from tracegen.ptx.lowering.constants import constant_loads, constant_slots
from tracegen.ptx.lowering.fusion import fused_instructions
from tracegen.ptx.lowering.machine_code import MachineCode
from tracegen.ptx.lowering.program import NO_SLOT, LoweredKernel, Step
from tracegen.ptx.lowering.slicing import REGISTER_SPACES, is_memory_step

COUNTS = ("issued", "warps", "lanes", "shared", "local", "wavefronts", "groups", "active")
"""Columns of the counters; the struct `StepCounts` of the emulator is their twin."""

_ISSUED, _WARPS, _LANES, _SHARED, _LOCAL, _WAVEFRONTS, _GROUPS, _ACTIVE = map(COUNTS.index, COUNTS)

_VERBS = {"LOAD": "load", "STORE": "store", "ATOM": "atomic", "TEX": "load", "SULD": "load", "SUST": "store"}
_SPACES = {"GLOBAL": "global", "LOCAL": "local", "SHARED": "shared", "CONST": "constant", "GENERIC": "global"}


class WorkTable:
    """The share of each step in the work of a block, each time that a warp or a lane executes it.

    An instruction is issued with its first step. Its lanes are those of its first step with a guard: steps that
    prepare a guard have none. Guards that nothing depends on are not computed, unless their steps are `executed`; all
    active lanes, and warps with one, count there.
    """

    def __init__(self, kernel: LoweredKernel, executed: Collection[int]) -> None:
        steps = kernel.steps
        n = len(steps)
        self._lane_counts, self._warp_counts = np.full(n, _LANES), np.full(n, _WARPS)
        unknown = {slot for index, step in enumerate(steps) if index not in executed for slot in step.dst} - {NO_SLOT}
        unguarded = [index for index, step in enumerate(steps) if step.guard in unknown]
        self._lane_counts[unguarded], self._warp_counts[unguarded] = _ACTIVE, _ISSUED
        self._rows = np.arange(n)
        self._issued = np.zeros((n, len(INSTRUCTION_CLASSES)))
        self._lanes = np.zeros((n, len(OPERATIONS)))
        self._matrices = np.zeros((n, len(MATRIX_TYPES)))
        self._matrix_bytes = np.zeros(n)
        self._shared = np.zeros((n, len(SHARED_ACCESSES)))
        self._generic: list[tuple[int, str]] = []
        guarded, fused = _guarded_steps(steps), fused_instructions(steps)
        self._constants, numbers = constant_loads(kernel), constant_slots(kernel)
        for index, step in enumerate(steps):
            if is_memory_step(step):
                self._add_access(index, step)
            if "COUNTED" in step.flags:
                count = fused.get(step.pc)
                code = (
                    step.machine_code(numbers.get(step.src[0]) if step.src else None)
                    if count is None
                    else MachineCode({"int": count}, {"int": count})
                )
                self._add_instruction(index, guarded.get(step.pc, index), code)

    def _add_access(self, index: int, step: Step) -> None:
        verb = _VERBS[step.op]
        if step.space not in REGISTER_SPACES and "LAZY" not in step.flags:
            self._shared[index] = [name == f"{verb}_shared" for name in SHARED_ACCESSES]
        if step.space in REGISTER_SPACES or step.flags & {"LAZY", "ASYNC"}:
            return
        if step.space == "GENERIC":
            self._generic.append((index, verb))
        name = "load_texture" if step.op in ("TEX", "SULD") else f"{verb}_{_SPACES[step.space]}"
        name = self._constants.get(index, name)
        self._issued[index, INSTRUCTION_CLASSES.index(_known(name))] += 1

    def _add_instruction(self, index: int, guarded: int, code: MachineCode) -> None:
        _fill(self._issued[index], INSTRUCTION_CLASSES, code.classes)
        _fill(self._lanes[guarded], OPERATIONS, code.operations)
        if code.matrix_flops:
            _fill(self._matrices[guarded], MATRIX_TYPES, {code.matrix_type: code.matrix_flops})
            self._matrix_bytes[guarded] += code.matrix_bytes

    def work_of(self, counts: NDArray[np.int64], warps: int) -> Work:
        """Return the work of a block of `warps` warps that was counted."""
        issued, shared = counts[:, _ISSUED], self._shared
        products = counts[self._rows, self._warp_counts]
        instructions = _named(INSTRUCTION_CLASSES, issued @ self._issued)
        for index, verb in self._generic:
            for space, column in (("shared", _SHARED), ("local", _LOCAL)):
                moved = int(counts[index, column])
                instructions[_known(f"{verb}_global")] -= moved
                instructions[_known(f"{verb}_{space}")] += moved
        return Work(
            blocks=1,
            warps=warps,
            instructions=instructions,
            operations=_named(OPERATIONS, counts[self._rows, self._lane_counts] @ self._lanes),
            matrix_flops=_named(MATRIX_TYPES, products @ self._matrices),
            matrix_bytes=int(products @ self._matrix_bytes),
            shared_wavefronts=_named(SHARED_ACCESSES, counts[:, _WAVEFRONTS] @ shared),
            shared_groups=_named(SHARED_ACCESSES, counts[:, _GROUPS] @ shared),
        )


def _guarded_steps(steps: Sequence[Step]) -> dict[int, int]:
    """Return the first step with a guard of each instruction that has one, by the number of the instruction."""
    found: dict[int, int] = {}
    for index, step in enumerate(steps):
        if step.guard != NO_SLOT:
            found.setdefault(step.pc, index)
    return found


def _known(name: str) -> str:
    """Return the class of an access; the rare atomics on local memory are stores."""
    return name if name in INSTRUCTION_CLASSES else "store_local"


def _fill(row: NDArray[np.float64], names: Sequence[str], counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        row[names.index(name)] += count


def _named(names: Sequence[str], values: Iterable[float]) -> dict[str, float]:
    return {name: int(value) for name, value in zip(names, values, strict=True)}
