"""Represent a lowered kernel: steps over numbered register slots, and the constants beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from tracegen.ptx.isa._code import FLAGS, KINDS, MEMORY_SPACES, OPCODES, ROUNDINGS
from tracegen.ptx.lowering.machine_code import MachineCode, machine_code
from tracegen.ptx.syntax.ast import Instruction

NO_SLOT = -1
"""Number of a slot that is absent."""

_DESTINATION_SLOTS, _SOURCE_SLOTS = 4, 12
"""Maximum number of slots of one step."""

CODE_DTYPE = np.dtype(
    [
        ("op", "i8"),
        ("kind", "i8"),
        ("width", "i8"),
        ("from_kind", "i8"),
        ("from_width", "i8"),
        ("dst", "i8", (_DESTINATION_SLOTS,)),
        ("src", "i8", (_SOURCE_SLOTS,)),
        ("guard", "i8"),
        ("target", "i8"),
        ("space", "i8"),
        ("count", "i8"),
        ("offset", "i8"),
        ("mode", "i8"),
        ("rounding", "i8"),
        ("flags", "i8"),
        ("pc", "i8"),
    ]
)
"""Layout of one step in the table that the emulator reads; the struct `Code` of the emulator is its twin."""

_OTHER_TYPE_BITS = {"pred": 1, "f16x2": 32, "bf16": 16, "tf32": 32, "texref": 64, "surfref": 64, "samplerref": 64}
"""Bits of types that memory holds, but no step computes in."""

_KIND_LETTERS = {"s": "SIGNED", "f": "FLOAT"}
"""Kinds by the first letter of a type; other letters are unsigned."""


@dataclass(frozen=True, slots=True)
class PtxType:
    """A PTX type that steps compute in: `kind` is UNSIGNED (also for bits), SIGNED or FLOAT; `width` is in bits."""

    kind: str
    width: int


def _types() -> dict[str, PtxType]:
    widths = {"b": (8, 16, 32, 64), "u": (8, 16, 32, 64), "s": (8, 16, 32, 64), "f": (16, 32, 64)}
    types = {f"{k}{w}": PtxType(_KIND_LETTERS.get(k, "UNSIGNED"), w) for k, ws in widths.items() for w in ws}
    return types | {"pred": PtxType("UNSIGNED", 1)}


PTX_TYPES = _types()
"""Types by name, without packed and narrow floating-point types."""


def type_bytes(name: str) -> int:
    """Return the size in memory of a value of a type, in bytes; raises `TraceError` for an unknown type."""
    digits = name.lstrip("busfe")
    if name in PTX_TYPES or name in _OTHER_TYPE_BITS:
        return max(1, (PTX_TYPES[name].width if name in PTX_TYPES else _OTHER_TYPE_BITS[name]) // 8)
    if digits.isdecimal() and int(digits) % 8 == 0 and 8 <= int(digits) <= 128:
        return int(digits) // 8
    raise TraceError(f"type .{name}: must be a type of PTX whose size is known, such as .u32 or .f64")


@dataclass(slots=True, kw_only=True)
class Step:
    """One step: it reads the slots `src` and writes the slots `dst`. Codes are names, `mode` is a number.

    `origin` is the PTX instruction. `target` is a label until the kernel is complete. `flags` has the names of `Flag`,
    and LAZY for an access that the emulator skips unless its values matter. `reason` tells why a step cannot be
    executed. `code` is the machine code of the instruction if other instructions of its block change it.
    """

    op: str
    origin: Instruction
    pc: int
    dst: tuple[int, ...] = ()
    src: tuple[int, ...] = ()
    kind: str = "UNSIGNED"
    width: int = 32
    from_kind: str = "UNSIGNED"
    from_width: int = 32
    guard: int = NO_SLOT
    target: Any = 0
    space: str = "GLOBAL"
    count: int = 1
    offset: int = 0
    mode: int = 0
    rounding: str = "NEAREST"
    flags: set[str] = field(default_factory=set)
    reason: str = ""
    code: MachineCode | None = None

    def machine_code(self, descriptor: int | None = None) -> MachineCode:
        """Return the machine instructions of its PTX instruction; `descriptor` is that of `machine_code`."""
        return machine_code(self.origin, descriptor) if self.code is None else self.code


@dataclass(frozen=True, slots=True)
class ParameterPart:
    """A constant of the launch: `bytes` at byte `offset` of the kernel's parameters, sign-extended if `signed`."""

    offset: int
    bytes: int
    signed: bool


Constant = int | str | ParameterPart
"""A number, the name of a special register, or a part of a parameter."""


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """A lowered kernel.

    Slots below `variables` are registers; the others hold `constants`, in order. `entry` is the first step of the
    kernel, `targets` are the branch tables. `local_bytes` are per thread; `shared_bytes` exclude the dynamic shared
    memory of a launch. `parameters` are (offset, bytes, PTX type or None for an array) of the kernel's parameters.
    `rolled` are steps after the pragma "nounroll".
    """

    name: str
    steps: list[Step]
    entry: int
    variables: int
    constants: list[Constant]
    targets: list[int]
    local_bytes: int
    shared_bytes: int
    parameters: list[tuple[int, int, str | None]]
    rolled: frozenset[int] = frozenset()

    @property
    def slots(self) -> int:
        """Number of slots, constants included."""
        return self.variables + len(self.constants)


def encode_steps(steps: list[Step]) -> NDArray[Any]:
    """Return the steps as a table of `CODE_DTYPE`."""
    table = np.zeros(len(steps), dtype=CODE_DTYPE)
    table["dst"] = table["src"] = NO_SLOT
    for row, step in zip(table, steps, strict=True):
        skipped = "LAZY" in step.flags and "EXECUTE" not in step.flags
        row["op"] = OPCODES["MOV" if skipped else step.op]
        row["kind"], row["from_kind"] = KINDS[step.kind], KINDS[step.from_kind]
        row["width"], row["from_width"] = step.width, step.from_width
        row["dst"][: len(step.dst)], row["src"][: len(step.src)] = step.dst, step.src
        row["space"], row["rounding"] = MEMORY_SPACES[step.space], ROUNDINGS[step.rounding]
        row["flags"] = sum(FLAGS[flag] for flag in step.flags if flag in FLAGS)
        for name in ("guard", "target", "count", "offset", "mode", "pc"):
            row[name] = getattr(step, name)
    return table
