"""The reuse stack against a list, a sorted list, and its own invariants."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sortedcontainers import SortedList

from rdmodel._tree import Distances, unique_pass
from tests.support.examples import examples

SMALLEST = 256  # positions of a new time line
SPREAD = 16  # positions per line, at least, of one that has grown


def by_list(lines):
    """Naive oracle: a list with the latest line at its end. O(accesses x lines)."""
    stack, distances = [], []
    for line in lines:
        if line in stack:
            depth = len(stack) - 1 - stack.index(line)
            stack.remove(line)
        else:
            depth = -1
        stack.append(line)
        distances.append(depth)
    return distances


def by_sorted_list(lines):
    """Second oracle, fast enough for long streams: the times of last access, sorted."""
    last, times, distances = {}, SortedList(), []
    for now, line in enumerate(lines):
        if line in last:
            distances.append(len(times) - times.bisect_right(last[line]))
            times.remove(last[line])
        else:
            distances.append(-1)
        last[line] = now
        times.add(now)
    return distances


def feed(stack, lines):
    lines = np.ascontiguousarray(lines, dtype=np.int64)
    distances = np.full(len(lines), -7, dtype=np.int64)
    stack.feed(lines, distances)
    return distances.tolist()


def checked(lines):
    stack = Distances()
    distances = feed(stack, lines)
    stack.check()
    return distances


def random_stream(n, distinct, seed=0):
    return np.random.default_rng(seed).integers(-distinct // 2, distinct // 2, n)


@examples(200)
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 12), max_size=120))
def test_any_lines_agree_with_the_list(lines):
    assert checked(lines) == by_list(lines)


@examples(40)
@given(
    n=st.integers(1, 4000),
    distinct=st.integers(1, 900),
    hot=st.integers(1, 20),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_streams_with_hot_lines_agree_with_the_sorted_list(n, distinct, hot, seed):
    rng = np.random.default_rng(seed)
    lines = np.where(rng.random(n) < 0.5, rng.integers(0, hot, n), rng.integers(-distinct, distinct, n))
    assert checked(lines) == by_sorted_list(lines.tolist())


@pytest.mark.parametrize(
    ("n", "distinct"),
    [(1500, 4), (3000, 128), (3000, 129), (3000, 256), (5000, 1000), (20_000, 5000), (40_000, 17_000)],
    ids=str,
)
def test_many_compactions_and_growth_keep_distances_exact(n, distinct):
    lines = random_stream(n, distinct)
    assert checked(lines) == by_sorted_list(lines.tolist())


@pytest.mark.parametrize("distinct", [1, 2, 63, 64, 65, 127, 128, 129, 255, 256, 257, 4095, 4096, 4097, 9000])
def test_a_cycle_has_one_distance_at_every_size_around_a_block(distinct):
    laps = 2 + 1200 // distinct
    stack = Distances()
    assert feed(stack, list(range(distinct)) * laps) == [-1] * distinct + [distinct - 1] * (distinct * (laps - 1))
    stack.check()


def test_distances_across_every_level_of_counts_are_exact():
    # 300,000 lines need counts over 2^18 positions; reading them there and back visits every distance once.
    distinct = 300_000
    stack = Distances()
    feed(stack, np.arange(distinct))
    back = np.arange(distinct)[::-1]
    assert feed(stack, back) == list(range(distinct))
    stack.check()
    assert feed(stack, back) == [distinct - 1] * distinct
    stack.check()


def test_a_sawtooth_over_a_deep_stack_leaves_old_lines_in_place():
    deep, hot = 70_000, 500
    lines = np.concatenate((np.arange(deep), np.tile(np.arange(hot), 400), np.arange(deep)))
    assert checked(lines) == by_sorted_list(lines.tolist())


@st.composite
def runs(draw):
    """Lines in ascending stretches that repeat one another, shifted and cut, with single lines between them."""
    stretches = st.tuples(st.integers(0, 300), st.integers(1, 200), st.sampled_from([1, 1, 1, 2, -1]))
    lines = []
    for start, length, step in draw(st.lists(stretches, min_size=1, max_size=30)):
        lines += range(start, start + step * length, step)
        lines += draw(st.lists(st.integers(0, 300), max_size=3))
    return lines


@examples(150)
@given(lines=runs(), laps=st.integers(1, 3))
def test_lines_that_return_in_order_agree_with_the_sorted_list(lines, laps):
    assert checked(lines * laps) == by_sorted_list(lines * laps)


@pytest.mark.parametrize("period", [1, 2, 3, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 191, 192, 193])
@pytest.mark.parametrize("interrupt", [5, 64, 97])
def test_a_cycle_with_interruptions_agrees_with_the_sorted_list(period, interrupt):
    # A line from outside, now and then, cuts the runs at other places than the words of the time line do.
    lines = [-1 - i // interrupt % 3 if i % interrupt == 0 else i % period for i in range(3000)]
    assert checked(lines) == by_sorted_list(lines)


def test_two_streams_in_turn_keep_each_other_from_running():
    # As in a matrix product: one line that returns at once, between lines that return in order.
    lines = [k // 32 if i % 2 == 0 else 1000 + 16 * (k % 40) + i // 2 % 16 for k in range(400) for i in range(96)]
    assert checked(lines) == by_sorted_list(lines)


def test_a_repeated_line_has_distance_zero_and_keeps_the_time_line_short():
    stack = Distances()
    assert feed(stack, [5] * 100_000)[1:] == [0] * 99_999
    assert stack.capacity == SMALLEST
    stack.check()


@examples(60)
@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(0, 3000), max_size=8))
def test_a_stream_in_chunks_is_the_whole_stream(seed, cuts):
    lines = random_stream(3000, 700, seed)
    whole, pieces = Distances(), Distances()
    chunks = np.split(lines, sorted(cuts))
    assert [d for chunk in chunks for d in feed(pieces, chunk)] == feed(whole, lines)
    assert (pieces.distinct, pieces.capacity) == (whole.distinct, whole.capacity)
    pieces.check()


def test_a_million_accesses_to_fifty_lines_need_a_tiny_time_line():
    stack = Distances()
    feed(stack, random_stream(1_000_000, 50))
    assert stack.distinct == 50
    assert stack.capacity <= 2 * SPREAD * 50
    stack.check()


def test_the_time_line_grows_with_the_lines_and_not_with_the_stream():
    stack = Distances()
    lines = random_stream(100_000, 3000)
    for _ in range(5):
        feed(stack, lines)
        assert SPREAD * 3000 / 2 <= stack.capacity <= 2 * SPREAD * stack.distinct


@pytest.mark.parametrize("step", [1, 2, 128, 2**20, 2**32, 2**40, 2**58], ids=hex)
def test_regular_strides_do_not_confuse_the_hash_table(step):
    count = min(3000, 2**63 // step - 1)
    lines = np.arange(count, dtype=np.int64) * step
    assert checked(np.concatenate((lines, lines))) == [-1] * count + [count - 1] * count


def test_a_table_of_more_than_a_million_lines_finds_them_all_again():
    """Such a table takes more than 64 MB, for which the system is asked for large pages."""
    n = (1 << 20) + 1
    lines, distances = np.arange(n) * 3, np.empty(n, np.int64)
    found = Distances()
    found.feed(lines, distances)
    assert (distances == -1).all()
    found.feed(lines, distances)
    assert (distances == n - 1).all()
    assert found.distinct == n


def test_streams_do_not_disturb_each_other():
    one, two = Distances(), Distances()
    assert feed(one, [1, 2, 1]) == [-1, -1, 1]
    assert feed(two, [1, 1]) == [-1, 0]
    assert feed(one, [2]) == [1]


def test_an_empty_chunk_changes_nothing():
    stack = Distances()
    assert feed(stack, []) == []
    feed(stack, [1])
    assert feed(stack, []) == []
    assert stack.distinct == 1
    stack.check()


def test_an_output_of_another_length_is_refused():
    with pytest.raises(ValueError, match="2 distances for 3 lines"):
        Distances().feed(np.zeros(3, dtype=np.int64), np.zeros(2, dtype=np.int64))


def test_read_only_lines_are_accepted():
    lines = np.array([1, 1], dtype=np.int64)
    lines.flags.writeable = False
    assert feed(Distances(), lines) == [-1, 0]


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5), max_size=200))
def test_the_plain_pass_counts_distinct_lines(lines):
    assert unique_pass(np.array(lines, dtype=np.int64)) == len(set(lines))


def test_the_plain_pass_counts_many_distinct_lines():
    assert unique_pass(np.tile(np.arange(100_000) * 37, 2)) == 100_000
