"""PTX as values: what `tracegen.ptx.syntax.parser` makes of a text, and everything else reads.

Names follow the PTX ISA. Nothing here interprets an instruction: opcodes and modifiers are kept as written, so an
opcode that nobody knows is no obstacle until it is executed.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Register:
    """A register by its full name, ``%r3``; special registers keep their component: ``%tid.x``."""

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
    """``[base + offset]``; `base` is None for an absolute address. Also ``symbol+4`` in a ``mov``, without brackets."""

    base: Register | Name | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, c, d}``; ``_`` is None."""

    items: tuple[Operand | None, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """``!%p1``: the negation of a predicate as an operand."""

    register: Register


@dataclass(frozen=True, slots=True)
class Pair:
    """``%p1|%p2``: two destinations."""

    first: Operand | None
    second: Operand | None


Operand = Register | Integer | Float | Name | Address | Vector | Not | Pair


@dataclass(frozen=True, slots=True)
class Instruction:
    """``@!%p ld.global.f32 %f1, [%rd4+8];``.

    opcode ``ld``, modifiers ``("global", "f32")``; `guard` is the predicate register, `negated` its ``!``. A call is
    opcode ``call``: operands are a Vector of results, the function's Name (a Register in an indirect call), a Vector of
    arguments, and the Name of the prototype or list of targets, if any. A texture address ``[t, s, {x, y}]`` is an
    Address followed by its further parts as operands. ``_`` as an operand is the Name ``_``. `line` is that of the PTX
    text, `source` the (file, line) of the last ``.loc``, if any.
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

    `space` is ``global``, ``const``, ``shared``, ``local``, ``param`` or ``reg``; `type` is as written (``f32``,
    ``b8``); `count` elements, all dimensions together (None: no array; 0: ``[]``); `alignment` in bytes (0: natural).
    `initial` holds the bytes of the initialiser, if any, up to its last value: zeros follow. `addresses` maps an offset
    in it to the symbol whose address is to be added to the number that stands there.
    """

    name: str
    space: str
    type: str
    count: int | None = None
    alignment: int = 0
    initial: bytes | None = None
    addresses: dict[int, str] = field(default_factory=dict)
    extern: bool = False
    line: int = 0


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel (``entry`` is True) or a device function.

    `registers` maps every declared register name to its type, ranges (``%r<10>``) written out. `variables` are the
    function's own shared, local and param variables, nested scopes included; names that are declared again in another
    scope, or hide a name of the module, have ``#2``, ``#3`` ... behind them, labels too. `labels` maps a label to the
    index in `body` of the instruction it stands before (``len(body)`` at the end). `tables` holds ``.branchtargets``
    and ``.calltargets`` lists.
    `directives` are kept as written, by name. A declaration without body has ``body`` None.
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
    line: int = 0


@dataclass(frozen=True, slots=True)
class Module:
    """One PTX text: its version, target, module variables, functions by name, source files by number."""

    version: str
    target: str
    address_size: int
    variables: dict[str, Variable]
    functions: dict[str, Function]
    files: dict[int, str] = field(default_factory=dict)
    directives: tuple[str, ...] = ()

    @property
    def kernels(self) -> list[str]:
        """Names of the kernels, in order."""
        return [f.name for f in self.functions.values() if f.entry]
