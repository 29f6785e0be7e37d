"""Numbers of operands: every instruction with one too many or too few is refused, wherever it stands."""

from __future__ import annotations

import contextlib
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import RdmodelError, TraceError
from tests.support.examples import examples
from tests.support.ptx_kernels import module_of, run_kernel
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.isa.operand_counts import operand_counts
from tracegen.ptx.lowering.lowering import _CONTROL_RULES
from tracegen.ptx.lowering.opcodes import OPCODE_RULES

DECLARATIONS = """
.reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .b16 %h<9>; .reg .f32 %f<9>; .reg .f64 %fd<9>; .reg .pred %p<9>;
.shared .b64 s;
"""

CORRECT = """
add.s64 %rd2, %rd1, 0; sub.cc.u32 %r1, %r2, %r3; addc.u32 %r1, %r2, %r3; subc.u32 %r1, %r2, %r3;
mul.wide.u32 %rd1, %r1, 4; mad.lo.s32 %r1, %r2, %r3, %r4; madc.hi.u32 %r1, %r2, %r3, %r4;
fma.rn.f32 %f1, %f2, %f3, %f4; div.rn.f32 %f1, %f2, %f3; rem.u32 %r1, %r2, %r3; abs.s32 %r1, %r2; neg.f32 %f1, %f2;
min.s32 %r1, %r2, %r3; max.f64 %fd1, %fd2, %fd3; sad.u32 %r1, %r2, %r3, %r4; popc.b32 %r1, %r2; clz.b32 %r1, %r2;
brev.b32 %r1, %r2; bfind.u32 %r1, %r2; cnot.b32 %r1, %r2; not.b32 %r1, %r2; and.b32 %r1, %r2, %r3;
bmsk.clamp.b32 %r1, %r2, %r3; szext.wrap.s32 %r1, %r2, 7;
or.pred %p1, %p2, %p3; xor.b64 %rd1, %rd2, %rd3; shl.b32 %r1, %r2, 3; shr.u32 %r1, %r2, 3; bfe.u32 %r1, %r2, 3, 4;
bfi.b32 %r1, %r2, %r3, 3, 4; shf.l.wrap.b32 %r1, %r2, %r3, 1; prmt.b32 %r1, %r2, %r3, 1;
lop3.b32 %r1, %r2, %r3, %r4, 1; sqrt.rn.f32 %f1, %f2; rsqrt.approx.f32 %f1, %f2; rcp.rn.f32 %f1, %f2;
ex2.approx.f32 %f1, %f2; lg2.approx.f32 %f1, %f2; sin.approx.f32 %f1, %f2; cos.approx.f32 %f1, %f2;
tanh.approx.f32 %f1, %f2; copysign.f32 %f1, %f2, %f3; testp.nan.f32 %p1, %f1; setp.eq.s32 %p1, %r1, %r2;
setp.eq.and.s32 %p1|%p2, %r1, %r2, %p3; set.lt.u32.u32 %r1, %r2, %r3; set.lt.or.u32.u32 %r1, %r2, %r3, %p1;
dp4a.s32.s32 %r1, %r2, %r3, %r4; dp2a.lo.u32.u32 %r1, %r2, %r3, %r4; vabsdiff4.u32.u32.u32.add %r1, %r2, %r3, %r4;
selp.b32 %r1, %r2, %r3, %p1; slct.u32.s32 %r1, %r2, %r3, %r4; mov.u32 %r1, %r2; mov.b64 %rd1, {%r1, %r2};
cvt.u64.u32 %rd1, %r1; cvt.rn.f32.f64 %f1, %fd1; cvta.to.global.u64 %rd1, %rd2; isspacep.global %p1, %rd1;
ld.global.u32 %r1, [%rd1]; ldu.global.u32 %r1, [%rd1]; ld.global.v2.u32 {%r1, %r2}, [%rd1];
ld.global.L2::cache_hint.u32 %r1, [%rd1], %rd2; st.global.u32 [%rd1], %r1;
st.global.L2::cache_hint.u32 [%rd1], %r1, %rd2; atom.global.add.u32 %r1, [%rd1], %r2;
atom.global.cas.b32 %r1, [%rd1], %r2, %r3; red.global.add.u32 [%rd1], %r2; shfl.sync.up.b32 %r1|%p1, %r2, 1, 0, -1;
shfl.up.b32 %r1, %r2, 1, 0; vote.sync.any.pred %p1, %p2, -1; vote.ballot.b32 %r1, %p1;
match.any.sync.b32 %r1, %r2, -1; activemask.b32 %r1; bar.warp.sync -1; bar.arrive 1, 64;
bar.red.popc.u32 %r1, 0, 64, %p1; membar.gl; prefetch.global.L1 [%rd1]; prefetchu.L1 [%rd1]; nanosleep.u32 %r1;
pmevent 1; discard.global.L2 [%rd1], 128; applypriority.global.L2::evict_normal [%rd1], 128; griddepcontrol.wait;
setmaxnreg.inc.sync.aligned.u32 232; mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4},
{%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, %p1, 1, 1, 0, 0;
wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1], 64;
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [s]; stmatrix.sync.aligned.m8n8.x1.shared.b16 [s], {%r1};
movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2; elect.sync %r1|%p1, -1; redux.sync.add.s32 %r1, %r2, -1;
cp.async.ca.shared.global [s], [%rd1], 16; mbarrier.init.shared.b64 [s], 1; mapa.shared::cluster.u32 %r1, %r2, %r3;
clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r1, %rd1;
getctarank.shared::cluster.u32 %r1, %r2; createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0;
tensormap.replace.tile.rank.global.b1024.b32 [%rd1], 1; multimem.red.global.add.f32 [%rd1], %f1;
tex.1d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%rd1, {%r1}]; tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f1, %f2}];
tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r2];
suld.b.1d.b32.trap %r1, [%rd1, {%r2}]; sust.b.1d.b32.trap [%rd1, {%r2}], %r1;
fence.acq_rel.gpu; bar.sync 0; barrier.sync 0; brx.idx %r1, T; bra L; exit; trap; brkpt; ret;
"""
RANGES = (
    "fence",
    "bra",
    "brx",
    "cp",
    "wgmma",
    "wmma",
    "mbarrier",
    "createpolicy",
    "tensormap",
    "tcgen05",
    "tex",
    "tld4",
    "suld",
    "sust",
)
"""Opcodes whose number of operands may vary, or which take labels."""
INSTRUCTIONS = [line.strip().replace("\n", " ") for line in CORRECT.split(";") if line.strip()]


def lower(*lines):
    """Lower a kernel with the instructions, which an earlier return keeps from being executed."""
    body = "\n".join(f"{line};" for line in lines)
    text = f".entry k() {{ {DECLARATIONS} T: .branchtargets L; ret;\n{body}\nL: ret; }}"
    return LoadedModule(module_of(text)).launch("k", 1, 32, [])


def operands_of(instruction):
    """Return the operands of a line of `CORRECT`."""
    _, _, rest = instruction.partition(" ")
    parts, depth = [""], 0
    for character in rest.strip():
        depth += (character in "{[") - (character in "]}")
        parts = [*parts, ""] if character == "," and not depth else [*parts[:-1], parts[-1] + character]
    return [part.strip() for part in parts if part.strip()]


def test_every_opcode_with_a_rule_has_a_number_of_operands():
    opcodes = {*OPCODE_RULES, *_CONTROL_RULES, "bra"}
    assert {opcode for opcode in opcodes if operand_counts(opcode, ()) is None} == {"call"}
    assert {re.split(r"[. ]", instruction)[0] for instruction in INSTRUCTIONS} == opcodes - {"call"}


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_an_instruction_with_its_number_of_operands_is_lowered(instruction):
    lower(instruction)


@pytest.mark.parametrize("instruction", [i for i in INSTRUCTIONS if i.split(".")[0] not in RANGES])
def test_an_operand_too_many_or_too_few_is_refused_with_its_line(instruction):
    name, operands = instruction.split(" ")[0], operands_of(instruction)
    wrong = [[*operands, "%r7"], [*operands, *["%r7"] * 9]] + ([operands[:-1]] if operands else [])
    if instruction.startswith(("bar.sync", "barrier.sync")):
        wrong = [[], [*operands, "32", "%r7"]]
    elif instruction.startswith("bar.red"):
        wrong = [operands[:2], [*operands, "%r7"]]
    for other in wrong:
        with pytest.raises(
            TraceError, match=rf"k: PTX line 9: {re.escape(name)}: has {len(other)} operands, must have \d"
        ):
            lower("mov.u32 %r1, %r2", f"{name} {', '.join(other)}")


@pytest.mark.parametrize("body", ["add.s64 %rd2,%rd1,0,4;", "add.s64 %rd2,%rd1;", "add.s64 %rd2,%rd1,1,2,3,4,5,6,7;"])
def test_an_addition_of_an_address_with_a_wrong_number_of_operands_does_not_run(body):
    text = (
        f".entry k(.param .u64 x) {{ {DECLARATIONS} ld.param.u64 %rd1, [x]; {body} ld.global.u32 %r1, [%rd2]; ret; }}"
    )
    with pytest.raises(TraceError, match=r"k: PTX line 7: add\.s64: has \d operands, must have 3"):
        run_kernel(text, "k", 1, 32, [np.zeros(64, np.uint32)])


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("mov.b64 %rd1, {}", "0 elements, must have 2 or 4"),
        ("mov.b64 {%r1, %r2, %r3}, %rd1", "3 elements, must have 2 or 4"),
        ("ld.global.v2.u32 {%r1, %r2, %r3}, [%rd1]", "3 elements, must have 2"),
        ("ld.global.u32 {%r1, %r2}, [%rd1]", "2 elements, must have 1"),
        ("st.global.v4.u32 [%rd1], {%r1, %r2}", "2 elements, must have 4"),
        ("st.global.u32 [%rd1], {%r1, %r2}", "2 elements, must have 1"),
    ],
)
def test_a_vector_of_a_wrong_length_is_refused(line, wanted):
    with pytest.raises(TraceError, match=rf"k: PTX line 8: {line.split()[0]}: has a vector of {wanted}"):
        lower(line)


def test_the_wrong_call_of_a_function_is_refused():
    text = """.func (.reg .b32 %o) f(.reg .b32 %a) { mov.u32 %o, %a; ret; }
        .entry k() { .reg .b32 %r<3>; ret; call (%r1), f, (%r2, %r2); ret; }"""
    with pytest.raises(TraceError, match=r"k: PTX line 5: call\b.* of f: 2 arguments and 1 results, must be 1 and 1"):
        LoadedModule(module_of(text)).launch("k", 1, 32, [])


OPERANDS = """
%r1 %rd1 %f1 %fd1 %p1 %h1 !%p1 %p1|%p2 _ 7 -1 0f3F800000 s s+4 [s] [%rd1+8] {%r1,%r2} {} {_,%f1,%f2,%f3}
{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8} %tid.x nothing
"""
MODIFIERS = """
s32 u64 b32 b16 b8 f32 f64 f16 f16x2 pred b128 v2 v4 lo hi wide cc sat rn rz global shared param const local sync up any
ballot cas add exch inc eq lt ltu num and or xor popc red arrive warp to nan idx approx wrap f4e relu
"""


@examples(400)
@given(
    st.sampled_from(sorted({*OPCODE_RULES, *_CONTROL_RULES, "bra", "tex"})),
    st.lists(st.sampled_from(MODIFIERS.split()), max_size=4),
    st.lists(st.sampled_from(OPERANDS.split()), max_size=6),
)
def test_no_instruction_causes_anything_but_an_error_of_the_package(opcode, modifiers, operands):
    line = ".".join([opcode, *modifiers]) + " " + ", ".join(operands)
    with contextlib.suppress(RdmodelError):
        lower(line)
