"""Test arithmetic of PTX on bfloat16 against exact fractions, and on packed numbers against that on single ones."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.ptx_kernels import compute

few = examples(30, least=4)
NAN = 0x7FFF
EDGES = [0x0000, 0x8000, 0x3F80, 0xBF80, 0x0001, 0x8001, 0x0080, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0, 0x3F81, 0x3300]
"""Zeros, ones, the least numbers, the greatest, infinities, a NaN, and two whose sum with 1 is between two numbers."""

PATTERNS = st.one_of(st.sampled_from(EDGES), st.integers(0, 0xFFFF))
TRIPLES = st.lists(st.tuples(PATTERNS, PATTERNS, PATTERNS), min_size=1, max_size=20)

OPERATIONS = {
    "add.rn": lambda a, b: a + b,
    "sub.rn": lambda a, b: a - b,
    "mul.rn": lambda a, b: a * b,
    "fma.rn": lambda a, b, c: a * b + c,
}
OPERANDS = {"fma.rn": 3, "abs": 1, "neg": 1}
"""Numbers of operands, where they are not 2."""


def number(pattern: int) -> float:
    """Return the number with these 16 bits."""
    return float(np.array([pattern << 16], np.uint32).view(np.float32)[0])


def nearest(exact: Fraction) -> int:
    """Return the bits of the bfloat16 nearest to a number that is not 0, ties to even."""
    size, sign = abs(exact), 0x8000 if exact < 0 else 0
    exponent = max(-126, size.numerator.bit_length() - size.denominator.bit_length())
    if exponent > -126 and Fraction(2) ** exponent > size:
        exponent -= 1
    steps = round(size / Fraction(2) ** (exponent - 7))  # rounds ties to even
    # The bits of the next number follow those of the number before, also from one exponent to the next.
    return sign | min(0x7F80, ((exponent + 126) << 7) + steps)


def expected(name: str, *patterns: int) -> int | None:
    """Return the bits of a result, or None for a zero, whose sign an exact number does not tell."""
    values = [number(pattern) for pattern in patterns]
    if all(map(math.isfinite, values)):
        exact = OPERATIONS[name](*map(Fraction, values))
        return nearest(exact) if exact else None
    result = OPERATIONS[name](*values)
    return {math.inf: 0x7F80, -math.inf: 0xFF80}.get(result, NAN)


def instruction(name: str, kind: str, registers: str) -> str:
    """Return an instruction on registers of a width, such as %ha, %hb and %hc."""
    return f"{name}.{kind} %{registers}d, {', '.join(f'%{registers}{at}' for at in 'abc'[: OPERANDS.get(name, 2)])};"


@pytest.mark.parametrize("name", OPERATIONS)
@few
@given(TRIPLES)
def test_arithmetic_on_bfloat16_rounds_once(name, triples):
    used = [triple[: OPERANDS.get(name, 2)] for triple in triples]
    columns = (np.array(column, np.uint64) for column in zip(*used, strict=True))
    found = compute(instruction(name, "bf16", "h"), *columns)[0].tolist()
    for got, patterns in zip(found, used, strict=True):
        wanted = expected(name, *patterns)
        assert got & 0x7FFF == 0 if wanted is None else got == wanted, [hex(pattern) for pattern in patterns]


@pytest.mark.parametrize("beyond", [0x2180, 0xA180])  # 2^-60 and -2^-60
def test_what_lies_beyond_double_precision_decides_between_two_numbers(beyond):
    middle = Fraction(7) * Fraction(37, 256)  # of 258/256 and 260/256
    found = compute(instruction("fma.rn", "bf16", "h"), [0x40E0], [0x3E14], [beyond])[0].tolist()
    assert found == [nearest(middle + Fraction(number(beyond)))] == [0x3F82 if beyond < 0x8000 else 0x3F81]


HALVES = [(name, kind) for name in (*OPERATIONS, "min", "max", "min.NaN", "abs", "neg") for kind in ("bf16", "f16")]
SINGLES = [(name, "f32") for name in OPERATIONS]


@pytest.mark.parametrize(("name", "kind"), [*HALVES, *SINGLES])
@few
@given(TRIPLES, TRIPLES)
def test_packed_numbers_are_computed_as_single_ones(name, kind, low, high):
    bits = 32 if kind == "f32" else 16
    count, used = min(len(low), len(high)), OPERANDS.get(name, 2)
    parts = [np.array(part[:count], np.uint64).T[:used] << (bits - 16) for part in (low, high)]
    one, packed = ("h", "x") if bits == 16 else ("x", "w")
    low_results, high_results = (compute(instruction(name, kind, one), *part)[0] for part in parts)
    found = compute(instruction(name, f"{kind}x2", packed), *(parts[0] | parts[1] << bits))[0]
    assert found.tolist() == (low_results | high_results << bits).tolist()
