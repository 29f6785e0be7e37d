"""Test intra-warp concentration and balance (Wang et al., DATE 2015) on strides with provable results."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from rdmodel import policies
from rdmodel.errors import ConfigError, TraceError
from rdmodel.locality_analysis.concentration import balance, concentration_by_load, intra_warp_concentration
from tests.support.examples import examples

KB, MB = 1 << 10, 1 << 20
LANES = np.arange(32)
POWERS = [1 << n for n in range(7, 26)]  # 128 B to 32 MB
ANY_BASE = st.integers(0, 1 << 50)
BELOW_A_STRIDE = st.integers(0, (1 << 50) - 1)


def column(stride, index, base=0, sets=32):
    """Return the concentration of one load whose 32 lanes are `stride` bytes apart."""
    return intra_warp_concentration([(base + LANES * stride) // 128], index, sets)


def without_carry(stride, low, high):
    """Return a base address whose bits are all below or above those of the lane number."""
    return low % stride + high * 32 * stride


@pytest.mark.parametrize("sets", [32, 64, 128])
@given(base=ANY_BASE, rows=st.integers(1, 64))
def test_linear_puts_a_column_of_4096_floats_or_a_multiple_into_one_set(sets, base, rows):
    assert column(16 * KB * rows, policies.Linear(), base, sets) == 32


@given(low=BELOW_A_STRIDE, high=st.integers(0, 1 << 10))
def test_fup_is_ideal_up_to_2_mb_and_one_set_short_above(low, high):
    # Above, all lane bits are in the group that is reduced modulo 31. Below, a base within the feature bits
    # may move that group past 31, so only bits outside of the feature bits are drawn.
    for stride in POWERS:
        if stride <= 2 * MB:
            assert column(stride, policies.Fup(), low % stride + (high << 35)) == 1
        else:
            assert column(stride, policies.Fup(), without_carry(stride, low, high)) == 32 / 31


@pytest.mark.parametrize("polynomial", [37, 41, 47, 55, 59, 61])
@examples(100)
@given(low=BELOW_A_STRIDE, high=st.integers(0, 1 << 10))
def test_pric_is_ideal_on_every_power_of_two(polynomial, low, high):
    for stride in POWERS:
        assert column(stride, policies.Pric(polynomial), without_carry(stride, low, high)) == 1


@given(low=BELOW_A_STRIDE, high=st.integers(0, 1 << 10))
def test_bxor_loses_a_bit_with_every_doubling_above_4_kb(low, high):
    for stride in POWERS:
        lost = min(max(stride.bit_length() - (4 * KB).bit_length(), 0), 5)
        assert column(stride, policies.BXor(), without_carry(stride, low, high)) == 2**lost


def test_bxor_is_ideal_to_4_kb_and_useless_from_128_kb():
    assert [column(stride, policies.BXor()) for stride in POWERS if stride <= 4 * KB] == [1] * 6
    assert {column(stride, policies.BXor()) for stride in POWERS if stride >= 128 * KB} == {32}


@given(
    st.lists(st.lists(st.integers(0, 1 << 40), max_size=32), min_size=1, max_size=8).filter(any),
    st.sampled_from([policies.Linear(), policies.Pric(), policies.PMod(), policies.Fup()]),
)
def test_concentration_is_the_mean_over_the_loads_of_transactions_by_sets(loads, index):
    ratios = []
    for load in filter(None, loads):
        touched = {int(index.set_of(np.array([line]), 16)[0]) for line in load}
        ratios.append(len(load) / len(touched))
    assert intra_warp_concentration(loads, index, 16) == pytest.approx(sum(ratios) / len(ratios), rel=1e-12)


def test_loads_of_equal_length_may_come_as_one_array():
    loads = np.array([[0, 32, 64, 1], [0, 1, 2, 3]])
    assert intra_warp_concentration(loads, policies.Linear(), 32) == (4 / 2 + 4 / 4) / 2


def test_the_line_size_reaches_the_index_function():
    with pytest.raises(ConfigError, match="128-byte lines, not 32 of 64"):
        intra_warp_concentration([[1]], policies.Fermi(), 32, line=64)


@pytest.mark.parametrize("loads", [[], [[]], np.empty((3, 0), dtype=np.int64)])
def test_concentration_of_nothing_is_refused(loads):
    with pytest.raises(TraceError, match="loads: must hold at least one transaction"):
        intra_warp_concentration(loads, policies.Linear(), 32)


@pytest.mark.parametrize("loads", [np.arange(4), np.zeros((2, 2, 2), dtype=np.int64)])
def test_concentration_wants_one_row_per_load(loads):
    with pytest.raises(TraceError, match="loads: must hold one row of line numbers for each load"):
        intra_warp_concentration(loads, policies.Linear(), 32)


@given(st.lists(st.integers(0, 1 << 30), min_size=1, max_size=64).filter(any))
def test_balance_is_equation_2(counts):
    m, n = sum(counts), len(counts)
    expected = sum(b * (b + 1) / 2 for b in counts) / (m / (2 * n) * (m + 2 * n - 1))
    assert balance(counts) == pytest.approx(expected, rel=1e-9)


@given(st.integers(1, 1 << 30), st.integers(1, 1024))
def test_balance_of_an_even_spread_comes_close_to_one_from_below(each, sets):
    assert balance([each] * sets) == pytest.approx(sets * (each + 1) / (sets * each + 2 * sets - 1))
    assert balance([each] * sets) <= 1 + 1e-12


@given(st.integers(2, 64), st.integers(1, 10**6))
def test_balance_is_worst_with_everything_in_one_set(sets, accesses):
    counts = [accesses] + [0] * (sets - 1)
    assert balance(counts) == pytest.approx((accesses + 1) * sets / (accesses + 2 * sets - 1))


def test_balance_of_a_random_spread_is_one_on_average():
    counts = np.random.default_rng(1).multinomial(200, [1 / 32] * 32, size=4000)
    assert np.mean([balance(row) for row in counts]) == pytest.approx(1, abs=0.01)


def test_pmod_wastes_a_set_and_balance_shows_it():
    lines = np.arange(32 * 31 * 10)
    used = np.bincount(policies.PMod().set_of(lines, 32), minlength=32)
    assert balance(used) == pytest.approx(32 / 31, rel=0.01)


@pytest.mark.parametrize("counts", [[-1, 2], [float("nan")], [[1, 2]], 3])
def test_balance_wants_a_count_for_each_set(counts):
    with pytest.raises(TraceError, match="set_counts: must be one number of at least 0 for each set"):
        balance(counts)


@pytest.mark.parametrize("counts", [[], [0, 0]])
def test_balance_of_nothing_is_refused(counts):
    with pytest.raises(TraceError, match="set_counts: must hold at least one access"):
        balance(counts)


STRIDED = [("atax.1", "A"), ("bicg.2", "A"), ("mvt.1", "a"), ("gesummv", "A"), ("gesummv", "B")]


@pytest.mark.parametrize(("name", "matrix"), STRIDED)
def test_the_column_strided_loads_of_the_kernels_fall_into_one_set_unless_the_index_is_better(name, matrix):
    # Rows of 4096 floats: a warp reads one column, 32 lines that are 16 KB apart (Wang et al., figure 9).
    aligned = 1 << 28
    placed = {array.name: array.base for array in tracegen.kernel(name).launch.arrays}
    base = aligned - (placed[matrix] - min(placed.values()))
    trace = tracegen.kernel(name, blocks=[0], block=(32, 1, 1), base=base)
    first = trace.columns.addresses[trace.columns.address_start[:-1]]
    inside = (first >= aligned) & (first < aligned + 64 * MB) & (trace.columns.op == 0)
    (pc,) = np.unique(trace.columns.pc[inside])
    for function, expected in {"linear": 32, "bxor": 4, "fup": 1, "pric": 1}.items():
        by_load = concentration_by_load(trace, policies.index_function(function), 32)
        assert by_load[int(pc)] == expected
        assert min(by_load.values()) == 1  # the vectors


def test_a_matrix_that_begins_one_row_late_costs_fup_one_set():
    # The 32nd row of a warp carries into the next group of line bits, and meets the first row's set.
    assert column(16 * KB, policies.Fup(), base=0) == 1
    assert column(16 * KB, policies.Fup(), base=16 * KB) == 32 / 31


def test_concentration_by_load_is_the_mean_over_the_instructions_of_each_pc():
    trace = tracegen.patterns.random(threads=128, loads=5, elements=1 << 16, block=64)
    columns, index = trace.columns, policies.Linear()
    expected = {}
    for row in np.flatnonzero(columns.op == 0):
        lanes = columns.addresses[columns.address_start[row] : columns.address_start[row + 1]]
        lines = list(dict.fromkeys((lanes // 128).tolist()))
        expected.setdefault(int(columns.pc[row]), []).append(intra_warp_concentration([lines], index, 8))
    found = concentration_by_load(trace, index, 8)
    assert found == pytest.approx({pc: float(np.mean(values)) for pc, values in expected.items()})
