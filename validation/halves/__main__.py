"""``python -m validation.halves``: assemble arithmetic that the assembler contracts, packs or folds, and record it.

Needs ``ptxas`` and ``nvdisasm`` of CUDA 13 in the folder ``bin`` of ``--cuda``, or on the path. Tests compare the
record with `tracegen.ptx.lowering.contraction`, `packing` and `folding`.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from validation.common.assembled import Assembled, machine_code, run_command

RECORD = Path(__file__).parent / "recorded.csv"


def _load(count: int, first: int = 0, place: int = 0) -> str:
    return "".join(f"ld.global.u16 %h{first + at}, [%q1+{2 * (place + at)}]; " for at in range(count))


def _store(count: int, first: int = 0) -> str:
    return "".join(f"st.global.u16 [%q2+{2 * at}], %h{first + at}; " for at in range(count))


def _add_product(to: int, a: int, b: int, how: str) -> str:
    """Return the addition of a product: by ``fma``, or by two instructions with this rounding ("" for none)."""
    if how.startswith("fma"):
        return f"{how} %h{to}, %h{a}, %h{b}, %h{to}; "
    return f"mul{how}.f16 %h899, %h{a}, %h{b}; add{how}.f16 %h{to}, %h{to}, %h899; "


def _outer(rows: int, columns: int, depth: int = 1, how: str = "") -> str:
    """Return a product of matrices whose factors are in shared memory, and whose sums are loaded and stored."""
    text = _load(rows * columns)
    for k in range(depth):
        a, b = 200 + 40 * k, 220 + 40 * k
        text += "".join(f"ld.shared.u16 %h{a + i}, [%r3+{2 * (k * rows + i)}]; " for i in range(rows))
        text += "".join(f"ld.shared.u16 %h{b + j}, [%r3+{512 + 2 * (k * columns + j)}]; " for j in range(columns))
        for i in range(rows):
            text += "".join(_add_product(i * columns + j, a + i, b + j, how) for j in range(columns))
    return text + _store(rows * columns)


def _chains(count: int, length: int, by_depth: bool, how: str = "fma.rn.f16") -> str:
    """Return sums of products that depend on one another, chain after chain or all chains by their depth."""
    order = [(i, j) for j in range(length) for i in range(count)]
    if not by_depth:
        order.sort()
    sums = "".join(_add_product(i, i, 100 + i * length + j, how) for i, j in order)
    return _load(count) + _load(count * length, 100, 50) + sums + _store(count)


def _dots(count: int, length: int, how: str = "") -> str:
    text = _load(2 * count * length, 100) + _load(count)
    for i in range(count):
        first = 100 + 2 * i * length
        text += "".join(_add_product(i, first + 2 * j, first + 2 * j + 1, how) for j in range(length))
    return text + _store(count)


def _axpy(count: int) -> str:
    sums = "".join(f"fma.rn.f16 %h{i}, %h99, %h{i}, %h{20 + i}; " for i in range(count))
    return f"{_load(count)}{_load(count, 20, 40)}ld.global.u16 %h99, [%q1+400]; {sums}{_store(count)}"


def _singles(body: str, stored: int, bits: int = 32) -> str:
    letter = "f" if bits == 32 else "d"
    loads = "".join(f"ld.global.f{bits} %{letter}{i}, [%q1+{8 * i}]; " for i in range(6))
    stores = "".join(f"st.global.f{bits} [%q2+{8 * i}], %{letter}{10 + i}; " for i in range(stored))
    return f"{loads}{body} {stores}"


def _convert(conversion: str, number: str, result: str) -> str:
    to, source = conversion.split(".")[-2:]
    register = {"s32": "%r8", "f32": "%f8", "f16": "%h8", "s64": "%q8", "f64": "%d8"}[source]
    pair = f", {register}" if to.endswith("x2") else ""
    move = f"mov.b{source[1:]} {register}, {number}; "
    return f"{move}cvt.{conversion} {result}, {register}{pair}; st.global.b{_BITS[to]} [%q2], {result};"


_BITS = {"f16": 16, "bf16": 16, "f32": 32, "s32": 32, "f16x2": 32, "bf16x2": 32, "f64": 64}

PACKED = {
    **{
        f"outer product of {rows} x {columns}, depth {depth}": _outer(rows, columns, depth)
        for rows, columns, depth in (
            *((2, 2, 1), (2, 2, 4), (3, 3, 1), (3, 3, 4), (4, 4, 1), (4, 4, 4), (5, 5, 2), (8, 8, 1), (8, 8, 2)),
            *((1, 3, 4), (1, 5, 4)),
        )
    },
    "outer product of 4 x 4, rounded": _outer(4, 4, how=".rn"),
    "outer product of 4 x 4, fma": _outer(4, 4, how="fma.rn.f16"),
    "outer product of 4 x 4, bfloat16": _outer(4, 4, how="fma.rn.bf16"),
    "dot product of 8": _dots(1, 8),
    "dot product of 8, fma": _dots(1, 8, "fma.rn.f16"),
    "two dot products of 8": _dots(2, 8),
    "three dot products of 4": _dots(3, 4),
    "four dot products of 4": _dots(4, 4),
    "two chains of 4": _chains(2, 4, by_depth=False),
    "two chains of 4, by depth": _chains(2, 4, by_depth=True),
    "three chains of 2": _chains(3, 2, by_depth=False),
    "three chains of 2, by depth": _chains(3, 2, by_depth=True),
    "five chains of 4, by depth": _chains(5, 4, by_depth=True),
    "eight chains of 4": _chains(8, 4, by_depth=False),
    "axpy of 2": _axpy(2),
    "axpy of 3": _axpy(3),
    "axpy of 8": _axpy(8),
    "sum of 8": f"{_load(8)}{' '.join(f'add.f16 %h0, %h0, %h{i};' for i in range(1, 8))} {_store(1)}",
    "sum of 8 by halves": (
        _load(8) + "".join(f"add.f16 %h{i}, %h{i}, %h{i + n}; " for n in (4, 2, 1) for i in range(n)) + _store(1)
    ),
    "two of each kind": (
        f"{_load(8)} mul.rn.f16 %h10, %h0, %h1; add.rn.f16 %h11, %h2, %h3; fma.rn.f16 %h12, %h4, %h5, %h6; "
        f"mul.rn.f16 %h13, %h1, %h2; add.rn.f16 %h14, %h3, %h4; fma.rn.f16 %h15, %h5, %h6, %h7; {_store(6, 10)}"
    ),
    "a sum and a difference": f"{_load(4)} add.f16 %h10, %h0, %h1; sub.f16 %h11, %h2, %h3; {_store(2, 10)}",
    "a saturated sum and another": f"{_load(4)} add.sat.f16 %h10, %h0, %h1; add.f16 %h11, %h2, %h3; {_store(2, 10)}",
    "under one condition": (
        f"{_load(6)} @%p1 fma.rn.f16 %h3, %h0, %h1, %h3; @%p1 fma.rn.f16 %h4, %h0, %h2, %h4; {_store(2, 3)}"
    ),
    "before and behind a barrier": (
        f"{_load(6)} fma.rn.f16 %h3, %h0, %h1, %h3; bar.sync 0; fma.rn.f16 %h4, %h0, %h2, %h4; {_store(2, 3)}"
    ),
    "a load behind a store between": (
        f"{_load(2)} mul.f16 %h4, %h0, %h1; st.global.u16 [%q2+100], %h4; {_load(2, 2, 2)} "
        "mul.f16 %h5, %h2, %h3; st.global.u16 [%q2+200], %h5;"
    ),
    "halves of vectors": (
        "ld.global.v4.u16 {%h0, %h1, %h2, %h3}, [%q1]; ld.global.v4.u16 {%h4, %h5, %h6, %h7}, [%q1+8]; "
        + "".join(f"add.f16 %h{i}, %h{i}, %h{4 + i}; " for i in range(4))
        + "st.global.v4.u16 [%q2], {%h0, %h1, %h2, %h3};"
    ),
    "halves of vectors, exchanged": (
        "ld.global.v2.u16 {%h0, %h1}, [%q1]; ld.global.v2.u16 {%h2, %h3}, [%q1+4]; "
        "add.f16 %h4, %h1, %h2; add.f16 %h5, %h0, %h3; st.global.v2.u16 [%q2], {%h4, %h5};"
    ),
}
"""Scalar operations of half precision. %p1 is a predicate, %r3 an address in shared memory."""

_PRODUCT, _RESULTS = "mul.f32 %f6, %f0, %f1; ", "add.f32 %f10, %f6, %f3; "

CONTRACTED = {
    "a product and a sum": _singles(_PRODUCT + _RESULTS, 1),
    "a product and a difference": _singles(f"{_PRODUCT} sub.f32 %f10, %f3, %f6;", 1),
    "a product with a rounding mode": _singles(_PRODUCT.replace("mul", "mul.rn") + _RESULTS, 1),
    "a sum with a rounding mode": _singles(_PRODUCT + _RESULTS.replace("add", "add.rn"), 1),
    "a product in two sums": _singles(f"{_PRODUCT}{_RESULTS} add.f32 %f11, %f6, %f4;", 2),
    "a product that is stored": _singles(f"{_PRODUCT}{_RESULTS} st.global.f32 [%q2+80], %f6;", 1),
    "a sum of two products": _singles(f"{_PRODUCT} mul.f32 %f7, %f2, %f3; add.f32 %f10, %f6, %f7;", 1),
    "a product twice in a sum": _singles(f"{_PRODUCT} add.f32 %f10, %f6, %f6;", 1),
    "a product and a sum under a condition": _singles(f"{_PRODUCT} mov.f32 %f10, %f3; @%p1 {_RESULTS}", 1),
    "a sum in another block": _singles(
        f"{_PRODUCT} @%p1 bra $next; st.global.f32 [%q2+80], %f4; bar.sync 0; $next: {_RESULTS}", 1
    ),
    "a product and a sum of double precision": _singles("mul.f64 %d6, %d0, %d1; add.f64 %d10, %d6, %d3;", 1, 64),
    "a product and a sum of two halves": (
        "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%q1]; mul.f16x2 %r13, %r10, %r11; "
        "add.f16x2 %r14, %r13, %r12; st.global.u32 [%q2], %r14;"
    ),
}
"""Products and sums."""

FOLDED = {
    f"cvt.{conversion} of {name}": _convert(conversion, number, result)
    for conversion, name, number, result in (
        ("rn.f32.s32", "7", "7", "%f1"),
        ("rn.f16.s32", "0", "0", "%h1"),
        ("rn.f16.s32", "7", "7", "%h1"),
        ("rn.f64.s32", "7", "7", "%d1"),
        ("rn.f32.s64", "7", "7", "%f1"),
        ("rn.f16.f32", "3", "0f40400000", "%h1"),
        ("rn.bf16.f32", "3", "0f40400000", "%h1"),
        ("rn.f16x2.f32", "3", "0f40400000", "%r10"),
        ("rn.bf16x2.f32", "3", "0f40400000", "%r10"),
        ("rzi.s32.f32", "3", "0f40400000", "%r10"),
        ("f64.f32", "3", "0f40400000", "%d1"),
        ("rn.f32.f64", "3", "0d4008000000000000", "%f1"),
        ("f32.f16", "3", "0x4200", "%f1"),
    )
}
"""Conversions of constants."""

ALL_CASES = {**PACKED, **CONTRACTED, **FOLDED}

_COUNTED = re.compile(
    r"\s(HFMA2(?! R\d+, -RZ, RZ|\.\S+ R\d+, -RZ, RZ)|HADD2|HMUL2|PRMT|FFMA|FADD|FMUL|DFMA|DADD|DMUL|[IF]2[IF]P?)\b"
)
"""Arithmetic, permutations and conversions; a HFMA2 of zeros is a move of a constant."""


def source(case: str, capability: str = "80") -> str:
    """Return the kernel of a case."""
    return f""".version 8.7
.target sm_{capability}
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u32 n) {{
.reg .b16 %h<900>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .f64 %d<40>; .reg .b64 %q<9>; .reg .pred %p<4>;
.shared .align 16 .b8 s[8192];
ld.param.u64 %q1, [a]; ld.param.u64 %q2, [b]; ld.param.u32 %r9, [n]; mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, %r9; shl.b32 %r2, %r1, 7; mov.u32 %r3, s; add.u32 %r3, %r3, %r2;
{ALL_CASES[case]}
ret; }}"""


def assemble(case: str, capability: str, tools: Path | None) -> Assembled:
    """Return the numbers of the machine instructions of a case; empty if the capability has none."""
    text = machine_code(source(case, capability), capability, tools)
    found = Counter(_COUNTED.findall(text or ""))
    names = " ".join(f"{found[name]} {name}" for name in sorted(found)) or "none"
    return Assembled(case, capability, "" if text is None else names)


if __name__ == "__main__":
    run_command("validation.halves", __doc__, RECORD, ALL_CASES, assemble)
