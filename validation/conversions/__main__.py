"""``python -m validation.conversions``: assemble each conversion of PTX, and record the machine instructions.

Needs ``ptxas`` and ``nvdisasm`` of CUDA 13 in the folder ``bin`` of ``--cuda``, or on the path. The classes of these
instructions are those of `tracegen.ptx.lowering.machine_code`; a test compares them with the record.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from validation.common.assembled import CAPABILITIES, Assembled, machine_code, run_command

RECORD = Path(__file__).parent / "recorded.csv"

CONVERSIONS = (
    "rn.f32.s32", "rz.f32.s32", "rm.f32.s32", "rn.f32.u32", "rz.f32.u32", "rp.f32.u32", "rn.f32.s16", "rn.f32.u16",
    "rn.f32.s8", "rn.f32.u8", "rn.f32.s64", "rn.f32.u64", "rn.f64.s32", "rn.f64.s64", "rn.f16.s32", "rn.f16.s16",
    "rzi.s32.f32", "rni.u32.f32", "rzi.s16.f32", "rzi.s64.f32", "rzi.s32.f64", "rzi.s64.f64", "rzi.s32.f16",
    "rni.f32.f32", "rmi.f32.f32", "ftz.f32.f32", "sat.f32.f32", "rmi.f64.f64", "f64.f32", "rn.f32.f64", "f64.f16",
    "rn.f16.f32", "rn.bf16.f32", "rn.f16x2.f32", "rn.bf16x2.f32", "rna.tf32.f32", "rn.satfinite.e4m3x2.f32",
    "rn.f16x2.e4m3x2", "rn.f16x2.e5m2x2", "f32.f16", "f32.bf16", "rn.bf16.f16",
    "s32.s8", "s32.s16", "s64.s32", "u8.u32", "sat.u8.u32", "sat.u8.s32", "sat.s16.s32",
)  # fmt: skip
"""What follows ``cvt.`` in each of them. Those that a load does at the same time are left out, such as ``u32.u16``."""

_NOT_COUNTED = re.compile(r"MOV|IMAD\.MOV|UMOV|LDC|ULDC|LDCU|LDG|STG|EXIT|BRA|NOP|S2R|CS2R|HFMA2")
"""Instructions around a conversion: accesses to memory, constants, and the end of the kernel."""

_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")


def source(conversion: str, capability: str) -> str:
    """Return a kernel that loads, converts and stores a number."""
    to, old = conversion.split(".")[-2:]
    pair = to.endswith("x2") and old == "f32"
    result, operand = _register(to, "1"), _register(old, "2")
    load = f"ld.global.{_bits(old)} {operand},[%rd8];"
    if pair:
        load, operand = "ld.global.v2.b32 {%f2,%f3},[%rd8];", "%f2,%f3"
    return f""".version 8.7
.target sm_{capability}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b) {{
.reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .f64 %d<9>;
ld.param.u64 %rd8,[a]; ld.param.u64 %rd7,[b]; cvta.to.global.u64 %rd8,%rd8; cvta.to.global.u64 %rd7,%rd7;
{load} cvt.{conversion} {result},{operand}; st.global.{_bits(to)} [%rd7],{result}; ret; }}"""


def _width(name: str) -> int:
    if name in ("f16x2", "bf16x2", "tf32"):
        return 32
    if name.endswith("x2"):
        return 16
    return int(re.sub(r"\D", "", name))


def _bits(name: str) -> str:
    return "u8" if _width(name) == 8 else f"b{_width(name)}"


def _register(name: str, number: str) -> str:
    kind = {"f32": "f", "f64": "d"}.get(name, {8: "h", 16: "h", 32: "r", 64: "rd"}[_width(name)])
    return f"%{kind}{number}"


def assemble(conversion: str, capability: str, tools: Path | None) -> Assembled:
    """Return the machine instructions of a conversion."""
    text = machine_code(source(conversion, capability), capability, tools)
    if text is None:
        return Assembled(conversion, capability, "")
    names = [name for name in _INSTRUCTION.findall(text) if not _NOT_COUNTED.match(name)]
    return Assembled(conversion, capability, " ".join(names) or "none")


def table(rows: Sequence[Assembled], conversions: Collection[str]) -> str:
    """Return the names of the instructions: a line for each conversion, a column for each compute capability."""
    names = {(row.case, row.capability): re.sub(r"\.\S+", "", row.instructions) or "-" for row in rows}
    lines = [["cvt.", *(f"sm_{each}" for each in CAPABILITIES)]]
    lines += [[conversion, *(names[conversion, each] for each in CAPABILITIES)] for conversion in conversions]
    widths = [2 + max(map(len, column)) for column in zip(*lines, strict=True)]
    rows_of_text = ("".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "".join(f"{row.rstrip()}\n" for row in rows_of_text)


if __name__ == "__main__":
    run_command("validation.conversions", __doc__, RECORD, CONVERSIONS, assemble, table)
