"""Represent PTX as values: the output of `tracegen.ptx.syntax.parser` and the input of the lowering.

Names follow the PTX ISA. Opcodes and modifiers stay as written and are not interpreted here, so an unknown opcode is an
error only when it is executed.
"""

from __future__ import annotations

from dataclasses import field
from typing import Protocol

from rdmodel.common.late_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Register:
    """A register by its full name, such as ``%r3``; special registers include their component: ``%tid.x``."""

    name: str


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer literal; `value` may be negative or use all 64 bits."""

    value: int


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point literal as its bit pattern of `width` bits (32 for ``0f``, 64 for ``0d`` and decimals)."""

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Name:
    """A symbol: a variable, parameter, function or label."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]``; `base` is None for an absolute address. In a ``mov``, ``symbol+4`` needs no brackets."""

    base: Register | Name | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, c, d}``; None stands for ``_``."""

    items: tuple[Operand | None, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """``!%p1``: a negated predicate as an operand."""

    register: Register


@dataclass(frozen=True, slots=True)
class Pair:
    """``%p1|%p2``: two destinations."""

    first: Operand | None
    second: Operand | None


Operand = Register | Integer | Float | Name | Address | Vector | Not | Pair
"""An operand of an instruction."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """``@!%p ld.global.f32 %f1, [%rd4+8];``.

    This one has the `opcode` ``ld`` and the `modifiers` ``("global", "f32")``. `guard` is the predicate register, and
    `negated` tells whether ``!`` stands before it. The operands of a ``call`` are a Vector of results, the Name of the
    function (a Register in an indirect call), a Vector of arguments, and the Name of the prototype or list of targets,
    if any. A texture address ``[t, s, {x, y}]`` is an Address, followed by its other parts as operands. The operand
    ``_`` is the Name ``_``. `line` is the line in the PTX text, `source` the (file, line) of the last ``.loc``, if
    any.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None = None
    negated: bool = False
    line: int = 0
    source: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable or parameter.

    `space` is ``global``, ``const``, ``shared``, ``local``, ``param`` or ``reg``. `type` is as written (``f32``,
    ``b8``). `count` is the number of elements in all dimensions (None: no array; 0: ``[]``), `alignment` is in bytes
    (0: natural). `initial` holds the bytes of the initialiser, if any, up to its last value; zeros follow. `addresses`
    maps a byte offset in `initial` to a symbol: its address is added to the number at that offset. `linkage` is
    ``visible``, ``weak``, ``common`` or ``extern``, or empty for a symbol of its unit alone.
    """

    name: str
    space: str
    type: str
    count: int | None = None
    alignment: int = 0
    initial: bytes | None = None
    addresses: dict[int, str] = field(default_factory=dict)
    linkage: str = ""
    line: int = 0

    @property
    def extern(self) -> bool:
        """Whether this is only a declaration."""
        return self.linkage == "extern"


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel (`entry` is True) or a device function.

    `registers` maps every declared register to its type; ranges (``%r<10>``) are expanded. `variables` are the shared,
    local and param variables of the function, nested scopes included. A name that is declared again in another scope,
    or that hides a name of the module, gets the suffix ``#2``, ``#3`` ...; so does a label. `labels` maps a label to
    the index in `body` of the instruction after it (``len(body)`` at the end). `tables` holds the lists of
    ``.branchtargets`` and ``.calltargets``. `directives` maps names to texts as written. `rolled` are the indices in
    `body` of instructions after the pragma "nounroll". `body` is None for a declaration. `linkage` is that of a
    `Variable`.
    """

    name: str
    entry: bool
    parameters: tuple[Variable, ...]
    results: tuple[Variable, ...] = ()
    registers: dict[str, str] = field(default_factory=dict)
    variables: tuple[Variable, ...] = ()
    body: tuple[Instruction, ...] | None = None
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    directives: dict[str, str] = field(default_factory=dict)
    rolled: frozenset[int] = frozenset()
    linkage: str = ""
    line: int = 0


class Assembler(Protocol):
    """Makes machine code of a module for an architecture, such as 80."""

    def architectures(self) -> frozenset[int]:
        """Return the architectures that it knows."""

    def assemble(self, architecture: int) -> tuple[str, bytes]:
        """Return what it says of the kernels, in the words of ``ptxas -v``, and the code; empty if it makes none."""


@dataclass(frozen=True, slots=True)
class Module:
    """One PTX text, of one translation unit or of several that were linked.

    It has the version and target, the variables and functions by name, source files by number, and the `text` itself.
    `relocatable`: it is assembled before it is linked, so that the assembler does not know where variables lie.
    `assembler` makes its machine code where no assembler is installed by itself; None: nothing does.
    """

    version: str
    target: str
    address_size: int
    variables: dict[str, Variable]
    functions: dict[str, Function]
    files: dict[int, str] = field(default_factory=dict)
    directives: tuple[str, ...] = ()
    relocatable: bool = False
    text: str = field(default="", repr=False, compare=False)
    assembler: Assembler | None = field(default=None, repr=False, compare=False)

    @property
    def architecture(self) -> int:
        """The number of the target, such as 80 for ``sm_80`` and 90 for ``sm_90a``; 0 if it has none."""
        digits = self.target.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz")
        return int(digits) if digits.isdecimal() else 0

    @property
    def kernels(self) -> list[str]:
        """Names of the kernels, in order."""
        return [f.name for f in self.functions.values() if f.entry]
