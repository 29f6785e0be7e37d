"""Test batches of blocks: the same programs as for single blocks, in fewer calls, without visible differences."""

from __future__ import annotations

import pickle
import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from rdmodel.errors import ConfigError, TraceError
from rdmodel.trace import Space
from rdmodel.trace.moved import MovedProgram
from tests.support.batches import alone, assert_same, assert_same_blocks, counted, kernel_trace, outcome
from tests.support.examples import examples
from tests.support.scalar_kernels import GRAPH, MATRIX, PAGES, PARTS, PROSE
from tracegen.kernel_library.control import after, branch_on
from tracegen.kernel_library.registry import declared_spec
from tracegen.kernel_library.suites import NAIVE
from tracegen.simt.batching import FIRST_BATCH, MAX_BATCH_THREADS, MAX_FAILED_BATCHES
from tracegen.simt.kernel_trace import Buffer, KernelTrace
from tracegen.simt.recorder import MAX_BATCH_INSTRUCTIONS
from tracegen.simt.symbolic import Value

SMALL = {
    "ROWS": 96,
    "COLS": 112,
    "OPT_N": 70_000,
    "NPOINTS": 4000,
    "NUM": 4000,
    "NUM_SIMS": 20_000,
    "DIM": 5,
    "W": 512,
    "H": 128,
    "LOG2N": 14,
    "IN": 512,
    "ELEMENT_N": 512,
    "VECTOR_N": 150,
    **dict.fromkeys(("NI", "NJ", "NK", "NL", "NM", "NX", "NY", "NZ", "M", "N"), 70),
}
GIVEN = {
    "vectoradd": {"N": 5000},
    "nw.1": {"N": 128},
    "nw.2": {"N": 128},
    "btree": {"N": 2000, "M": 60, "ORDER": 32},
    "ss": {"N": 40, "M": 5},
    **{name: {"matrix": MATRIX} for name in ("spmv", "spmv.warp")},
    **{name: {"graph": GRAPH, "LEVEL": 1} for name in ("bfs.1", "bfs.2")},
    **{name: {"graph": GRAPH} for name in ("sssp", "color.1", "color.2")},
    **{name: {"graph": PARTS} for name in ("cc.1", "cc.2")},
    **{name: {"text": PAGES} for name in ("iix", "iix.count")},
    **{name: {"text": PROSE} for name in ("wc", "wc.count")},
}


def small(name: str) -> KernelTrace:
    spec = declared_spec(name)
    sizes = GIVEN.get(name, {size: SMALL[size] for size in spec.sizes if size in SMALL})
    sizes = {size: value for size, value in sizes.items() if size in spec.sizes or size in spec.inputs}
    block = (32, 1, 1) if not spec.fixed and spec.block[1] == 1 else None
    return tracegen.kernel(name, block=block, **sizes)


# ---- the same programs


@pytest.mark.parametrize("name", NAIVE)
def test_the_blocks_of_every_kernel_are_the_same_as_one_by_one(name):
    trace = small(name)
    first = range(min(trace.launch.blocks, 24))
    made_alone = cache(alone(trace).block)
    assert_same_blocks(trace, first, made_alone)
    assert_same_blocks(trace.cut(trace.blocks), [*first[1::3], *first[::-1], *first], made_alone)


def by_rows(k, A):
    with k.where(k.x % 7 < k.block_x):
        k.load(A, k.y, k.x)


def with_loops(k, A):
    for j in k.range(9):
        k.load(A, k.x + 3 * j)
        for _ in k.range(5):
            k.gap(2)
            k.load(A, k.x)
        k.store(A, k.block_x + j)
    k.barrier()


def steered_by_the_block(k, A):
    if k.block_x % 5 == 0:
        k.load(A, k.x)
    for _ in range(k.block_x // 8):
        k.store(A, k.x)
    for _ in k.range(k.block_x // 4):
        k.load(A, k.x)


def times_the_block(k, A):
    for j in k.range(5):
        k.load(A, k.x + (k.block_x // 3) * j)


def bounds_of_threads(k, A):
    for j in k.range(k.x % (2 + k.block_x // 4)):
        k.load(A, k.x + j)
        k.gap(1)
    k.load(A, k.x)


def whole_blocks_masked(k, A):
    with k.where(k.block_x > 11):
        k.load(A, k.x)
        k.gap(3)
        k.barrier()
    with k.where(k.x > 700):
        for j in k.range(4):
            k.load(A, k.x + j)
    k.store(A, k.x)


def until_all_are_done(k, A):
    left = k.x // 300 + k.thread_x % 3
    while k.any(left > 0):
        k.load(A, k.x)
        with k.where(left > 1):
            k.store(A, k.x)
        left = left - 1


def waits_that_settle_late(k, A):
    early = k.x * 0
    with k.where(k.x % 64 < k.block_x):
        early = k.load(A, k.x) * 0
    for j in k.range(70):
        k.load(A, early + j)
        k.store(A, k.x)


def own_memory(k, A):
    for j in k.range(3):
        k.load(A, j)
    k.store(A, k.thread_x % 4)


def pointers(k, A):
    at = k.load(A, k.x)
    for _ in k.range(3):
        with k.where(branch_on(k, at % 3 > 0)):
            k.load(A, at)
        k.atomic(A, after(at % 3 > 0, k.x))
        at = k.load(A, at)


DATA = np.random.default_rng(1).integers(0, 4096, 4096, dtype=np.int32)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (by_rows, {"grid": (5, 6), "block": (16, 8), "arrays": {"A": (48, 80)}}),
        (with_loops, {}),
        (steered_by_the_block, {}),
        (times_the_block, {}),
        (bounds_of_threads, {}),
        (whole_blocks_masked, {"block": 48}),
        (until_all_are_done, {}),
        (waits_that_settle_late, {"block": 96, "arrays": {"A": np.zeros(4096, np.int32)}}),
        (own_memory, {"block": 40, "arrays": {"A": Buffer(4, space=Space.LOCAL)}}),
        (pointers, {"arrays": {"A": DATA}}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.parametrize("order", [range(30), range(3, 30, 4), [5, 6, 7, 9, 11, 13, 15, 3, 2, 1, 0, 1, 2, 3, 4, 5]])
def test_blocks_that_go_on_differently_are_run_by_themselves(function, options, order):
    trace = kernel_trace(function, **options)
    assert_same_blocks(trace, order)


@examples(60)
@given(
    st.lists(st.integers(0, 19), max_size=40),
    st.integers(1, 70),
    st.lists(st.sampled_from([by_rows, with_loops, whole_blocks_masked, steered_by_the_block, pointers]), max_size=3),
)
def test_any_order_of_blocks_and_any_mixture_gives_the_same(order, width, parts):
    def mixed(k, A):
        for part in parts:
            part(k, A)

    arrays = {"A": DATA.reshape(64, 64)} if by_rows in parts else {"A": DATA}
    grid = 1 if by_rows in parts else 20
    trace = kernel_trace(mixed, grid=grid if grid > 1 else (1, 20), block=width, arrays=arrays)
    for block in order:
        one, other = outcome(trace, block), outcome(alone(trace), block)
        if isinstance(other, str):
            assert one == other
        else:
            assert_same(one, other)


@examples(60)
@given(
    st.lists(st.lists(st.integers(0, 19), min_size=1, max_size=20, unique=True), max_size=3),
    st.lists(st.integers(0, 19), max_size=40),
    st.lists(st.sampled_from([with_loops, whole_blocks_masked, steered_by_the_block, pointers]), max_size=2),
)
def test_any_announcements_kept_or_not_give_the_same(announcements, others, parts):
    def mixed(k, A):
        for part in parts:
            part(k, A)

    trace = kernel_trace(mixed, grid=20, arrays={"A": DATA})
    made_alone = cache(lambda block: outcome(alone(trace), block))
    for announced in map(sorted, announcements):
        trace.announce(announced)
        for block in [*announced, *others]:
            one, other = outcome(trace, block), made_alone(block)
            assert one == other if isinstance(other, str) else assert_same(one, other) is None


# ---- shared programs


def test_blocks_that_differ_in_their_addresses_only_share_a_program():
    trace = kernel_trace(with_loops)
    trace.announce(range(40))
    programs = [trace.block(block) for block in range(40)]
    assert len({id(program.shared) for program in programs}) == 1


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        pytest.param(lambda k, A: k.load(A, k.x + k.thread_x * k.block_x), lambda block: block, id="lanes"),
        pytest.param(lambda k, A: k.load(A, k.x + k.thread_x // 32 * k.block_x), lambda block: block, id="warps"),
        pytest.param(bounds_of_threads, lambda block: block // 4, id="masks"),
    ],
)
def test_blocks_that_differ_in_more_than_their_addresses_share_no_program(function, kind):
    trace = kernel_trace(function, block=64)
    trace.announce(range(40))
    programs = [trace.block(block) for block in range(40)]
    sharing = {}
    for block, program in enumerate(programs):
        if isinstance(program, MovedProgram):
            sharing.setdefault(id(program.shared), set()).add(kind(block))
    assert all(len(kinds) == 1 for kinds in sharing.values())
    assert_same_blocks(trace, range(40))


def test_blocks_at_the_edges_of_a_grid_have_programs_of_their_own():
    trace = tracegen.kernel("2dconv", NI=256, NJ=256)
    trace.announce(range(trace.launch.blocks))
    shared = [getattr(trace.block(block), "shared", None) for block in range(trace.launch.blocks)]
    shared = np.array([id(program) for program in shared]).reshape(trace.launch.grid[1::-1])
    assert len(np.unique(shared[1:-1, 1:-1])) == 1
    assert len(np.unique(shared)) > 1


# ---- fewer calls


def test_announced_blocks_are_run_in_two_calls():
    calls = []
    trace = kernel_trace(counted(lambda k, A: k.load(A, k.x)), grid=2000, calls=calls)
    order = sorted({0, 1, 5, *range(100, 500, 7)})
    trace.announce(order)
    for block in order:
        trace.block(block)
    assert [list(np.ravel(call)) for call in calls] == [order[:FIRST_BATCH], order[FIRST_BATCH:]]


def test_blocks_that_share_a_program_are_run_once_however_often_they_are_read():
    def kernel(k, A):
        with k.where(k.x > 0):  # the first block has a program of its own
            k.load(A, k.x)

    calls = []
    trace = kernel_trace(counted(kernel), grid=20_000, calls=calls)
    trace.announce(range(20_000))
    read = [[[own.base.tolist() for own in trace.block(block)] for block in range(20_000)] for _ in range(3)]
    assert read[0] == read[1] == read[2]
    assert [int(block) for call in calls for block in np.ravel(call)][20_000:] == [0, 0]


def test_blocks_that_were_announced_by_readers_side_by_side_are_run_once():
    calls = []
    trace = kernel_trace(counted(lambda k, A: k.load(A, k.x)), grid=2000, calls=calls)
    readers = [range(first, 300, 3) for first in range(3)]
    for reader in readers:
        trace.announce(reader)
    for blocks in zip(*readers, strict=True):
        for block in blocks:
            trace.block(block)
    assert sorted(int(block) for call in calls for block in np.ravel(call)) == list(range(300))
    assert len(calls) == 4


def test_announced_blocks_are_batched_again_behind_those_that_go_on_differently():
    def kernel(k, A):
        if k.block_x < 3:
            k.load(A, k.x)
        k.store(A, k.x)

    calls = []
    trace = kernel_trace(counted(kernel), calls=calls)
    trace.announce(range(40))
    for block in range(40):
        trace.block(block)
    # The first batch diverges.
    assert [np.size(call) for call in calls] == [FIRST_BATCH, 1, 2, 37]


def test_announced_blocks_that_diverge_are_soon_run_by_themselves():
    calls = []
    trace = kernel_trace(counted(lambda k, A: k.load(A, k.x // (k.block_x.__index__() + 1))), calls=calls)
    trace.announce(range(40))
    for block in range(40):
        trace.block(block)
    assert len([call for call in calls if np.size(call) > 1]) == MAX_FAILED_BATCHES
    assert len([call for call in calls if np.size(call) == 1]) == 40


@pytest.mark.parametrize("step", [1, 14])
def test_a_kernel_that_does_the_same_in_all_blocks_is_called_seldom(step):
    calls = []
    trace = kernel_trace(counted(lambda k, A: k.load(A, k.x)), grid=2000, calls=calls)
    blocks = range(0, 2000, step)
    for block in blocks:
        trace.block(block)
    sizes = [np.size(call) for call in calls]
    assert sizes[:6] == [1, 1, 2, 4, 8, 16]
    assert max(sizes) <= MAX_BATCH_THREADS // 32
    assert sum(sizes) == len(blocks)


def test_a_kernel_that_never_does_the_same_is_soon_called_once_per_block():
    calls = []
    trace = kernel_trace(counted(lambda k, A: k.load(A, k.x // (k.block_x.__index__() + 1))), calls=calls)
    for block in range(40):
        trace.block(block)
    assert len([call for call in calls if np.size(call) > 1]) == MAX_FAILED_BATCHES
    assert len([call for call in calls if np.size(call) == 1]) == 40


def test_only_blocks_that_the_trace_holds_are_run():
    calls = []
    trace = kernel_trace(counted(lambda k, A: k.load(A, k.x)), calls=calls, blocks=[0, 1, 2, 3, 5, 6, 7])
    for block in trace.blocks:
        trace.block(block)
    run = sorted(int(block) for call in calls for block in np.ravel(call))
    assert run == list(trace.blocks)


def test_a_kernel_of_a_user_runs_in_batches_if_it_may():
    calls = []
    options = {"grid": 40, "block": 32, "arrays": {"A": 1 << 12}, "calls": calls, "batches": True}
    trace = tracegen.trace(counted(lambda k, A: k.load(A, k.x, cache="cg")), **options)
    trace.announce(range(40))
    made_alone = alone(trace)
    for block in range(40):
        assert_same(trace.block(block), made_alone.block(block))
    assert len([call for call in calls if np.size(call) > 1]) == 2
    assert trace.may_have_cache_ops


def test_batches_are_a_choice_of_yes_or_no():
    with pytest.raises(ConfigError, match=re.escape("batches='yes': must be True or False")):
        tracegen.trace(lambda k, A: k.load(A, k.x), grid=1, block=32, arrays={"A": 32}, batches="yes")


def test_a_kernel_of_a_user_runs_once_per_block():
    calls = []
    trace = tracegen.trace(counted(lambda k, A: k.load(A, k.x)), grid=40, block=32, arrays={"A": 1 << 12}, calls=calls)
    for block in range(40):
        trace.block(block)
    assert calls == list(range(40))


# ---- nothing to notice


def test_a_mistake_comes_up_in_its_block_and_not_before():
    def kernel(k, A):
        k.load(A, k.x + 1)

    trace = kernel_trace(kernel, grid=8, arrays={"A": 8 * 32})
    for block in range(7):
        trace.block(block)
    with pytest.raises(TraceError, match=re.escape("k: thread (255, 0, 0): load of A[256]: it has indices 0 to 255")):
        trace.block(7)


def test_a_program_keeps_no_other_alive_and_is_its_own():
    trace = kernel_trace(lambda k, A: k.load(A, k.x))
    programs = [trace.block(block) for block in range(20)]
    for (segment,) in programs:
        assert all(array.base is None for array in (segment.base, segment.mask, segment.needs))
    programs[10][0].base[:] = 0
    assert_same(trace.block(10), alone(trace).block(10))


@pytest.mark.parametrize(
    "rows",
    [
        lambda k: k.range(k.block_x, 120, 40),
        lambda k: k.range(k.block_x + 200, k.block_x, -50),
        lambda k: k.range(k.block_x * 2 + 5, k.block_x * 2 + 5),
        lambda k: k.range(2, 2 + 0 * k.block_x, 1),
    ],
)
def test_loops_that_begin_elsewhere_in_each_block_run_in_batches_if_all_have_as_many_iterations(rows):
    def kernel(k, A):
        for row in rows(k):
            for j in k.range(k.thread_x, 128, 64):
                k.load(A, row * 128 + j)
            with k.where(k.thread_x < row):
                k.load(A, row // 2)
        for row in rows(k):
            k.store(A, row * 128 + k.thread_x)

    calls = []
    trace = kernel_trace(counted(kernel), block=64, calls=calls)
    trace.announce(range(40))
    assert_same_blocks(trace, range(40), alone(kernel_trace(counted(kernel), block=64, calls=[])).block)
    assert [np.size(call) for call in calls] == [FIRST_BATCH, 8]


def test_blocks_whose_loops_have_other_numbers_of_iterations_run_by_themselves():
    def kernel(k, A):
        for row in k.range(k.block_x, 30, 7):
            k.load(A, row * 128 + k.thread_x)

    assert_same_blocks(kernel_trace(kernel, block=64), range(40))


def test_blocks_that_are_long_are_not_held_together():
    sizes = []

    def kernel(k, A):
        sizes.append(np.size(k.index))
        for at in range(500):
            k.load(A, k.x + at)

    trace = kernel_trace(kernel, grid=300)
    for block in range(300):
        assert len(trace.block(block)) == 1
    assert 32 <= max(sizes) <= MAX_BATCH_INSTRUCTIONS // 500
    assert sum(sizes) == 300


def test_blocks_that_turn_out_to_be_long_are_run_by_themselves():
    def kernel(k, A):
        for at in range(3 if k.block_x < 16 else 1600):
            k.load(A, k.x + at)

    assert MAX_BATCH_INSTRUCTIONS < 14 * 1600 * 8
    assert_same_blocks(kernel_trace(kernel, grid=30, block=256), range(30))


def test_a_batch_that_gets_too_long_is_run_again_with_fewer_blocks():
    def kernel(k, A):
        for at in k.range(0, 100 + k.x % 100):
            k.load(A, k.x + at)
        for at in range(100):
            k.store(A, k.x + at)

    calls = []
    trace = kernel_trace(counted(kernel), grid=40, block=512, calls=calls)
    trace.announce(range(40))
    assert_same_blocks(trace, range(40), alone(kernel_trace(counted(kernel), grid=40, block=512, calls=[])).block)
    sizes = [np.size(call) for call in calls]
    assert sizes[0] == FIRST_BATCH
    assert sum(sizes[1:]) == 40
    assert max(sizes[1:]) <= MAX_BATCH_INSTRUCTIONS // (299 * 16)
    assert len(sizes) <= 6


def test_a_trace_survives_a_pickle_and_a_cut_while_blocks_are_ready():
    trace = tracegen.kernel("2dconv", NI=70, NJ=700)
    for block in range(9):
        trace.block(block)
    assert_same_blocks(pickle.loads(pickle.dumps(trace)), range(5, 20))
    assert_same_blocks(trace.cut(range(8, 20)), range(8, 20))
    with pytest.raises(TraceError):
        trace.cut([8, 10]).block(9)


def test_values_of_blocks_are_numbers_where_the_blocks_agree():
    assert Value(np.array([[4], [4]])).__index__() == 4
    with pytest.raises(TraceError, match="diverge"):
        bool(Value(np.array([[0], [1]])))
    with pytest.raises(TraceError, match="cannot control Python code such as if and while"):
        bool(Value(np.zeros((2, 32))))
