"""Loops with asynchronous copies wait for a copy where its group is waited for, iterations later."""

import pytest

from tracegen import cuda

FETCH, STEP = 1000.0, 10.0
"""Cycles of a load from global memory, and of each of the dependent additions between two waits."""

LATENCIES = {
    "fp32": STEP, "int": 0.0, "load_global": FETCH, "load_again": 30.0, "load_alone": FETCH, "load_constant": 0.0,
    "load_shared": 0.0, "branch": 0.0, "other": 0.0, "barrier": 0.0, "matrix": 18.0, "matrix_fp16_busy": 1 / 512,
    "matrix_depth": 14.0,
}  # fmt: skip

LOOP = """.version 8.0 .target sm_80 .address_size 64
.visible .entry k(.param .u64 a) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<99>; .reg .pred %p<3>; .shared .align 16 .b8 buffer[4096];
  ld.param.u64 %rd1, [a]; mov.u32 %r1, 0; mov.u32 %r2, buffer; mov.u32 %r3, %tid.x; shl.b32 %r3, %r3, 4;
  add.u32 %r2, %r2, %r3; cvt.u64.u32 %rd2, %r3; add.u64 %rd1, %rd1, %rd2; mov.f32 %f1, 0f3F800000;
  PROLOGUE
L: cp.async.wait_group PENDING; bar.sync 0; WORK bar.sync 0; COPIES add.u64 %rd1, %rd1, 1024; add.u32 %r1, %r1, 1;
  setp.lt.u32 %p1, %r1, ITERATIONS; @%p1 bra L;
  cp.async.wait_group 0; st.global.f32 [%rd1], %f1; ret;
}"""

COPY = "cp.async.cg.shared.global [%r2], [%rd1], 16; "
COMMIT = "cp.async.commit_group; "


def total(pending, steps, iterations, copies=COPY + COMMIT, prologue=""):
    """Return the cycles of a kernel whose loop waits until `pending` groups are left, and then adds `steps` times."""
    source = LOOP.replace("PENDING", str(pending)).replace("ITERATIONS", str(iterations)).replace("COPIES", copies)
    source = source.replace("WORK", "add.f32 %f1, %f1, %f1; " * steps).replace("PROLOGUE", prologue)
    trace = cuda.trace(source, "k", 1, 64, [f"float[{1 << 16}]:zeros"])
    return sum(cycles for cycles, _, _ in trace.chains(0, LATENCIES))


def each(*arguments, **options):
    """Return the cycles of an iteration, when many have gone before."""
    return (total(*arguments, 60, **options) - total(*arguments, 40, **options)) / 20


@pytest.mark.parametrize(("pending", "steps", "cycles"), [
    (0, 20, FETCH + 20 * STEP),  # the copy of the iteration before has just been started
    (1, 20, (FETCH + 20 * STEP) / 2),  # the one before that: two copies are under way at a time
    (1, 150, 150 * STEP),  # it is there
    (2, 20, (FETCH + 20 * STEP) / 3),
    (3, 20, (FETCH + 20 * STEP) / 4),
    (8, 20, 20 * STEP),
    (4, 60, 60 * STEP),
])  # fmt: skip
def test_a_copy_has_the_iterations_until_its_group_is_waited_for(pending, steps, cycles):
    assert each(pending, steps) == pytest.approx(cycles, rel=0.02)


def test_several_groups_in_an_iteration_count_one_by_one():
    assert each(2, 20, copies=2 * (COPY + COMMIT)) == pytest.approx((FETCH + 20 * STEP) / 2, rel=0.02)
    assert each(2, 20, copies=2 * COPY + COMMIT) == pytest.approx((FETCH + 20 * STEP) / 3, rel=0.02)


def test_the_first_iteration_waits_for_the_copies_before_the_loop_and_the_end_for_the_last_ones():
    iterations = 20 * 100 * STEP
    assert total(1, 100, 20, prologue=2 * (COPY + COMMIT)) == pytest.approx(FETCH + iterations + FETCH, rel=0.02)
    assert total(1, 100, 20) == pytest.approx(iterations + FETCH, rel=0.02)


def test_a_loop_that_is_executed_a_few_times_is_not_taken_to_go_on():
    times = [total(0, 20, iterations) for iterations in (1, 2, 3)]
    assert times[1] - times[0] == pytest.approx(FETCH + 20 * STEP, rel=0.02)
    assert times[2] - times[1] == pytest.approx(FETCH + 20 * STEP, rel=0.02)


def test_copies_take_no_registers_for_their_data():
    # Sixteen copies would take 64 registers for loads, and a thread has 16.
    source = LOOP.replace("PENDING", "0").replace("ITERATIONS", "50").replace("COPIES", 16 * COPY + COMMIT)
    source = source.replace("WORK", "").replace("PROLOGUE", "")
    source = source.replace("(.param .u64 a)", "(.param .u64 a) .maxnreg 16")
    trace = cuda.trace(source, "k", 1, 64, [f"float[{1 << 16}]:zeros"])
    cycles = sum(cycles for cycles, _, _ in trace.chains(0, LATENCIES))
    assert cycles == pytest.approx(50 * FETCH, rel=0.05)
