"""Merged accesses to shared memory against the vectors that the assembler makes of them."""

from __future__ import annotations

import dataclasses

import pytest

from tracegen.ptx import parse
from tracegen.ptx.lowering.lowering import lower_kernel
from validation.common.assembled import CAPABILITIES, read_record, table_of_cases
from validation.vectors.__main__ import ALL_CASES, RECORD, RELOCATABLE, source

ROWS = {(row.case, row.capability): row.instructions for row in read_record(RECORD)}

NAMES = {"LOAD": "LDS", "STORE": "STS"}

LESS_ON_SOME = {"an array behind one of five words"}
"""Cases in which units do not begin with a word of the array: the assembler finds them for earlier GPUs."""


@pytest.mark.parametrize("case", ALL_CASES)
def test_the_accesses_of_a_case_are_those_of_its_machine_instructions(case):
    module = dataclasses.replace(parse(source(case), case), relocatable=case in RELOCATABLE)
    kernel = lower_kernel(module, "k", {}, 0)
    steps = [step for step in kernel.steps if step.space == "SHARED"]
    bits = [step.count * step.width for step in steps]
    bits = [128 if each == 96 else each for each in bits]
    names = [NAMES[step.op] + (f".{width}" if width > 32 else "") for step, width in zip(steps, bits, strict=True)]
    found = " ".join(sorted(names))
    later = {ROWS[case, capability] for capability in CAPABILITIES if int(capability) >= 90}
    assert later == {found}
    earlier = {ROWS[case, capability] for capability in CAPABILITIES if int(capability) < 90}
    assert (earlier == {found}) == (case not in LESS_ON_SOME)


def test_the_record_has_every_case_and_the_table_each_in_order():
    assert ROWS.keys() == {(case, capability) for case in ALL_CASES for capability in CAPABILITIES}
    lines = table_of_cases(read_record(RECORD), ALL_CASES).splitlines()
    width = 2 + max(map(len, ALL_CASES))
    assert list(dict.fromkeys(line[:width].strip() for line in lines)) == [*ALL_CASES]
