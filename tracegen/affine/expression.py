"""Index expressions as text: parsed without `eval`, and turned into affine forms.

::

    condition  = sum (("<" | "<=" | ">" | ">=" | "==") sum)+
    sum        = product (("+" | "-") product)*
    product    = unary (("*" | "//" | "%") unary)*
    unary      = "-" unary | number | name | "(" sum ")" | ("min" | "max") "(" sum ("," sum)+ ")"

One factor of a product must be known, that is, be made of numbers and parameters; so must both sides of ``//`` and
``%``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from rdmodel.errors import TraceError, unknown
from tracegen.affine.affine_form import Affine, Bound, Extreme, map_affine

Expression = int | str
"""A number, or text to parse."""

MOST = (1 << 63) - 1
"""The largest number that may be written, or that a parameter or a known part of an expression may have."""

MOST_TEXT = 1000
"""Characters of an expression."""

MOST_DEPTH = 40
"""Parentheses, signs and calls of an expression within each other."""

COMPARISONS = ("<=", ">=", "==", "<", ">")
EXTREMES = ("min", "max")

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(<=|>=|==|//|[-+*%(),<>]))", re.ASCII)
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Node:
    """A part of a parsed expression: an operator (`kind`) with operands, or a "number" or "name"."""

    kind: str
    operands: tuple[Node, ...] = ()
    number: int = 0
    name: str = ""


def affine(expression: Expression, scope: Mapping[str, Affine]) -> Affine:
    """Return an expression as an affine form, names replaced by those in `scope`.

    Raises `TraceError` for text that is no expression, an unknown name, and what is not affine.
    """
    bound_of_it = bound(expression, scope)
    if isinstance(bound_of_it, Extreme):
        raise TraceError(f"{shown(expression)}: {bound_of_it.kind}() may stand in the bounds of loops only")
    return bound_of_it


def bound(expression: Expression, scope: Mapping[str, Affine]) -> Bound:
    """Return the bound of a loop: as `affine`, but min() and max() are allowed."""
    try:
        return _evaluate(parse(expression), scope)
    except _ExpressionError as mistake:
        raise TraceError(f"{shown(expression)}: {mistake}") from None


def known(expression: Expression, scope: Mapping[str, Affine]) -> int:
    """Return the number that an expression of numbers and parameters is; raises `TraceError` for others."""
    found = affine(expression, scope)
    if found.terms:
        raise TraceError(f"{shown(expression)}: must be made of numbers and parameters")
    return found.constant


def condition(text: str, scope: Mapping[str, Affine]) -> tuple[Affine, ...]:
    """Return a condition, comparisons in a row, as affine forms that all have to be at least 0."""
    root = parse_condition(text)
    try:
        sides = [_affine(_evaluate(side, scope)) for side in root.operands]
    except _ExpressionError as mistake:
        raise TraceError(f"{shown(text)}: {mistake}") from None
    forms: list[Affine] = []
    for sign, left, right in zip(root.name.split(), sides, sides[1:], strict=False):
        if sign in (">", ">=", "=="):
            forms.append((left - right).plus(-1 if sign == ">" else 0))
        if sign in ("<", "<=", "=="):
            forms.append((right - left).plus(-1 if sign == "<" else 0))
    return tuple(forms)


def parse(expression: Expression) -> Node:
    """Return the parsed expression; raises `TraceError` for what is none."""
    if isinstance(expression, int) and not isinstance(expression, bool):
        if abs(expression) > MOST:
            raise TraceError(f"{shown(str(expression))}: numbers are at most 2^63 - 1")
        return Node("number", number=expression)
    if not isinstance(expression, str):
        raise TraceError(f"{expression!r:.60}: must be a whole number or an expression in text")
    return _parse(expression, False)


def parse_condition(text: str) -> Node:
    """Return the parsed condition, a node with the signs in its name; raises `TraceError` for what is none."""
    if not isinstance(text, str):
        raise TraceError(f"{text!r:.60}: must be a condition in text, such as 'i < N'")
    return _parse(text, True)


def shown(expression: Expression) -> str:
    """Return an expression as messages show it: quoted, cut if it is long."""
    text = str(expression)
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


# ---- text to nodes


class _ExpressionError(Exception):
    """What is wrong with an expression, without the expression."""


@lru_cache(maxsize=4096)
def _parse(text: str, compares: bool) -> Node:
    try:
        if len(text) > MOST_TEXT:
            raise _ExpressionError(f"{len(text)} characters, at most {MOST_TEXT} are allowed")
        parser = _Parser(_tokens(text))
        root = parser.comparison() if compares else parser.sum()
        if parser.token:
            raise _ExpressionError(f"{parser.token!r} comes unexpected")
    except _ExpressionError as mistake:
        raise TraceError(f"{shown(text)}: {mistake}") from None
    return root


def _tokens(text: str) -> list[str]:
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise _ExpressionError(f"{text[at:].lstrip()[:1]!r} has no meaning here")
        tokens.append(found[0].strip())
        at = found.end()
    return tokens


class _Parser:
    """Reads tokens one by one; a method per rule of the grammar."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = self._depth = 0

    @property
    def token(self) -> str:
        """The next token, empty at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self, *wanted: str) -> str:
        """Return the next token and step over it, if it is one of `wanted`; else nothing."""
        token = self.token
        if token not in wanted:
            return ""
        self._at += 1
        return token

    def comparison(self) -> Node:
        sides, signs = [self.sum()], []
        while sign := self.take(*COMPARISONS):
            signs.append(sign)
            sides.append(self.sum())
        if not signs:
            raise _ExpressionError("is no condition: it compares nothing with <, <=, >, >= or ==")
        return Node("compare", tuple(sides), name=" ".join(signs))

    def sum(self) -> Node:
        node = self.product()
        while sign := self.take("+", "-"):
            node = Node(sign, (node, self.product()))
        return node

    def product(self) -> Node:
        node = self.unary()
        while sign := self.take("*", "//", "%"):
            node = Node(sign, (node, self.unary()))
        return node

    def unary(self) -> Node:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise _ExpressionError(f"is nested deeper than {MOST_DEPTH}")
        node = Node("negative", (self.unary(),)) if self.take("-") else self.atom()
        self._depth -= 1
        return node

    def atom(self) -> Node:
        token = self.token
        self._at += 1
        if token.isdigit():
            if len(token) > 19 or int(token) > MOST:
                raise _ExpressionError("numbers are at most 2^63 - 1")
            return Node("number", number=int(token))
        if token == "(":
            node = self.sum()
            self._close()
            return node
        if token in EXTREMES:
            return self._extreme(token)
        if token and (token[0].isalpha() or token[0] == "_"):
            if self.token == "(":
                raise _ExpressionError(f"{token}() is no function: there are min() and max()")
            return Node("name", name=token)
        raise _ExpressionError(f"{token!r} stands where a number or a name should" if token else "ends too early")

    def _extreme(self, kind: str) -> Node:
        if not self.take("("):
            raise _ExpressionError(f"{kind} needs parentheses")
        operands = [self.sum()]
        while self.take(","):
            operands.append(self.sum())
        self._close()
        return Node(kind, tuple(operands))

    def _close(self) -> None:
        if not self.take(")"):
            raise _ExpressionError("a parenthesis is not closed")


# ---- nodes to forms


def _evaluate(node: Node, scope: Mapping[str, Affine]) -> Bound:
    if node.kind == "number":
        return Affine(node.number)
    if node.kind == "name":
        if node.name not in scope:
            raise _ExpressionError(unknown("name", node.name, scope))
        return scope[node.name]
    if node.kind in _BINARY:
        return _chain(node, scope)
    operands = [_evaluate(operand, scope) for operand in node.operands]
    if node.kind == "negative":
        return _times(operands[0], -1)
    if all(isinstance(o, Affine) and not o.terms for o in operands):
        numbers = [_affine(o).constant for o in operands]
        return Affine(min(numbers) if node.kind == "min" else max(numbers))
    return Extreme("min" if node.kind == "min" else "max", tuple(operands))


def _chain(node: Node, scope: Mapping[str, Affine]) -> Bound:
    """Compute a + b - c ... from the left: a chain is as deep as it is long, so it is not descended into."""
    rest: list[Node] = []
    while node.kind in _BINARY:
        rest.append(node)
        node = node.operands[0]
    total = _evaluate(node, scope)
    for one in reversed(rest):
        total = _checked(_BINARY[one.kind](total, _evaluate(one.operands[1], scope)))
    return total


def _add(left: Bound, right: Bound) -> Bound:
    if isinstance(right, Affine):
        return map_affine(left, lambda form: form + right)
    if isinstance(left, Affine):
        return map_affine(right, lambda form: form + left)
    raise _ExpressionError(f"adds {left.kind}() to {right.kind}(), which is not affine")


def _times(value: Bound, factor: int) -> Bound:
    if isinstance(value, Extreme) and factor < 0:
        value, factor = value.negated(), -factor
    return map_affine(value, lambda form: form.times(factor))


def _product(left: Bound, right: Bound) -> Bound:
    for factor, other in ((left, right), (right, left)):
        if isinstance(factor, Affine) and not factor.terms:
            return _times(other, factor.constant)
    raise _ExpressionError("is not affine: a product needs a factor made of numbers and parameters")


def _division(sign: str) -> Callable[[Bound, Bound], Bound]:
    def divide(left: Bound, right: Bound) -> Bound:
        if any(isinstance(o, Extreme) or o.terms for o in (left, right)):
            raise _ExpressionError(f"is not affine: both sides of {sign} must be made of numbers and parameters")
        dividend, divisor = _affine(left).constant, _affine(right).constant
        if divisor == 0:
            raise _ExpressionError("divides by 0")
        return Affine(dividend // divisor if sign == "//" else dividend % divisor)

    return divide


_BINARY: dict[str, Callable[[Bound, Bound], Bound]] = {
    "+": _add,
    "-": lambda left, right: _add(left, _times(right, -1)),
    "*": _product,
    "//": _division("//"),
    "%": _division("%"),
}


def _affine(value: Bound) -> Affine:
    if isinstance(value, Extreme):
        raise _ExpressionError(f"{value.kind}() may stand in the bounds of loops only")
    return value


def _checked(value: Bound) -> Bound:
    """Refuse numbers beyond 2^63, before they grow on."""
    if isinstance(value, Affine):
        if max(abs(value.constant), *(abs(c) for _, c in value.terms), 0) > MOST:
            raise _ExpressionError("has numbers beyond 2^63")
    else:
        for operand in value.operands:
            _checked(operand)
    return value
