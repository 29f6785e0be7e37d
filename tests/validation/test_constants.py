"""Loads from constant memory against the machine instructions that the assembler makes of them."""

from __future__ import annotations

import pytest

from rdmodel.timing.demands import uniform_load_words
from tracegen.ptx import parse
from tracegen.ptx.lowering.constants import GUARDED, INDEXED, OPERAND, constant_loads
from tracegen.ptx.lowering.lowering import lower_kernel
from validation.common.assembled import CAPABILITIES, read_record, table_of_cases
from validation.constants.__main__ import CASES, RECORD, WORDS, source

ROWS = {(row.case, row.capability): row.instructions for row in read_record(RECORD)}

OWN = {
    OPERAND: (),
    GUARDED: tuple(capability for capability in CAPABILITIES if int(capability) >= 90),
    INDEXED: CAPABILITIES,
}
"""Compute capabilities on which loads of a class are instructions (LDC)."""

MIXED = {"with a predicate"}
"""Cases of which the assembler makes two loads an LDC since 9.0, and the other six none."""


@pytest.mark.parametrize("case", [case for case in CASES if case not in MIXED])
def test_a_load_is_an_instruction_where_the_assembler_makes_one_of_it(case):
    classes = constant_loads(lower_kernel(parse(source(case), case), "k", {"w": 1 << 20}, 0))
    assert len(classes) == WORDS
    (name,) = set(classes.values())
    assert {c for c in CAPABILITIES if ROWS[case, c] == f"{WORDS} LDC"} == set(OWN[name])
    assert not any("LDC" in ROWS[case, c].split() for c in CAPABILITIES if c not in OWN[name])


def test_an_instruction_brings_as_many_neighbouring_words_as_the_record_has():
    for capability in CAPABILITIES:
        number = (int(capability) // 10, int(capability) % 10)
        words = uniform_load_words(number)
        found = ROWS["neighbours in straight code", capability]
        name = "FFMA" if not words else "ULDC" if number < (10, 0) else "LDCU"
        assert found == f"{WORDS // max(1, words)} {name}"


def test_the_record_has_every_case_and_the_table_each_in_order():
    assert ROWS.keys() == {(case, capability) for case in CASES for capability in CAPABILITIES}
    lines = table_of_cases(read_record(RECORD), CASES).splitlines()
    assert list(dict.fromkeys(next(case for case in CASES if line[:36].strip() == case) for line in lines)) == [*CASES]
