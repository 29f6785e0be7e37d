"""``python -m validation.vectors``: assemble neighbouring accesses to shared memory, and record the vectors.

Needs ``ptxas`` and ``nvdisasm`` of CUDA 13 in the folder ``bin`` of ``--cuda``, or on the path. A test compares the
record with `tracegen.ptx.lowering.vectors`, which merges accesses as the assembler does.
"""

from __future__ import annotations

import re
from pathlib import Path

from validation.common.assembled import Assembled, machine_code, run_command

RECORD = Path(__file__).parent / "recorded.csv"

_MORE = ".shared .align 16 .b8 u[4096]; .shared .align 8 .b8 v[4096];"
"""Arrays that are declared with an alignment."""

_UNITS = "shl.b32 %r5, %r2, 4; add.s32 %r6, %r3, %r5;"
"""Let %r6 be the address of a unit of 16 bytes for each thread."""


def _loads(*offsets: int, base: str = "%r6", first: int = 1, type: str = "f32") -> str:
    return " ".join(f"ld.shared.{type} %f{first + at}, [{base}+{offset}];" for at, offset in enumerate(offsets))


def _stores(*offsets: int) -> str:
    return " ".join(f"st.shared.f32 [%r6+{offset}], %f{1 + at};" for at, offset in enumerate(offsets))


def _short_loads(*offsets: int, register: str = "h", type: str = "u16") -> str:
    """Return loads of words of 16 bits, which are added to the sum of the kernel."""
    loads = " ".join(f"ld.shared.{type} %{register}{9 + at}, [%r6+{offset}];" for at, offset in enumerate(offsets))
    from_type = "u16" if register == "h" else "u32"
    sums = (f"cvt.rn.f32.{from_type} %f9, %{register}{9 + at}; add.f32 %f1, %f1, %f9;" for at in range(len(offsets)))
    return f"{loads} {' '.join(sums)}"


def _short_stores(*offsets: int) -> str:
    loads = " ".join(f"ld.global.u16 %h{1 + at}, [%q1+{64 + 6 * at}];" for at in range(len(offsets)))
    stores = " ".join(f"st.shared.u16 [%r6+{offset}], %h{1 + at};" for at, offset in enumerate(offsets))
    return f"{loads} {stores}"


CASES = {
    "four words of a unit": _UNITS + _loads(0, 4, 8, 12),
    "four words, the last one first": _UNITS + _loads(12, 8, 4, 0),
    "three words of a unit": _UNITS + _loads(0, 4, 8),
    "four words across units": _UNITS + _loads(4, 8, 12, 16),
    "eight words": _UNITS + _loads(0, 4, 8, 12, 16, 20, 24, 28),
    "the first half of a unit": _UNITS + _loads(0, 4),
    "the second half of a unit": _UNITS + _loads(8, 12),
    "the two words in the middle": _UNITS + _loads(4, 8),
    "the first and the last word": _UNITS + _loads(0, 12),
    "a pair and two words": f"{_UNITS} ld.shared.v2.f32 {{%f1, %f2}}, [%r6]; {_loads(8, 12, first=3)}",
    "words of two types": f"{_UNITS} {_loads(0)} ld.shared.u32 %r9, [%r6+4]; cvt.rn.f32.u32 %f2, %r9;",
    "rows of two words": f"shl.b32 %r5, %r2, 3; add.s32 %r6, %r3, %r5; {_loads(0, 4, 8, 12)}",
    "rows of five words": f"mad.lo.s32 %r6, %r2, 20, %r3; {_loads(0, 4, 8, 12)}",
    "a row that an argument chooses": (
        f"mul.lo.s32 %r7, %r2, %r1; shl.b32 %r5, %r7, 4; add.s32 %r6, %r3, %r5; {_loads(0, 4, 8, 12)}"
    ),
    "an array behind one of five words": f"shl.b32 %r5, %r2, 4; add.s32 %r6, %r10, %r5; {_loads(0, 4, 8, 12)}",
    "a masked address": f"and.b32 %r5, %r1, 4080; add.s32 %r6, %r3, %r5; {_loads(0, 4, 8, 12)}",
    "one of two addresses": (
        f"shl.b32 %r5, %r2, 4; shl.b32 %r7, %r2, 5; selp.b32 %r5, %r5, %r7, %p1; add.s32 %r6, %r3, %r5; {_loads(0, 4)}"
    ),
    "a fixed address": _loads(0, 4, 8, 12, base="s"),
    "under one condition": f"{_UNITS} @%p1 ld.shared.f32 %f1, [%r6]; @%p1 ld.shared.f32 %f2, [%r6+4];",
    "a barrier between": f"{_UNITS} {_loads(0)} bar.sync 0; {_loads(4, first=2)}",
    "a store to another array between": f"{_UNITS} {_loads(0)} st.shared.f32 [%r4], %f8; {_loads(4, first=2)}",
    "a store to global memory between": f"{_UNITS} {_loads(0)} st.global.f32 [%q1+4096], %f8; {_loads(4, first=2)}",
    "volatile words": _UNITS + _loads(0, 4, 8, 12).replace("ld.", "ld.volatile."),
    "four stores to a unit": _UNITS + _stores(0, 4, 8, 12),
    "three stores to a unit": _UNITS + _stores(0, 4, 8),
    "stores of constants": f"{_UNITS} st.shared.u32 [%r6], 7; st.shared.f32 [%r6+4], %f1;",
    "a load of another array between stores": (
        f"{_UNITS} {_stores(0)} ld.shared.f32 %f7, [%r4]; st.shared.f32 [%r6+4], %f2;"
    ),
    "a load of four words between loads": (
        f"{_UNITS} {_loads(0)} ld.shared.v4.f32 {{%f5, %f6, %f7, %f8}}, [%r6+32]; {_loads(4, first=2)}"
    ),
    "a load under a condition between loads": (
        f"{_UNITS} {_loads(0)} @%p1 ld.shared.f32 %f5, [%r6+32]; {_loads(4, first=2)}"
    ),
    "four short words": _UNITS + _short_loads(0, 2, 4, 6),
    "three short words": _UNITS + _short_loads(2, 4, 6),
    "two short words of a half": _UNITS + _short_loads(4, 6),
    "two short words in the middle": _UNITS + _short_loads(2, 4),
    "six short words": _UNITS + _short_loads(0, 2, 4, 6, 8, 10),
    "eight short words": _UNITS + _short_loads(0, 2, 4, 6, 8, 10, 12, 14),
    "four short words into registers of 32 bits": _UNITS + _short_loads(0, 2, 4, 6, register="r"),
    "four bytes": _UNITS + _short_loads(0, 1, 2, 3, type="u8"),
    "three stores of short words": _UNITS + _short_stores(0, 2, 4),
    "five stores of short words": _UNITS + _short_stores(0, 2, 4, 6, 8),
}
"""Accesses by what is special about them. %r2 is the thread, %r1 an argument; %r3, %r4 and %r10 are arrays."""

RELOCATABLE = {
    "relocatable code": _UNITS + _loads(0, 4, 8, 12),
    "relocatable code, fixed address": _loads(0, 4, 8, 12, base="s"),
    "relocatable code, array of units": f"mov.u32 %r11, u; {_UNITS.replace('%r3', '%r11')} {_loads(0, 4, 8, 12)}",
    "relocatable code, array of pairs": f"mov.u32 %r11, v; {_UNITS.replace('%r3', '%r11')} {_loads(0, 4, 8, 12)}",
}
"""Accesses of code that is assembled before it is linked."""

ALL_CASES = {**CASES, **RELOCATABLE}

_ACCESS = re.compile(r"\b(LDS|STS)((?:\.[A-Z0-9]+)*)")


def source(case: str, capability: str = "80") -> str:
    """Return the kernel of a case; it stores the sum of all that it has loaded, and loads what it stores."""
    sums = " ".join(f"add.f32 %f1, %f1, %f{at};" for at in range(2, 9))
    loads = " ".join(f"ld.global.f32 %f{at}, [%q1+{4 * at}];" for at in range(1, 9))
    return f""".version 8.7
.target sm_{capability}
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n) {{
.reg .b64 %q<6>; .reg .b16 %h<20>; .reg .b32 %r<40>; .reg .f32 %f<20>; .reg .pred %p<4>;
.shared .align 4 .b8 s[4096]; .shared .align 4 .b8 z[20]; .shared .align 4 .b8 t[4096];
{_MORE if case in RELOCATABLE else ""}
ld.param.u32 %r1, [n]; ld.param.u64 %q1, [out]; mov.u32 %r2, %tid.x; mov.u32 %r3, s; mov.u32 %r4, z; mov.u32 %r10, t;
cvta.to.global.u64 %q1, %q1; setp.lt.u32 %p1, %r2, %r1;
{loads}
{ALL_CASES[case]}
{sums}
mul.wide.u32 %q2, %r2, 4; add.u64 %q1, %q1, %q2; st.global.f32 [%q1], %f1; ret; }}"""


def assemble(case: str, capability: str, tools: Path | None) -> Assembled:
    """Return the accesses of a case to shared memory, as machine instructions."""
    text = machine_code(source(case, capability), capability, tools, ["-c"] if case in RELOCATABLE else [])
    assert text is not None, f"{case}: ptxas rejects the kernel"
    return Assembled(case, capability, " ".join(sorted(_name(*found) for found in _ACCESS.findall(text))))


def _name(opcode: str, modifiers: str) -> str:
    """Return an opcode with the bits of its access, if they are more than 32."""
    return opcode + "".join(f".{bits}" for bits in ("64", "128") if f".{bits}" in modifiers)


if __name__ == "__main__":
    run_command("validation.vectors", __doc__, RECORD, ALL_CASES, assemble)
