"""The estimate of the time that a run still takes."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from rdmodel.cli import progress_line
from rdmodel.cli.progress_line import ProgressLine, block_progress, percent_progress
from rdmodel.cli.time_left import TimeLeft, format_time_left


def after(*observations: tuple[float, float]) -> float | None:
    left = TimeLeft()
    for now, share in observations:
        left.observe(now, share)
    return left.seconds()


def test_a_steady_run_takes_as_long_as_its_speed_says():
    assert after((0, 0), (10, 0.25)) == pytest.approx(30)
    assert after((0, 0), (10, 1.0)) == 0


@pytest.mark.parametrize("seen", [[], [(0, 0)], [(0, 0), (1, 0.1)], [(0, 0), (30, 0)], [(0, 0), (9, 1e-9)]])
def test_a_run_that_tells_nothing_has_no_estimate(seen):
    assert after(*seen) is None


def test_steps_that_were_stored_before_do_not_count_for_ever():
    seen = [(0.0, 0.0), (0.1, 0.5)] + [(10.0 * i, 0.5 + 0.01 * i) for i in range(1, 21)]
    assert after(*seen) == pytest.approx(300, rel=0.05)


def test_a_stall_lengthens_the_estimate():
    before = after((0, 0), (10, 0.5))
    assert before == pytest.approx(10)
    assert after((0, 0), (10, 0.5), (20, 0.5), (40, 0.5)) == pytest.approx(40)


def test_the_next_part_of_a_run_starts_anew():
    assert after((0, 0), (10, 0.9), (11, 0.0)) is None
    assert after((0, 0), (10, 0.9), (11, 0.0), (21, 0.5)) == pytest.approx(10)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (0.0, ""),
        (0.2, ", about 1 s left"),
        (61, ", about 2 min left"),
        (3600, ", about 1 h 0 min left"),
        (7390, ", about 2 h 4 min left"),
    ],
)
def test_a_time_is_told_in_units_that_suit_it(seconds, text):
    assert format_time_left(seconds) == text


class Screen(io.StringIO):
    """A terminal that shows stderr."""

    def isatty(self) -> bool:
        return True

    def line(self) -> str:
        """Return the line that was drawn last."""
        return self.getvalue().rpartition("\x1b[K")[2]


@pytest.fixture
def screen(monkeypatch):
    """Make stderr a terminal."""
    screen = Screen()
    monkeypatch.setattr(progress_line, "sys", SimpleNamespace(stderr=screen))
    return screen


@pytest.fixture
def clock(monkeypatch):
    """Return a list that holds the time."""
    now = [0.0]
    monkeypatch.setattr(progress_line, "monotonic", lambda: now[0])
    return now


def test_the_line_tells_the_time_that_is_left(clock, screen):
    line = block_progress("a")
    line(0, 100)
    clock[0] = 10.0
    line(25, 100)
    assert screen.line() == "a: block 25 of 100, 10 s, about 30 s left"


@pytest.mark.parametrize("make", [block_progress, percent_progress])
def test_an_unknown_total_has_no_estimate(clock, screen, make):
    line = make("a")
    for clock[0] in (0.0, 5.0, 10.0):
        line(int(clock[0]), 0)
    assert screen.line().endswith(", 10 s")


def test_a_long_line_is_cut_so_that_it_can_be_erased(clock, screen):
    line = ProgressLine(lambda done, total: "x" * 500)
    line(0, 100)
    clock[0] = 10.0
    line(50, 100)
    text = screen.line()
    assert len(text) == 79
    assert text.endswith("x, 10 s, about 10 s left")
