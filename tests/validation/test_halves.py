"""Contracted, packed and folded arithmetic against the machine instructions that the assembler makes of it."""

from __future__ import annotations

from collections import Counter

import pytest

from tracegen.ptx import parse
from tracegen.ptx.lowering.lowering import lower_kernel
from validation.common.assembled import CAPABILITIES, read_record, table_of_cases
from validation.halves.__main__ import ALL_CASES, CONTRACTED, FOLDED, PACKED, RECORD, source

ROWS = {(row.case, row.capability): row.instructions for row in read_record(RECORD)}

CLASSES = {
    **dict.fromkeys(("HFMA2", "HADD2", "HMUL2"), "fp16"),
    **dict.fromkeys(("FFMA", "FADD", "FMUL"), "fp32"),
    **dict.fromkeys(("DFMA", "DADD", "DMUL"), "fp64"),
    **dict.fromkeys(("I2F", "F2I", "F2F", "F2FP"), "conversion"),
    "PRMT": "permutation",
}

CONVERSIONS = dict.fromkeys(("conversion_64", "int_to_fp32", "pack_fp16", "fp16_to_fp32"), "conversion")
"""Classes that are conversions, too."""

OTHERS = ("int", "other", "branch", "barrier")
"""Classes of the instructions around the cases."""

MORE_PAIRS = {
    "two dot products of 8": 8,
    "four dot products of 4": 8,
    "three chains of 2, by depth": 3,
    "halves of vectors, exchanged": 1,
}
"""Cases in which the assembler leaves operations apart that the rule packs, with the instructions by the rule."""


def of_machine_code(case: str, capability: str) -> Counter[str]:
    """Return the instructions of a case by class, as the assembler made them."""
    found = Counter[str]()
    fields = ROWS[case, capability].replace("none", "").split()
    for count, name in zip(fields[::2], fields[1::2], strict=True):
        found[CLASSES[name]] += int(count)
    return found


def by_rules(case: str) -> Counter[str]:
    """Return the instructions of a case by class, as the rules have them."""
    found = Counter[str]()
    for step in lower_kernel(parse(source(case), case), "k", {}, 0).steps:
        if "COUNTED" in step.flags:
            code = step.machine_code()
            classes = {"permutation": code.classes.get("int", 0)} if code.latency else code.classes
            found.update({CONVERSIONS.get(name, name): count for name, count in classes.items() if name not in OTHERS})
    return found


@pytest.mark.parametrize("case", PACKED)
def test_pairs_of_operations_are_those_of_the_machine_code(case):
    expected = {of_machine_code(case, each)["fp16"] for each in CAPABILITIES if ROWS[case, each]}
    found = by_rules(case)["fp16"]
    assert (expected == {found}) == (case not in MORE_PAIRS)
    assert found == MORE_PAIRS.get(case, found)


def test_permutations_are_about_as_many_as_in_the_machine_code():
    found = {case: by_rules(case)["permutation"] for case in PACKED}
    for each in CAPABILITIES:
        cases = [case for case in PACKED if ROWS[case, each]]
        expected = {case: of_machine_code(case, each)["permutation"] for case in cases}
        assert sum(found[case] for case in cases) == pytest.approx(sum(expected.values()), rel=0.07)
        assert sum(found[case] == expected[case] for case in cases) >= 0.6 * len(cases)


@pytest.mark.parametrize("case", CONTRACTED)
def test_contracted_products_are_those_of_the_machine_code(case):
    assert {str(of_machine_code(case, each)) for each in CAPABILITIES} == {str(by_rules(case))}


@pytest.mark.parametrize("case", FOLDED)
def test_folded_conversions_are_those_of_the_machine_code(case):
    later = {of_machine_code(case, each)["conversion"] for each in CAPABILITIES if ROWS[case, each]}
    assert later == {by_rules(case)["conversion"]}


def test_the_record_has_every_case_and_the_table_each_in_order():
    assert ROWS.keys() == {(case, capability) for case in ALL_CASES for capability in CAPABILITIES}
    lines = table_of_cases(read_record(RECORD), ALL_CASES).splitlines()
    width = 2 + max(map(len, ALL_CASES))
    assert list(dict.fromkeys(line[:width].strip() for line in lines)) == [*ALL_CASES]
