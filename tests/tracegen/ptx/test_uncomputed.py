"""Values that are not computed pass through registers and memory; an address or a branch that depends on one stops."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.trace import Op
from tests.support.examples import examples
from tests.support.ptx_kernels import HEAD, run_kernel

REGISTERS = """
    .reg .b64 %rd<9>; .reg .b32 %r<17>; .reg .f32 %f<9>; .reg .pred %p<5>; .reg .b64 %out;
    .shared .align 16 .b8 s[4096];
    ld.param.u64 %rd1, [x];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %out, %rd1, %rd2;
    mov.u32 %r9, s;
    mad.lo.u32 %r9, %r1, 16, %r9;
"""

PRODUCT = """mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
    {%f1, %f2, %f3, %f4}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f2, %f3, %f4};"""

PLACE = "cvt.u64.u32 %rd3, %r2; add.s64 %rd4, %rd1, %rd3;"
"""%rd4 is the address x + %r2."""


def kernel(body: str) -> str:
    """A kernel k(x): %r1 is the thread, %out the address of x[thread], %r9 that of 16 bytes of shared memory."""
    return f"{HEAD}.visible .entry k(.param .u64 x)\n{{{REGISTERS}{body}\n ret;\n}}"


def columns_of(body: str, *, threads: int = 32, grid: int = 1, values: bool = False):
    return run_kernel(kernel(body), "k", grid, threads, [np.zeros(4096, np.uint32)], values=values)


def refusal(body: str, **options) -> str:
    with pytest.raises(TraceError) as caught:
        columns_of(body, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_value_that_is_not_computed_may_be_moved_added_converted_and_stored():
    body = f"{PRODUCT} add.f32 %f5, %f1, %f2; cvt.rni.s32.f32 %r2, %f5; mov.b32 %r3, %r2; st.global.u32 [%out], %r3;"
    assert columns_of(body)[0].op.tolist() == [Op.STORE]


def test_an_address_names_the_chain_through_registers_and_memory():
    body = f"""
    {PRODUCT}
    add.f32 %f5, %f1, %f2;
    st.shared.f32 [%r9], %f5;
    ld.shared.u32 %r2, [%r9];
    {PLACE}
    ld.global.u32 %r3, [%rd4];"""
    message = refusal(body)
    assert re.search(
        r"k: PTX line \d+: the address of ld\.global\.u32 depends on a value that is not computed: add\.s64 in PTX "
        r"line \d+ <- cvt\.u64\.u32 in .* <- ld\.shared\.u32 in .* <- st\.shared\.f32 in .* <- add\.f32 in .* <- "
        r"mma\.sync\S+ in PTX line \d+ .*thread \(0, 0, 0\)",
        message,
    )


def test_a_branch_around_an_access_stops():
    body = f"{PRODUCT} setp.gt.f32 %p1, %f1, %f2; @%p1 bra SKIP; st.global.u32 [%out], 1; SKIP: "
    assert "the predicate of bra depends on a value that is not computed: setp.gt.f32" in refusal(body)


def test_a_guard_of_an_access_stops():
    message = refusal(f"{PRODUCT} setp.gt.f32 %p1, %f1, %f2; @%p1 st.global.u32 [%out], 1;")
    assert "the predicate of st.global.u32 depends on" in message


@pytest.mark.parametrize(
    "region",
    [
        "@%p1 bra SKIP; add.f32 %f6, %f5, %f5; SKIP: ",
        "@%p1 bra ELSE; add.f32 %f6, %f5, %f5; bra MEET; ELSE: mov.f32 %f6, %f5; MEET: ",
        "LOOP: add.f32 %f6, %f5, %f1; setp.gt.f32 %p1, %f6, %f2; @%p1 bra LOOP;",
    ],
)
def test_a_branch_about_values_alone_is_no_obstacle(region):
    body = f"{PRODUCT} add.f32 %f5, %f1, %f2; setp.gt.f32 %p1, %f1, %f2; {region} st.global.f32 [%out], %f6;"
    assert columns_of(body)[0].op.tolist() == [Op.STORE]


RARE_SIDE = "bra START; RARE: {} bra BACK; START: st.global.f32 [%out], %f5; @%p1 bra RARE; BACK: "
REST_OF_A_LOOP = "bra START; BACK: st.global.f32 [%out], %f6; ret; START: @%p1 bra BACK; {} bra BACK;"


@pytest.mark.parametrize(("code", "stores"), [(RARE_SIDE, 2), (REST_OF_A_LOOP, 1)])
def test_the_side_of_a_branch_may_lie_apart_from_it(code, stores):
    start, end = f"{PRODUCT} setp.gt.f32 %p1, %f1, %f2; mov.f32 %f6, %f5;", "st.global.f32 [%out], %f6;"
    two_ways = "@%p2 bra OTHER; add.f32 %f6, %f5, %f5; bra MEET; OTHER: mov.f32 %f6, %f5; MEET: "
    for side in ("add.f32 %f6, %f5, %f5;", two_ways):
        assert columns_of(start + code.format(side) + end)[0].op.tolist() == [Op.STORE] * stores
    for effect in ("st.global.u32 [%out], 1;", "@%p2 ret;", "bar.sync 0;"):
        assert "the predicate of bra depends on" in refusal(start + code.format(effect) + end)


def test_lanes_pass_the_side_of_a_branch_that_lies_apart_with_what_it_writes():
    body = f"""
    {PRODUCT} setp.gt.f32 %p1, %f1, %f2; mov.u32 %r2, 0;
    bra START; RARE: mov.u32 %r2, 4; bra BACK; START: st.global.f32 [%out], %f5; @%p1 bra RARE; BACK: {PLACE}
    ld.global.u32 %r3, [%rd4];"""
    assert "the address of ld.global.u32 depends on" in refusal(body)


def test_what_a_skipped_branch_decides_about_is_not_computed():
    body = f"""
    {PRODUCT} setp.gt.f32 %p1, %f1, %f2; mov.u32 %r2, 0;
    @%p1 bra SKIP; mov.u32 %r2, 4; SKIP: {PLACE} ld.global.u32 %r3, [%rd4];"""
    assert "the address of ld.global.u32 depends on" in refusal(body)
    harmless = body.replace("SKIP: ", "SKIP: mov.u32 %r2, 8; ")
    assert (columns_of(harmless)[0].addresses == columns_of(harmless)[0].addresses[0]).all()


def test_only_lanes_with_a_condition_that_is_computed_take_a_branch_about_values():
    body = f"""
    setp.lt.u32 %p2, %r1, 16; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f3F800000;
    @%p2 mov.b32 %f1, 0; @%p2 add.f32 %f1, %f1, %f2;
    setp.ge.u32 %p2, %r1, 16;
    @%p2 {PRODUCT} setp.gt.f32 %p1, %f1, %f2; mov.u32 %r2, 0;
    @%p1 bra SKIP; mov.u32 %r2, 4; SKIP: setp.lt.u32 %p2, %r1, 16; {PLACE} @%p2 ld.global.u32 %r3, [%rd4];"""
    columns = columns_of(body)[0]
    assert columns.mask.tolist() == [0xFFFF]
    assert len(set(columns.addresses.tolist())) == 1
    assert "thread (16, 0, 0)" in refusal(body.replace("@%p2 ld.global", "ld.global"))


def test_memory_is_computed_again_after_it_was_overwritten():
    stored = f"{PRODUCT} st.shared.v4.f32 [%r9], {{%f1, %f2, %f3, %f4}};"
    loaded = f"ld.shared.u32 %r2, [%r9+4]; {PLACE} ld.global.u32 %r3, [%rd4];"
    assert "st.shared.v4.f32" in refusal(stored + loaded)
    assert len(columns_of(stored + "st.shared.u32 [%r9+4], 8;" + loaded)[0].op) == 1
    assert "mma.sync" in refusal(stored + "st.shared.u16 [%r9+4], %r1;".replace("%r1", "0") + loaded)
    assert "mma.sync" in refusal(stored + "st.shared.u32 [%r9+8], 8;" + loaded)


def test_a_register_is_computed_again_after_it_was_overwritten():
    body = f"{PRODUCT} mov.b32 %r2, %f1; CHANGE {PLACE} ld.global.u32 %r3, [%rd4];"
    assert "mma.sync" in refusal(body.replace("CHANGE", ""))
    assert len(columns_of(body.replace("CHANGE", "mov.u32 %r2, 4;"))[0].op) == 1
    assert "thread (0, 0, 0)" in refusal(body.replace("CHANGE", "setp.ne.u32 %p1, %r1, 0; @%p1 mov.u32 %r2, 4;"))


@pytest.mark.parametrize("load", ["ld.shared.u32 %r2, [%r9]", "ld.global.u32 %r2, [%out]", "ld.u32 %r2, [%out]"])
def test_a_load_from_memory_without_such_values_computes_a_register_again(load):
    body = f"{PRODUCT} mov.b32 %r2, %f1; {load}; {PLACE} ld.global.u32 %r3, [%rd4];"
    assert columns_of(body)[0].addresses[-1] == columns_of(body)[0].addresses[-32]


def test_a_selection_depends_on_the_chosen_value_and_on_the_choice():
    body = f"{PRODUCT} mov.b32 %r4, %f1; CHANGE {PLACE} ld.global.u32 %r3, [%rd4];"
    assert len(columns_of(body.replace("CHANGE", "setp.lt.u32 %p1, %r1, 99; selp.b32 %r2, 4, %r4, %p1;"))[0].op) == 1
    assert "selp.b32" in refusal(body.replace("CHANGE", "setp.ge.u32 %p1, %r1, 99; selp.b32 %r2, 4, %r4, %p1;"))
    assert "setp.gt.f32" in refusal(body.replace("CHANGE", "setp.gt.f32 %p1, %f1, %f2; selp.b32 %r2, 4, 8, %p1;"))


@pytest.mark.parametrize(("lane", "computed"), [(0, False), (1, True)])
def test_a_shuffle_takes_the_state_of_its_source_lane(lane, computed):
    body = f"""
    mov.b32 %f1, 0; setp.eq.u32 %p1, %r1, 0; @%p1 {PRODUCT} mov.b32 %r4, %f1;
    shfl.sync.idx.b32 %r2, %r4, {lane}, 31, -1; {PLACE} ld.global.u32 %r3, [%rd4];"""
    if computed:
        assert len(columns_of(body)[0].op) == 1
    else:
        assert "shfl.sync.idx.b32" in refusal(body)


def test_a_vote_depends_on_all_lanes():
    body = f"""
    mov.b32 %f1, 0; setp.eq.u32 %p1, %r1, 5; @%p1 {PRODUCT} setp.gt.f32 %p2, %f1, 0f00000000;
    vote.sync.ballot.b32 %r2, %p2, -1; {PLACE} ld.global.u32 %r3, [%rd4];"""
    assert "vote.sync.ballot.b32" in refusal(body)


def test_arrays_keep_what_was_not_computed_for_later_blocks():
    body = f"""
    mov.u32 %r5, %ctaid.x; setp.eq.u32 %p1, %r5, 0; @!%p1 bra READ;
    {PRODUCT} st.global.f32 [%rd1], %f1; st.global.u32 [%rd1+4], 0; ret;
    READ: ld.global.u32 %r2, [%rd1+PLACE]; {PLACE} ld.global.u32 %r3, [%rd4];"""
    message = refusal(body.replace("+PLACE", "+0"), grid=2)
    assert "block (1, 0, 0)" in message
    assert "st.global.f32" in message
    assert [len(columns.op) for columns in columns_of(body.replace("+PLACE", "+4"), grid=2)] == [2, 2]


def test_a_result_that_is_not_computed_stops_where_results_are_wanted():
    assert "st.global.f32 stores a result that depends on" in refusal(
        f"{PRODUCT} st.global.f32 [%out], %f1;", values=True
    )
    assert len(columns_of(f"{PRODUCT} st.global.u32 [%out], 1;", values=True)[0].op) == 1


# ---- against a model of the same programs


@st.composite
def programs(draw):
    """Draw steps over four registers and four cells of shared memory."""
    register, cell = st.integers(0, 3), st.integers(0, 3)
    step = st.one_of(
        st.tuples(st.just("product"), register),
        st.tuples(st.just("constant"), register),
        st.tuples(st.sampled_from(("mov", "store", "load")), register, register | cell),
        st.tuples(st.just("add"), register, register, register),
    )
    return draw(st.lists(step, max_size=12))


def text_of(step) -> str:
    name, a, *rest = step
    if name == "product":
        return f"{PRODUCT} mov.b32 %r{a + 10}, %f1;"
    if name == "constant":
        return f"mov.u32 %r{a + 10}, 0;"
    if name == "mov":
        return f"mov.u32 %r{a + 10}, %r{rest[0] + 10};"
    if name == "store":
        return f"st.shared.u32 [%r9+{4 * rest[0]}], %r{a + 10};"
    if name == "load":
        return f"ld.shared.u32 %r{a + 10}, [%r9+{4 * rest[0]}];"
    return f"add.u32 %r{a + 10}, %r{rest[0] + 10}, %r{rest[1] + 10};"


def poisoned_after(steps) -> list[bool]:
    registers, cells = [False] * 4, [False] * 4
    for name, a, *rest in steps:
        if name in ("product", "constant"):
            registers[a] = name == "product"
        elif name == "mov":
            registers[a] = registers[rest[0]]
        elif name == "store":
            cells[rest[0]] = registers[a]
        elif name == "load":
            registers[a] = cells[rest[0]]
        else:
            registers[a] = registers[rest[0]] or registers[rest[1]]
    return registers


@examples(60)
@given(programs(), st.integers(0, 3))
def test_straight_programs_agree_with_their_model(steps, register):
    zeros = " ".join(f"mov.u32 %r{number + 10}, 0;" for number in range(4))
    body = f"{zeros} {' '.join(map(text_of, steps))} mov.u32 %r2, %r{register + 10}; {PLACE} ld.global.u32 %r3, [%rd4];"
    if poisoned_after(steps)[register]:
        assert "the address of ld.global.u32" in refusal(body)
    else:
        assert len(columns_of(body)[0].op) == 1
