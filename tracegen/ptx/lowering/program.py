"""What a kernel is lowered to: steps over numbered register slots, and the constants that stand beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import TraceError
from tracegen.ptx.isa._code import FLAGS, KINDS, OPCODES, ROUNDINGS, SPACES
from tracegen.ptx.syntax.ast import Instruction

NONE = -1
"""No slot."""

_DESTINATIONS, _SOURCES = 4, 6

CODE = np.dtype(
    [
        ("op", "i8"),
        ("kind", "i8"),
        ("width", "i8"),
        ("from_kind", "i8"),
        ("from_width", "i8"),
        ("dst", "i8", (_DESTINATIONS,)),
        ("src", "i8", (_SOURCES,)),
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
"""One step as the emulator reads it."""

_BITS = {"pred": 1, "f16x2": 32, "bf16": 16, "tf32": 32}
_KIND = {"s": "SIGNED", "f": "FLOAT"}


@dataclass(frozen=True, slots=True)
class Type:
    """A PTX type that registers are computed in: `kind` is UNSIGNED (bits too), SIGNED or FLOAT; `width` in bits."""

    kind: str
    width: int


def _types() -> dict[str, Type]:
    widths = {"b": (8, 16, 32, 64), "u": (8, 16, 32, 64), "s": (8, 16, 32, 64), "f": (16, 32, 64)}
    types = {f"{k}{w}": Type(_KIND.get(k, "UNSIGNED"), w) for k, ws in widths.items() for w in ws}
    return types | {"pred": Type("UNSIGNED", 1)}


TYPES = _types()
"""Types by name; packed and narrow floating-point types are not among them."""


def type_bytes(name: str) -> int:
    """Return the bytes of a value of a type, as memory holds it; raises `TraceError` for an unknown type."""
    digits = name.lstrip("busfe")
    if name in TYPES or name in _BITS:
        return max(1, (TYPES[name].width if name in TYPES else _BITS[name]) // 8)
    if digits.isdecimal() and int(digits) % 8 == 0 and 8 <= int(digits) <= 128:
        return int(digits) // 8
    raise TraceError(f"type .{name}: its size is not known")


@dataclass(slots=True, kw_only=True)
class Step:
    """One step: writes the slots `dst`, reads the slots `src`; codes by name, `mode` by number.

    `target` is a label until the program is finished. `reason` says why the step cannot be executed.
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
    guard: int = NONE
    target: Any = 0
    space: str = "GLOBAL"
    count: int = 1
    offset: int = 0
    mode: int = 0
    rounding: str = "NEAREST"
    flags: set[str] = field(default_factory=set)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A constant that the launch gives: `bytes` at `offset` of the kernel's parameters, `signed` or not."""

    offset: int
    bytes: int
    signed: bool


Constant = int | str | Parameter
"""A number, the name of a special register, or a part of a parameter."""


@dataclass(frozen=True, slots=True)
class Program:
    """A lowered kernel.

    Slots below `variables` are registers, the others hold `constants`, in order. `entry` is the first step of the
    kernel, `targets` the branch tables. Memory sizes are in bytes; `dynamic_shared` is where the launch's own shared
    memory starts. `parameters` are (offset, bytes, PTX type or None for an array) of the kernel's parameters.
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

    @property
    def slots(self) -> int:
        """Number of register slots with constants."""
        return self.variables + len(self.constants)


def encode(steps: list[Step]) -> NDArray[Any]:
    """Return the table of `CODE` for the steps."""
    table = np.zeros(len(steps), dtype=CODE)
    table["dst"] = table["src"] = NONE
    for row, step in zip(table, steps, strict=True):
        row["op"], row["kind"], row["from_kind"] = OPCODES[step.op], KINDS[step.kind], KINDS[step.from_kind]
        row["width"], row["from_width"] = step.width, step.from_width
        row["dst"][: len(step.dst)], row["src"][: len(step.src)] = step.dst, step.src
        row["space"], row["rounding"] = SPACES[step.space], ROUNDINGS[step.rounding]
        row["flags"] = sum(FLAGS[flag] for flag in step.flags)
        for name in ("guard", "target", "count", "offset", "mode", "pc"):
            row[name] = getattr(step, name)
    return table
