"""Parse declarations of variables, parameters and registers, and the bytes of initialisers."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from tracegen.ptx.syntax.ast import Float, Integer, Variable
from tracegen.ptx.syntax.constants import starts_constant, take_constant, take_count, take_integer
from tracegen.ptx.syntax.lexer import Cursor, is_word

STATE_SPACES = ("global", "const", "shared", "local", "param", "reg", "tex")
"""State spaces of PTX, without the dot."""

MAX_VARIABLE_BYTES = 1 << 40
"""Maximum size of one variable in bytes."""

MAX_INITIAL_BYTES = 1 << 28
"""Maximum size of all initial values of a module in bytes."""

MIN_REGISTER_LIMIT = 1 << 17
"""Number of registers that every text may declare; longer texts may declare one more per character."""

_MAX_DIMENSIONS = 8
"""Maximum number of dimensions of an array."""

_MAX_ALIGNMENT_BYTES = 1 << 20
"""Largest alignment of a variable in bytes."""

TYPE_BYTES = {
    **{f"{kind}{bits}": bits // 8 for kind in "bsu" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("pred", "e4m3", "e5m2"), 1),
    **dict.fromkeys(("f16", "bf16", "e4m3x2", "e5m2x2"), 2),
    **dict.fromkeys(("f32", "tf32", "f16x2", "bf16x2", "s16x2", "u16x2"), 4),
    **dict.fromkeys(("f64", "texref", "surfref", "samplerref"), 8),
    "b128": 16,
}
"""Bytes of one element, by type."""

_OPAQUE_TYPES = ("texref", "surfref", "samplerref")
"""Types whose initialisers the host fills in."""

_FLOAT_FORMATS = {"f16": "<e", "f32": "<f", "f64": "<d"}
"""Formats of `struct`, by type."""

_VECTOR_ELEMENTS = {"v2": 2, "v4": 4, "v8": 8}
"""Elements of a vector type."""


@dataclass(slots=True)
class _Form:
    """The part of a declaration before the names."""

    space: str
    line: int
    linkage: str = ""
    type: str = ""
    alignment: int = 0
    lanes: int = 1


@dataclass(slots=True)
class _Initial:
    """An initialiser while it is parsed: `dimensions` in elements; the first is 0 if the text leaves it open."""

    type: str
    dimensions: list[int]
    data: bytearray = field(default_factory=bytearray)
    addresses: dict[int, str] = field(default_factory=dict)


class DeclarationParser:
    """Parser of declarations; limits the registers and initial values of one module."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        # A compiler declares the registers that it uses, and every use takes some characters of text.
        self._max_registers = self._registers_left = MIN_REGISTER_LIMIT + len(cursor.text)
        self._bytes_left = MAX_INITIAL_BYTES

    def take_variables(self, linkage: str = "") -> Iterator[Variable]:
        """Parse ``.space .type a, b[4] = {...};`` from the space on, one variable at a time."""
        form = self._take_form(linkage)
        while True:
            yield self._take_variable(form)
            if not self._cursor.accept(","):
                break
        self._cursor.expect(";", f"after a variable in .{form.space}")

    def take_parameters(self, noun: str) -> Iterator[Variable]:
        """Parse ``(.param .type a, ...)``, one parameter at a time; `noun` names the list in errors."""
        cursor = self._cursor
        cursor.expect("(", f"before the {noun}")
        while not cursor.accept(")"):
            if cursor.token not in (".param", ".reg"):
                cursor.fail(f"'.param' or '.reg' in the {noun}")
            yield self._take_variable(self._take_form())
            if cursor.token != ")":
                cursor.expect(",", f"or ')' in the {noun}")

    def take_registers(self) -> Iterator[tuple[str, str]]:
        """Parse ``.reg .type %a, %r<10>;``; yield name and type of each register, ranges expanded."""
        cursor = self._cursor
        form = self._take_form()
        kind = form.type if form.lanes == 1 else f"v{form.lanes}.{form.type}"
        while True:
            name = cursor.take_name("the name of a register")
            if cursor.accept("<"):
                count = take_count(cursor, "a number of registers")
                self._reserve(count)
                yield from ((f"{name}{number}", kind) for number in range(count))
                cursor.expect(">", "after a number of registers")
            else:
                self._reserve(1)
                yield name, kind
            if not cursor.accept(","):
                break
        cursor.expect(";", "after registers")

    def _reserve(self, count: int) -> None:
        self._registers_left -= count
        if self._registers_left < 0:
            self._cursor.refuse(f"expected at most {self._max_registers} registers in a text of this length")

    def _take_form(self, linkage: str = "") -> _Form:
        cursor = self._cursor
        form = _Form(cursor.take()[1:], cursor.line, linkage)
        if form.space == "const" and cursor.accept("["):  # a bank, in PTX before version 2
            take_integer(cursor)
            cursor.expect("]", "after a bank of .const")
        while cursor.token.startswith("."):
            self._take_attribute(form, cursor.take()[1:])
        if not form.type:
            cursor.fail(f"a type for a variable in .{form.space}")
        return form

    def _take_attribute(self, form: _Form, word: str) -> None:
        cursor = self._cursor
        if word in TYPE_BYTES:
            form.type = word
        elif word in _VECTOR_ELEMENTS:
            form.lanes = _VECTOR_ELEMENTS[word]
        elif word == "align":
            form.alignment = self._take_alignment()
        elif word == "attribute":
            cursor.skip_group("(", ")")
        elif word == "ptr":  # space and alignment of what the pointer points to, not of the parameter
            while cursor.token.startswith("."):
                if cursor.take() == ".align":
                    self._take_alignment()
        else:
            cursor.at -= 1
            cursor.fail(f"a type or '.align' for a variable in .{form.space}")

    def _take_alignment(self) -> int:
        alignment = take_count(self._cursor, "an alignment in bytes")
        if not 0 < alignment <= _MAX_ALIGNMENT_BYTES or alignment & alignment - 1:
            self._cursor.refuse(f"expected a power of two up to {_MAX_ALIGNMENT_BYTES} as alignment, found {alignment}")
        return alignment

    def _take_variable(self, form: _Form) -> Variable:
        cursor = self._cursor
        name = cursor.take_name(f"the name of a variable in .{form.space}")
        dimensions = self._take_dimensions()
        scalar = not dimensions and form.lanes == 1
        if form.lanes > 1:
            dimensions.append(form.lanes)
        initial: bytes | None = None
        addresses: dict[int, str] = {}
        if cursor.accept("="):
            if form.type in _OPAQUE_TYPES:
                cursor.skip_group("{", "}")
            else:
                initial, addresses = self._take_initial(_Initial(form.type, dimensions))
        count = None if scalar else math.prod(dimensions)
        if (count or 1) * TYPE_BYTES[form.type] > MAX_VARIABLE_BYTES:
            cursor.refuse(f"expected at most {MAX_VARIABLE_BYTES} bytes in {name!r}")
        alignment = form.alignment or (form.lanes * TYPE_BYTES[form.type] if form.lanes > 1 else 0)
        return Variable(
            name, form.space, form.type, count, alignment, initial, addresses, linkage=form.linkage, line=form.line
        )

    def _take_dimensions(self) -> list[int]:
        cursor = self._cursor
        dimensions: list[int] = []
        while cursor.accept("["):
            if len(dimensions) == _MAX_DIMENSIONS:
                cursor.refuse(f"expected at most {_MAX_DIMENSIONS} dimensions")
            size = 0 if cursor.token == "]" and not dimensions else take_integer(cursor)
            if size < 0:
                cursor.refuse(f"expected a size of at least 0, found {size}")
            dimensions.append(size)
            cursor.expect("]", "after a size")
        return dimensions

    def _take_initial(self, initial: _Initial) -> tuple[bytes, dict[int, str]]:
        """Parse an initialiser; set the size of an open first dimension."""
        cursor, dimensions = self._cursor, initial.dimensions
        if cursor.token != "{":
            self._take_value(initial, 0)
            return bytes(initial.data), initial.addresses
        end = self._fill(initial, 0, 0)
        if dimensions and not dimensions[0]:
            dimensions[0] = -(-end // (math.prod(dimensions[1:]) or 1))
        return bytes(initial.data), initial.addresses

    def _fill(self, initial: _Initial, level: int, first: int) -> int:
        """Parse ``{...}``, whose elements start at `first`; return the start of the next group."""
        cursor, dimensions = self._cursor, initial.dimensions
        inner = math.prod(dimensions[level + 1 :])
        extent = (dimensions[level] if dimensions else 1) * inner
        bounded = extent > 0 or level > 0
        cursor.expect("{", "before the values of an array")
        position = first
        while not cursor.accept("}"):
            if bounded and position >= first + extent:
                cursor.refuse(f"expected at most {extent} values between braces")
            if cursor.token == "{":
                if level + 1 >= len(dimensions):
                    cursor.fail("a value: the array has no further dimension")
                position = self._fill(initial, level + 1, position)
            else:
                self._take_value(initial, position)
                position += 1
            if cursor.token != "}":
                cursor.expect(",", "or '}' after a value")
        return first + extent if bounded else position

    def _take_value(self, initial: _Initial, position: int) -> None:
        size = TYPE_BYTES[initial.type]
        offset = position * size
        grown = offset + size - len(initial.data)
        self._bytes_left -= max(0, grown)
        if self._bytes_left < 0:
            self._cursor.refuse(f"expected at most {MAX_INITIAL_BYTES} bytes of initial values in a module")
        initial.data.extend(bytes(max(0, grown)))
        if starts_constant(self._cursor.token):
            value = self._encode(take_constant(self._cursor), initial.type)
        else:
            symbol, addend = self._take_symbol(initial.type)
            initial.addresses[offset] = symbol
            value = (addend % (1 << 8 * size)).to_bytes(size, "little")
        initial.data[offset : offset + size] = value

    def _take_symbol(self, kind: str) -> tuple[str, int]:
        """Parse ``symbol`` or ``generic(symbol)``, with or without ``+ offset``."""
        cursor = self._cursor
        if not is_word(cursor.token) or TYPE_BYTES[kind] < 4:
            cursor.fail(f"a value of type .{kind}")
        generic = cursor.token == "generic" and cursor.tokens[cursor.at + 1] == "("
        cursor.at += 2 * generic
        symbol = cursor.take_name("a symbol whose address is taken")
        if generic:
            cursor.expect(")", "after a symbol")
        if cursor.token == "-":
            return symbol, take_integer(cursor)
        return symbol, take_integer(cursor) if cursor.accept("+") else 0

    def _encode(self, value: Integer | Float, kind: str) -> bytes:
        size = TYPE_BYTES[kind]
        exact = isinstance(value, Float) and value.width == 8 * size
        if kind in _FLOAT_FORMATS and not exact:
            number = float(value.value) if isinstance(value, Integer) else _decode(value)
            try:
                return struct.pack(_FLOAT_FORMATS[kind], number)
            except OverflowError:
                self._cursor.refuse(f"expected a value of type .{kind}, found {number}")
        bits = value.value if isinstance(value, Integer) else value.bits
        if not -1 << 8 * size - 1 <= bits < 1 << 8 * size:
            self._cursor.refuse(f"expected a value of type .{kind}, found {bits}")
        return (bits % (1 << 8 * size)).to_bytes(size, "little")


def _decode(value: Float) -> float:
    number: float = struct.unpack("<f" if value.width == 32 else "<d", value.bits.to_bytes(value.width // 8, "little"))[
        0
    ]
    return number
