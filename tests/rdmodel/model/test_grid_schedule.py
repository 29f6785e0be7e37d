"""The blocks of a grid in time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.model.grid_schedule import GridSchedule, Spread


@given(
    st.integers(1, 200), st.integers(1, 5), st.integers(1, 4), st.floats(0, 0.3), st.floats(0, 0.3), st.integers(0, 9)
)
def test_no_sm_ever_has_more_blocks_than_slots_and_blocks_begin_in_order(blocks, sms, slots, between, within, seed):
    schedule = GridSchedule(blocks, sms, slots, Spread(between, within), seed)
    assert np.all(np.diff(schedule.start) >= 0)
    for time in (*schedule.start[::7], *schedule.end[::7]):
        now = schedule.moment(float(time))
        assert np.bincount(now.sms, minlength=sms).max(initial=0) <= slots
        assert now.next >= len(now.resident)
        assert np.all((now.shares >= 0) & (now.shares < 1))


@given(st.integers(1, 200), st.floats(0.01, 0.99))
def test_the_time_of_an_amount_of_work_is_when_that_much_is_done(blocks, share):
    schedule = GridSchedule(blocks, 3, 2, Spread(0.1, 0.1), 0)
    assert schedule.work_until(schedule.time_of(share * blocks)) == pytest.approx(share * blocks, abs=1e-6)


def test_blocks_that_all_take_the_same_time_run_in_waves():
    schedule = GridSchedule(12, 2, 2, Spread(), 0)
    assert schedule.start.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert schedule.sm[:4].tolist() == [0, 1, 0, 1]
    now = schedule.moment(1.25)
    assert (now.resident.tolist(), now.shares.tolist(), now.next) == ([4, 5, 6, 7], [0.25] * 4, 8)
