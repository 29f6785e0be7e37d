"""``python -m validation.constants``: assemble kernels that read constant memory, and record how they do it.

An instruction reads a word of constant memory as an operand, through a uniform register (ULDC, LDCU), or from a
register that another instruction has loaded (LDC). Needs ``ptxas`` and ``nvdisasm`` of CUDA 13 in the folder ``bin`` of
``--cuda``, or on the path. A test compares the record with `tracegen.ptx.lowering.constants`.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from validation.common.assembled import Assembled, machine_code, run_command

RECORD = Path(__file__).parent / "recorded.csv"

WORDS = 8
"""Loads of each case."""

_USE = "ld.global.f32 %f3, [%q1+{at}]; fma.rn.f32 %f1, %f3, %f2, %f1;"
_LOAD = "ld.const.f32 %f2, [w+{at}];"
_AGAIN = "add.s64 %q1, %q1, 128; sub.s32 %r1, %r1, 1; setp.gt.s32 %p1, %r1, 0; @%p1 bra L;"
_TEST = "add.s32 %r4, %r2, {at}; setp.gt.s32 %p1, %r4, %r1;"


def _each(text: str) -> str:
    return "".join(text.format(at=8 * word, word=word) + "\n" for word in range(WORDS))


def _in_branches(text: str) -> str:
    return _each(f"{_TEST} @%p1 bra L{{word}}; {text} L{{word}}:")


CASES = {
    "in straight code": _each(_LOAD + _USE),
    "neighbours in straight code": "".join(
        (_LOAD.replace("{at}", "{word}") + _USE).format(at=4 * word, word=4 * word) for word in range(WORDS)
    ),
    "in short branches": _in_branches(_LOAD + _USE),
    "for instructions in short branches": _each(
        f"ld.const.f32 %f1{{word}}, [w+{{at}}]; {_TEST} @%p1 bra L{{word}}; "
        + _USE.replace("%f2", "%f1{word}")
        + " L{word}:"
    ),
    "in short branches of all threads": _in_branches(_LOAD + _USE).replace("add.s32 %r4, %r2", "add.s32 %r4, %r3"),
    "with a predicate": _each(
        f"{_TEST} @%p1 {_LOAD} @%p1 ld.global.f32 %f3, [%q1+{{at}}]; @%p1 fma.rn.f32 %f1, %f3, %f2, %f1;"
    ),
    "in a long branch": "setp.gt.s32 %p1, %r2, %r1; @%p1 bra L; " + _each(_LOAD + _USE) + "L:",
    "in a loop": "L: " + _each(_LOAD + _USE) + _AGAIN,
    "integers": _each("ld.const.u32 %r5, [w+{at}]; ld.global.u32 %r6, [%q1+{at}]; mad.lo.s32 %r7, %r6, %r5, %r7;"),
    "at the thread's place": "mov.u64 %q3, w; add.s64 %q3, %q3, %q2;" + _each(_LOAD.replace("w+", "%q3+") + _USE),
    "at the block's place": (
        "mov.u64 %q3, w; mul.wide.u32 %q4, %r3, 4; add.s64 %q3, %q3, %q4;" + _each(_LOAD.replace("w+", "%q3+") + _USE)
    ),
    "at the place of an iteration": (
        "mov.u64 %q3, w; L: " + _each(_LOAD.replace("w+", "%q3+") + _USE)
        + "add.s64 %q3, %q3, 64;" + _AGAIN
    ),
}  # fmt: skip
"""Loads of eight words by what is special about them. %r2 is the thread, %r3 the block, %r1 an argument."""

_CONSTANT = re.compile(r"\s(?:@!?U?P\w+ )?([A-Z][A-Z0-9_]*)\S*\s[^;]*?c\[0x3\]")


def source(case: str, capability: str = "80") -> str:
    """Return the kernel of a case; it stores what it computes."""
    return f""".version 8.7
.target sm_{capability}
.address_size 64
.const .align 16 .b8 w[65536];
.visible .entry k(.param .u64 out, .param .u32 n) {{
.reg .b64 %q<6>; .reg .b32 %r<10>; .reg .f32 %f<20>; .reg .pred %p<4>;
ld.param.u32 %r1, [n]; ld.param.u64 %q1, [out]; mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x;
cvta.to.global.u64 %q1, %q1; mul.wide.u32 %q2, %r2, 4; add.u64 %q1, %q1, %q2;
mov.f32 %f1, 0f00000000; mov.u32 %r7, 0;
{CASES[case]}
st.global.f32 [%q1], %f1; st.global.u32 [%q1+4096], %r7; ret; }}"""


def assemble(case: str, capability: str, tools: Path | None) -> Assembled:
    """Return how a case reads constant memory."""
    text = machine_code(source(case, capability), capability, tools)
    assert text is not None, f"{case}: ptxas rejects the kernel"
    counts = Counter(_CONSTANT.findall(text))
    return Assembled(case, capability, " ".join(f"{count} {name}" for name, count in sorted(counts.items())))


if __name__ == "__main__":
    run_command("validation.constants", __doc__, RECORD, CASES, assemble)
