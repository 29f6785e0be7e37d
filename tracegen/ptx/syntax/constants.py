"""Parse literals and constant expressions (PTX ISA, 'Constants').

Integers have 64 bits, and overflow wraps around, as in the assembler. Floating-point numbers are literals with an
optional sign.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable

from tracegen.ptx.syntax.ast import Float, Integer
from tracegen.ptx.syntax.lexer import Cursor, is_word

WARP_SIZE = 32
"""Value of ``WARP_SZ``."""

_MAX_PARENTHESES = 32
"""Maximum depth of nested parentheses in an expression."""

_MAX_DIGITS = 80
"""Maximum number of digits of an integer literal: 64 in binary, and some leading zeros."""

_SINGLE_LITERAL = re.compile(r"0[fF]([0-9a-fA-F]{8})")
_DOUBLE_LITERAL = re.compile(r"0[dD]([0-9a-fA-F]{16})")
_INTEGER_LITERAL = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)U?")
_DECIMAL_LITERAL = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_Operation = Callable[[int, int], int]
_BINARY_OPERATORS: dict[str, tuple[int, _Operation]] = {
    "||": (1, lambda a, b: int(bool(a or b))),
    "&&": (2, lambda a, b: int(bool(a and b))),
    "|": (3, operator.or_),
    "^": (4, operator.xor),
    "&": (5, operator.and_),
    "==": (6, lambda a, b: int(a == b)),
    "!=": (6, lambda a, b: int(a != b)),
    "<": (7, lambda a, b: int(a < b)),
    "<=": (7, lambda a, b: int(a <= b)),
    ">": (7, lambda a, b: int(a > b)),
    ">=": (7, lambda a, b: int(a >= b)),
    "<<": (8, lambda a, b: a << b if 0 <= b < 64 else 0),
    ">>": (8, lambda a, b: a >> b if 0 <= b < 64 else 0),
    "+": (9, operator.add),
    "-": (9, operator.sub),
    "*": (10, operator.mul),
    "/": (10, lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)),
    "%": (10, lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1)),
}
_UNARY_OPERATORS: dict[str, Callable[[int], int]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "!": operator.not_,
}


def starts_constant(token: str) -> bool:
    """Return whether a constant can start with `token`."""
    number = token[1:2] if token.startswith(".") else token[:1]
    return number.isdigit() or token in _UNARY_OPERATORS or token in ("(", "WARP_SZ")


def take_constant(cursor: Cursor) -> Integer | Float:
    """Parse a constant: a floating-point literal with its sign, or an integer expression."""
    negative = cursor.token == "-"
    literal = cursor.tokens[cursor.at + negative]
    number = _read_float(literal)
    if number is None:
        return Integer(take_integer(cursor))
    cursor.at += 1 + negative
    return Float(number.bits ^ 1 << number.width - 1, number.width) if negative else number


def take_integer(cursor: Cursor) -> int:
    """Parse an integer expression and return its value, -2^63 to 2^64 - 1."""
    return _take_binary(cursor, 1, 0)


def take_count(cursor: Cursor, noun: str) -> int:
    """Parse one non-negative integer literal; `noun` names it in errors."""
    if not cursor.token[:1].isdigit():
        cursor.fail(noun)
    return _take_literal(cursor)


def _take_binary(cursor: Cursor, least: int, depth: int) -> int:
    """Parse operators of at least the precedence `least`, from the left (precedence climbing)."""
    value = _take_unary(cursor, depth)
    while (operator_entry := _BINARY_OPERATORS.get(cursor.token)) and operator_entry[0] >= least:
        sign = cursor.take()
        right = _take_binary(cursor, operator_entry[0] + 1, depth)
        if sign in "/%" and not right:
            cursor.refuse("expected a divisor other than 0")
        value = _wrap(operator_entry[1](value, right))
    return value


def _take_unary(cursor: Cursor, depth: int) -> int:
    signs = []
    while cursor.token in _UNARY_OPERATORS:
        signs.append(cursor.take())
    if cursor.token == "(":
        if depth == _MAX_PARENTHESES:
            cursor.refuse(f"expected at most {_MAX_PARENTHESES} nested parentheses")
        cursor.at += 1
        value = _take_binary(cursor, 1, depth + 1)
        cursor.expect(")", "to close an expression")
    elif cursor.accept("WARP_SZ"):
        value = WARP_SIZE
    else:
        value = _take_literal(cursor)
    for sign in reversed(signs):
        value = _wrap(int(_UNARY_OPERATORS[sign](value)))
    return value


def _take_literal(cursor: Cursor) -> int:
    token = cursor.token
    match = _INTEGER_LITERAL.fullmatch(token)
    if not match:
        cursor.fail("an integer" if is_word(token) or not token[:1].isdigit() else "an integer in PTX's notation")
    digits = match[1]
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567"
    value = -1 if len(digits) > _MAX_DIGITS else int(digits, 8 if octal else 0)
    if not 0 <= value < 1 << 64:
        cursor.fail("an integer of at most 64 bits")
    cursor.at += 1
    return value


def _read_float(literal: str) -> Float | None:
    if match := _SINGLE_LITERAL.fullmatch(literal):
        return Float(int(match[1], 16), 32)
    if match := _DOUBLE_LITERAL.fullmatch(literal):
        return Float(int(match[1], 16), 64)
    if not literal.strip("0123456789") or not _DECIMAL_LITERAL.fullmatch(literal):
        return None
    return Float(int.from_bytes(struct.pack("<d", float(literal)), "little"), 64)


def _wrap(value: int) -> int:
    return value if -1 << 63 <= value < 1 << 64 else (value + (1 << 63)) % (1 << 64) - (1 << 63)
