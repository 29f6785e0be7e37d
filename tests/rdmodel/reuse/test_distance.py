"""Reuse distances, histogram and miss-ratio curve: the paper's example, an LRU cache, laws, and bad input."""

import json
import pickle
from collections import Counter, OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import ConfigError, TraceError
from rdmodel.reuse import distance
from rdmodel.reuse.distance import DistanceStream, histogram, miss_ratio_curve, reuse_distances
from rdmodel.reuse.histogram import Histogram, MissRatioCurve
from tests.support.examples import examples

# Nugteren et al., "A Detailed GPU Cache Model Based on Reuse Distance Theory", HPCA 2014, section 3.3:
# table 1 (accesses to x[], 4 elements per cache line) and figure 1 (its histogram per line); -1 is infinity.
ADDRESSES = [0, 5, 3, 9, 3, 3, 5]
ADDRESS_DISTANCES = [-1, -1, -1, -1, 1, 0, 2]
LINES = [0, 1, 0, 2, 0, 0, 1]
LINE_DISTANCES = [-1, -1, 1, -1, 1, 0, 2]
FIGURE_1 = {-1: 3, 0: 1, 1: 2, 2: 1}

streams = st.lists(st.integers(-3, 15), min_size=1, max_size=150)


def lru_misses(lines, size):
    """Misses of a fully associative LRU cache, simulated."""
    cache, misses = OrderedDict(), 0
    for line in lines:
        misses += line not in cache
        cache[line] = True
        cache.move_to_end(line)
        if len(cache) > size:
            cache.popitem(last=False)
    return misses


def by_definition(lines):
    """Count the distinct other lines since the last access to the same line, from the definition."""
    last, distances = {}, []
    for now, line in enumerate(lines):
        distances.append(len(set(lines[last[line] + 1 : now])) if line in last else -1)
        last[line] = now
    return distances


class TestPaper:
    def test_table_1_per_address(self):
        assert reuse_distances(ADDRESSES).tolist() == ADDRESS_DISTANCES

    def test_table_1_per_line(self):
        assert (np.array(ADDRESSES) // 4).tolist() == LINES
        assert reuse_distances(LINES).tolist() == LINE_DISTANCES

    def test_figure_1(self):
        assert histogram(LINES).to_dict() == FIGURE_1

    def test_a_cache_of_two_lines_has_three_compulsory_and_one_capacity_miss(self):
        assert histogram(LINES).infinite == 3
        assert miss_ratio_curve(LINES, [2]).at(2) == (3 + 1) / 7


class TestReuseDistances:
    @given(streams)
    def test_agree_with_the_definition(self, lines):
        assert reuse_distances(lines).tolist() == by_definition(lines)

    @given(streams)
    def test_depend_on_equality_of_lines_alone(self, lines):
        renamed = [line * -(10**15) + 7 for line in lines]
        assert (reuse_distances(lines) == reuse_distances(renamed)).all()

    @given(streams, streams)
    def test_in_pieces_are_those_of_the_whole(self, head, tail):
        stream = DistanceStream()
        pieces = stream.feed(head).tolist() + stream.feed(tail).tolist()
        assert pieces == reuse_distances(head + tail).tolist()
        assert stream.distinct == len(set(head + tail))

    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, ">i8"])
    def test_accept_any_integers(self, dtype):
        result = reuse_distances(np.array(LINES, dtype=dtype))
        assert result.tolist() == LINE_DISTANCES
        assert result.dtype == np.int64

    def test_accept_a_strided_view_and_leave_it_alone(self):
        lines = np.repeat(LINES, 3)[::3]
        assert reuse_distances(lines).tolist() == LINE_DISTANCES
        assert lines.tolist() == LINES

    def test_accept_the_extremes_of_int64(self):
        assert reuse_distances([-(2**63), 2**63 - 1, 0, -(2**63)]).tolist() == [-1, -1, -1, 2]

    @pytest.mark.parametrize("empty", [[], (), np.array([], dtype=np.float64), np.array([], dtype=np.int32)])
    def test_of_nothing_are_nothing(self, empty):
        result = reuse_distances(empty)
        assert result.tolist() == []
        assert result.dtype == np.int64


BAD_LINES = [
    ([1.0, 2.0], "integers that fit int64, not float64"),
    ([1.0, float("nan")], "access 1 is not a line number"),
    ([float("inf")], "access 0 is not a line number"),
    ([2**63], "access 0 is line 9223372036854775808, beyond int64"),
    (np.array([1, 2**64 - 1], dtype=np.uint64), "access 1 is line 18446744073709551615"),
    ([2**70], "not object"),
    ([True, False], "not bool"),
    (["a"], "integers"),
    ([None], "integers"),
    (["1"], "integers"),
    ([[1, 2], [3, 4]], r"shape \(2, 2\)"),
    ([[1], [2, 3]], "must be an array of integers"),
    (7, r"shape \(\)"),
    (np.array(["2020-01-01"], dtype="datetime64[D]"), "integers"),
]


@pytest.mark.parametrize(("lines", "message"), BAD_LINES, ids=[str(bad) for bad, _ in BAD_LINES])
@pytest.mark.parametrize("function", [reuse_distances, histogram, miss_ratio_curve, DistanceStream().feed])
def test_lines_that_are_no_lines_are_refused(function, lines, message):
    with pytest.raises(TraceError, match=message):
        function(lines)


def test_a_refused_piece_leaves_the_stream_as_it_was():
    stream = DistanceStream()
    stream.feed([1, 2])
    with pytest.raises(TraceError):
        stream.feed([3.5])
    assert stream.feed([1]).tolist() == [1]
    assert repr(stream) == "DistanceStream(2 distinct lines)"


class TestHistogram:
    @given(streams)
    def test_counts_the_distances(self, lines):
        result = histogram(lines)
        assert result == Counter(reuse_distances(lines).tolist())
        assert result.infinite == len(set(lines))
        assert result.total == len(lines)

    @examples(20)
    @given(st.integers(1, 400), st.integers(0, 9))
    def test_does_not_depend_on_the_size_of_pieces(self, distinct, seed):
        lines = np.random.default_rng(seed).integers(0, distinct, 2000)
        whole = histogram(lines)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(distance, "ACCESSES_PER_CHUNK", 7)
            assert histogram(lines) == whole

    def test_of_a_stream_longer_than_a_piece(self):
        lines = np.tile(np.arange(1000, dtype=np.uint16), 200)
        assert histogram(lines) == {-1: 1000, 999: 199_000}

    def test_of_a_file_larger_than_a_piece(self, tmp_path):
        lines = np.memmap(tmp_path / "lines", dtype=np.int32, mode="w+", shape=150_000)
        lines[:] = np.arange(150_000) % 3
        assert histogram(lines) == {-1: 3, 2: 149_997}

    def test_is_a_mapping_in_ascending_order(self):
        result = histogram(LINES)
        assert list(result) == [-1, 0, 1, 2]
        assert len(result) == 4
        assert (result[1], result.get(3), 2 in result, 5 in result) == (2, None, True, False)
        with pytest.raises(KeyError):
            result[3]

    def test_without_infinite_distances_has_no_such_key(self):
        result = Histogram([4], [2], 0)
        assert -1 not in result
        assert dict(result) == {4: 2}
        with pytest.raises(KeyError):
            result[-1]

    def test_of_nothing_is_empty(self):
        result = histogram([])
        assert (len(result), result.total, result.to_dict()) == (0, 0, {})
        assert repr(result) == "Histogram(0 accesses, 0 infinite)"

    def test_is_frozen(self):
        result = histogram(LINES)
        with pytest.raises(AttributeError):
            result.infinite = 4
        with pytest.raises(ValueError, match="read-only"):
            result.counts[0] = 4

    def test_keeps_its_own_columns(self):
        counts = np.array([1, 2])
        result = Histogram([0, 1], counts, 1)
        counts[0] = 9
        assert result[0] == 1

    def test_survives_pickle_and_json(self):
        result = histogram(LINES)
        assert pickle.loads(pickle.dumps(result)) == result
        assert json.loads(json.dumps(result.to_dict())) == {str(d): n for d, n in FIGURE_1.items()}

    def test_from_dense_leaves_zeros_out(self):
        assert Histogram.from_dense([0, 3, 0, 1], 2) == {-1: 2, 1: 3, 3: 1}

    def test_prints_on_one_line(self):
        assert repr(histogram(LINES)) == "Histogram(7 accesses, 3 infinite, largest 2)"

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            (([0, 1], [1], 0), r"counts: 1 values: must be 2, one for each distance"),
            (([1, 0], [1, 1], 0), "distances: must be strictly ascending"),
            (([1, 1], [1, 1], 0), "distances: must be strictly ascending"),
            (([-1], [1], 0), "distances=-1: must be 0"),
            (([0], [0], 0), "counts=0: leave out"),
            (([0], [-2], 0), "counts=-2: must be 0"),
            (([0], [1.5], 0), "counts: must be integers, not float64"),
            (([0], [1], -1), "infinite=-1"),
            (([0], [1], 1.5), "infinite: must be integers"),
            (([[0]], [1], 0), "distances: shape"),
        ],
        ids=str,
    )
    def test_refuses_columns_that_are_no_histogram(self, columns, message):
        with pytest.raises(ConfigError, match=message):
            Histogram(*columns)


class TestMissRatioCurve:
    @given(streams, st.integers(0, 20))
    def test_is_that_of_a_simulated_lru_cache(self, lines, size):
        assert miss_ratio_curve(lines, [size]).at(size) == lru_misses(lines, size) / len(lines)
        assert histogram(lines).miss_ratio(size) == lru_misses(lines, size) / len(lines)

    @given(streams)
    def test_never_rises_and_ends_at_the_compulsory_misses(self, lines):
        curve = miss_ratio_curve(lines, range(25))
        assert (np.diff(curve.miss_ratios) <= 0).all()
        assert curve.at(0) == 1
        assert curve.at(24) == len(set(lines)) / len(lines)

    @given(streams)
    def test_of_a_stream_is_that_of_its_histogram(self, lines):
        assert miss_ratio_curve(lines) == miss_ratio_curve(histogram(lines)) == histogram(lines).miss_ratio_curve()

    @pytest.mark.parametrize(
        ("distinct", "sizes"),
        [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (4, [1, 2, 4]), (5, [1, 2, 4, 5]), (8, [1, 2, 4, 8])],
    )
    def test_has_powers_of_two_up_to_the_distinct_lines_by_default(self, distinct, sizes):
        assert miss_ratio_curve(np.arange(distinct)).sizes.tolist() == sizes

    def test_keeps_the_order_of_sizes(self):
        curve = miss_ratio_curve(LINES, [3, 1, 1])
        assert list(curve) == [(3, 3 / 7), (1, 6 / 7), (1, 6 / 7)]
        assert len(curve) == 3

    def test_may_be_empty(self):
        curve = miss_ratio_curve(LINES, [])
        assert list(curve) == []
        assert repr(curve) == "MissRatioCurve(0 sizes)"

    def test_is_frozen_and_plain_as_a_dict(self):
        curve = miss_ratio_curve(LINES, [0, 2])
        assert json.loads(json.dumps(curve.to_dict())) == {"sizes": [0, 2], "miss_ratios": [1.0, 4 / 7]}
        assert pickle.loads(pickle.dumps(curve)) == curve
        assert curve != {"sizes": [0, 2]}
        with pytest.raises(AttributeError):
            curve.sizes = None
        with pytest.raises(ValueError, match="read-only"):
            curve.miss_ratios[0] = 0

    def test_of_nothing_does_not_exist(self):
        with pytest.raises(TraceError, match="at least one access"):
            miss_ratio_curve([])

    def test_says_which_sizes_it_has(self):
        with pytest.raises(ConfigError, match=r"size=3: not on the curve; its sizes are 1, 2$"):
            miss_ratio_curve(LINES, [1, 2]).at(3)
        with pytest.raises(ConfigError, match=r"10, 11, \.\.\.$"):
            miss_ratio_curve(LINES, range(99)).at(100)

    @pytest.mark.parametrize(
        ("sizes", "message"),
        [
            ([-1], "sizes=-1: must be 0"),
            ([1.5], "sizes: must be integers, not float64"),
            ([float("nan")], "sizes: must be integers"),
            ([2**63], "sizes=9223372036854775808: must be 0"),
            (4, r"sizes: shape \(\)"),
            (["4K"], "sizes: must be integers"),
        ],
        ids=str,
    )
    def test_refuses_sizes_that_no_cache_has(self, sizes, message):
        with pytest.raises(ConfigError, match=message):
            miss_ratio_curve(LINES, sizes)

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            (([1, 2], [0.5]), r"miss_ratios: shape \(1,\): must be \(2,\), the shape of sizes"),
            (([1], [1.5]), "miss_ratios=1.5: must be 0 to 1"),
            (([1], [float("nan")]), "miss_ratios=nan"),
            (([1], ["much"]), "miss_ratios: must be numbers"),
        ],
        ids=str,
    )
    def test_refuses_columns_that_are_no_curve(self, columns, message):
        with pytest.raises(ConfigError, match=message):
            MissRatioCurve(*columns)
