"""Parse index expressions, without `eval`, and turn them into affine forms.

::

    condition  = sum (("<" | "<=" | ">" | ">=" | "==") sum)+
    sum        = product (("+" | "-") product)*
    product    = unary (("*" | "//" | "%") unary)*
    unary      = "-" unary | number | name | "(" sum ")" | ("min" | "max") "(" sum ("," sum)+ ")"

One factor of a product must be constant, that is, made of numbers and parameters; so must both sides of ``//`` and
``%``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import TraceError, unknown
from tracegen.affine.affine_form import Affine, Bound, Extreme, map_affine

Expression = int | str
"""A number, or text to parse."""

MAX_NUMBER = (1 << 63) - 1
"""The largest number in an expression, and the largest value of a parameter or a constant part of an expression."""

MAX_EXPRESSION_CHARACTERS = 1000
"""Maximum number of characters of an expression."""

MAX_EXPRESSION_DEPTH = 40
"""Maximum depth of nested parentheses, signs and calls."""

COMPARISON_SIGNS = ("<=", ">=", "==", "<", ">")
EXTREME_FUNCTIONS = ("min", "max")
"""Signs of comparisons, the longer ones first, and functions of expressions."""

_EXPRESSION_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(<=|>=|==|//|[-+*%(),<>]))", re.ASCII)
_MAX_QUOTED_EXPRESSION = 60


@dataclass(frozen=True, slots=True)
class ExpressionNode:
    """A part of a parsed expression: an operator (`kind`) with operands, a "number" or a "name"."""

    kind: str
    operands: tuple[ExpressionNode, ...] = ()
    number: int = 0
    name: str = ""


def evaluate_affine(expression: Expression, scope: Mapping[str, Affine]) -> Affine:
    """Return an expression as an affine form, in which the forms in `scope` replace names.

    Raises `TraceError` for a malformed expression, for an unknown name, and for an expression that is not affine.
    """
    value = evaluate_bound(expression, scope)
    if isinstance(value, Extreme):
        raise TraceError(f"{quote_expression(expression)}: {value.kind}() is allowed in the bounds of loops only")
    return value


def evaluate_bound(expression: Expression, scope: Mapping[str, Affine]) -> Bound:
    """Return an expression as the bound of a loop: like `evaluate_affine`, but min() and max() are allowed."""
    try:
        return _evaluate(parse_expression(expression), scope)
    except _ExpressionError as mistake:
        raise TraceError(f"{quote_expression(expression)}: {mistake}") from None


def evaluate_constant(expression: Expression, scope: Mapping[str, Affine]) -> int:
    """Return the value of an expression that is made of numbers and parameters; raise `TraceError` for others."""
    form = evaluate_affine(expression, scope)
    if form.terms:
        raise TraceError(f"{quote_expression(expression)}: must be made of numbers and parameters")
    return form.constant


def evaluate_condition(text: str, scope: Mapping[str, Affine]) -> tuple[Affine, ...]:
    """Return a condition, a chain of comparisons, as affine forms that must all be at least 0."""
    root = parse_condition(text)
    try:
        sides = [_require_affine(_evaluate(side, scope)) for side in root.operands]
    except _ExpressionError as mistake:
        raise TraceError(f"{quote_expression(text)}: {mistake}") from None
    forms: list[Affine] = []
    for sign, left, right in zip(root.name.split(), sides, sides[1:], strict=False):
        if sign in (">", ">=", "=="):
            forms.append((left - right).plus(-1 if sign == ">" else 0))
        if sign in ("<", "<=", "=="):
            forms.append((right - left).plus(-1 if sign == "<" else 0))
    return tuple(forms)


def parse_expression(expression: Expression) -> ExpressionNode:
    """Parse an expression; raise `TraceError` if it is malformed."""
    if isinstance(expression, int) and not isinstance(expression, bool):
        if abs(expression) > MAX_NUMBER:
            raise TraceError(f"{quote_expression(str(expression))}: numbers are at most 2^63 - 1")
        return ExpressionNode("number", number=expression)
    if not isinstance(expression, str):
        raise TraceError(f"{expression!r:.60}: must be a whole number or an expression in text")
    return _parse_text(expression, False)


def parse_condition(text: str) -> ExpressionNode:
    """Parse a condition into a node with the signs in its name; raise `TraceError` if it is malformed."""
    if not isinstance(text, str):
        raise TraceError(f"{text!r:.60}: must be a condition in text, such as 'i < N'")
    return _parse_text(text, True)


def quote_expression(expression: Expression) -> str:
    """Quote an expression for a message, and shorten a long one."""
    text = str(expression)
    return repr(text if len(text) <= _MAX_QUOTED_EXPRESSION else text[:_MAX_QUOTED_EXPRESSION] + "...")


# ---- text to nodes


class _ExpressionError(Exception):
    """A mistake in an expression; the message does not contain the expression."""


@lru_cache(maxsize=4096)
def _parse_text(text: str, compares: bool) -> ExpressionNode:
    try:
        if len(text) > MAX_EXPRESSION_CHARACTERS:
            raise _ExpressionError(f"{len(text)} characters, at most {MAX_EXPRESSION_CHARACTERS} are allowed")
        parser = _Parser(_tokens(text))
        root = parser.comparison() if compares else parser.sum()
        if parser.token:
            raise _ExpressionError(f"{parser.token!r} is unexpected")
    except _ExpressionError as mistake:
        raise TraceError(f"{quote_expression(text)}: {mistake}") from None
    return root


def _tokens(text: str) -> list[str]:
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = _EXPRESSION_TOKEN.match(text, at)
        if match is None:
            raise _ExpressionError(f"{text[at:].lstrip()[:1]!r} is not allowed in an expression")
        tokens.append(match[0].strip())
        at = match.end()
    return tokens


class _Parser:
    """Recursive-descent parser with one method per rule of the grammar."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = self._depth = 0

    @property
    def token(self) -> str:
        """The next token, empty at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self, *wanted: str) -> str:
        """Consume and return the next token if it is one of `wanted`; otherwise return an empty string."""
        token = self.token
        if token not in wanted:
            return ""
        self._at += 1
        return token

    def comparison(self) -> ExpressionNode:
        sides, signs = [self.sum()], []
        while sign := self.take(*COMPARISON_SIGNS):
            signs.append(sign)
            sides.append(self.sum())
        if not signs:
            raise _ExpressionError("is not a condition: must compare two expressions with <, <=, >, >= or ==")
        return ExpressionNode("compare", tuple(sides), name=" ".join(signs))

    def sum(self) -> ExpressionNode:
        node = self.product()
        while sign := self.take("+", "-"):
            node = ExpressionNode(sign, (node, self.product()))
        return node

    def product(self) -> ExpressionNode:
        node = self.unary()
        while sign := self.take("*", "//", "%"):
            node = ExpressionNode(sign, (node, self.unary()))
        return node

    def unary(self) -> ExpressionNode:
        self._depth += 1
        if self._depth > MAX_EXPRESSION_DEPTH:
            raise _ExpressionError(f"is nested deeper than {MAX_EXPRESSION_DEPTH}")
        node = ExpressionNode("negative", (self.unary(),)) if self.take("-") else self.atom()
        self._depth -= 1
        return node

    def atom(self) -> ExpressionNode:
        token = self.token
        self._at += 1
        if token.isdigit():
            if len(token) > 19 or int(token) > MAX_NUMBER:
                raise _ExpressionError("numbers are at most 2^63 - 1")
            return ExpressionNode("number", number=int(token))
        if token == "(":
            node = self.sum()
            self._close()
            return node
        if token in EXTREME_FUNCTIONS:
            return self._extreme(token)
        if token and (token[0].isalpha() or token[0] == "_"):
            if self.token == "(":
                raise _ExpressionError(f"{token}() is not a function; the functions are min() and max()")
            return ExpressionNode("name", name=token)
        raise _ExpressionError(f"{token!r} stands where a number or a name should" if token else "ends too early")

    def _extreme(self, kind: str) -> ExpressionNode:
        if not self.take("("):
            raise _ExpressionError(f"{kind} needs parentheses")
        operands = [self.sum()]
        while self.take(","):
            operands.append(self.sum())
        self._close()
        return ExpressionNode(kind, tuple(operands))

    def _close(self) -> None:
        if not self.take(")"):
            raise _ExpressionError("a parenthesis is not closed")


# ---- nodes to forms


def _evaluate(node: ExpressionNode, scope: Mapping[str, Affine]) -> Bound:
    if node.kind == "number":
        return Affine(node.number)
    if node.kind == "name":
        if node.name not in scope:
            raise _ExpressionError(unknown("name", node.name, scope))
        return scope[node.name]
    if node.kind in _BINARY_OPERATORS:
        return _chain(node, scope)
    operands = [_evaluate(operand, scope) for operand in node.operands]
    if node.kind == "negative":
        return _times(operands[0], -1)
    if all(isinstance(o, Affine) and not o.terms for o in operands):
        numbers = [_require_affine(o).constant for o in operands]
        return Affine(min(numbers) if node.kind == "min" else max(numbers))
    return Extreme("min" if node.kind == "min" else "max", tuple(operands))


def _chain(node: ExpressionNode, scope: Mapping[str, Affine]) -> Bound:
    """Evaluate a + b - c ... from the left, without recursion, since the tree is as deep as the chain is long."""
    rest: list[ExpressionNode] = []
    while node.kind in _BINARY_OPERATORS:
        rest.append(node)
        node = node.operands[0]
    total = _evaluate(node, scope)
    for operation in reversed(rest):
        operand = _evaluate(operation.operands[1], scope)
        total = _check_numbers(_BINARY_OPERATORS[operation.kind](total, operand))
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
        dividend, divisor = _require_affine(left).constant, _require_affine(right).constant
        if divisor == 0:
            raise _ExpressionError("divides by 0")
        return Affine(dividend // divisor if sign == "//" else dividend % divisor)

    return divide


_BINARY_OPERATORS: dict[str, Callable[[Bound, Bound], Bound]] = {
    "+": _add,
    "-": lambda left, right: _add(left, _times(right, -1)),
    "*": _product,
    "//": _division("//"),
    "%": _division("%"),
}


def _require_affine(value: Bound) -> Affine:
    if isinstance(value, Extreme):
        raise _ExpressionError(f"{value.kind}() is allowed in the bounds of loops only")
    return value


def _check_numbers(value: Bound) -> Bound:
    """Return a value; raise an error for numbers beyond 2^63, before they grow further."""
    if isinstance(value, Affine):
        if max(abs(value.constant), *(abs(c) for _, c in value.terms), 0) > MAX_NUMBER:
            raise _ExpressionError("has numbers beyond 2^63")
    else:
        for operand in value.operands:
            _check_numbers(operand)
    return value
