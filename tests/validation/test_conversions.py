"""Classes of conversions against the machine instructions that the assembler made of them."""

from __future__ import annotations

import pytest

from rdmodel.trace.conversion_units import by_unit
from tracegen.ptx.lowering.machine_code import machine_code
from tracegen.ptx.syntax.ast import Instruction, Register
from validation.common.assembled import CAPABILITIES, read_record
from validation.conversions.__main__ import CONVERSIONS, RECORD, source, table

UNITS = {
    **dict.fromkeys(("I2F", "F2I", "F2F", "FRND", "I2I"), "conversion"),
    **dict.fromkeys(("I2FP", "F2FP", "PRMT", "SHF", "LOP3", "IMNMX", "VIMNMX", "FSETP", "IMAD"), "int"),
    "HADD2": "fp16",
    "FADD": "fp32",
}
"""Class whose units execute a machine instruction (SASS)."""

ROWS = {(row.case, row.capability): row.instructions for row in read_record(RECORD)}


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_the_units_of_a_conversion_are_those_of_its_machine_instructions(conversion):
    code = machine_code(Instruction("cvt", tuple(conversion.split(".")), (Register("%r1"), Register("%r2"))))
    for capability in CAPABILITIES:
        found: dict[str, int] = {}
        for name in ROWS[conversion, capability].replace("none", "").split():
            unit = UNITS[name.split(".")[0]]
            if unit == "conversion" and "64" in name:
                unit = "conversion_64"  # at a rate of its own
            found[unit] = found.get(unit, 0) + 1
        if ROWS[conversion, capability]:
            assert by_unit(code.classes, (int(capability[:-1]), int(capability[-1]))) == found


def test_the_record_has_every_conversion_and_the_table_a_line_for_each():
    assert ROWS.keys() == {(name, each) for name in CONVERSIONS for each in CAPABILITIES}
    assert [line.split()[0] for line in table(read_record(RECORD), CONVERSIONS).splitlines()] == ["cvt.", *CONVERSIONS]


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_the_kernel_of_a_conversion_contains_it(conversion):
    assert f"cvt.{conversion} " in source(conversion, "90")
