"""The figure of a contest: bars for few runs, a table for many, and the L1 hit rates below the speeds."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import rdmodel as rd
from rdmodel.errors import ConfigError
from rdmodel.plots.contest_figure import MAX_BARS, contest_figure
from tests.support.contests import hand_made

pytest.importorskip("matplotlib")


def draw(tmp_path, result: rd.Contest) -> str:
    contest_figure(result, tmp_path / "a.svg")
    return (tmp_path / "a.svg").read_text()


def bars_of(svg: str) -> list[list[float]]:
    """Return the heights of the bars of both panels, as shares of the highest; clipped rectangles are bars."""
    panels = []
    for text in svg.split('<g id="axes_')[1:]:
        found = re.findall(r'<path d="M [\d.]+ ([\d.]+) \nL [\d.]+ \1 \nL [\d.]+ ([\d.]+) [^"]*" clip-path', text)
        heights = np.array([float(foot) - float(head) for foot, head in found])
        panels.append((heights / heights.max()).tolist())
    return panels


def test_bars_are_grouped_by_kernel_and_have_the_means_at_the_end(tmp_path):
    result = hand_made({"none": 100, "pd": 50, "mrpb": 200}, {"none": 100, "pd": 50, "mrpb": 50})
    svg = draw(tmp_path, result)
    for word in ("k0", "k1", "mean", "none", "pd", "mrpb", "IPC relative to none", "L1 hit rate (%)"):
        assert f">{word}</text>" in svg
    # The baseline has no bar of speed. All runs have the hit rate of the same counters.
    speeds, rates = bars_of(svg)
    assert speeds == pytest.approx([1, 1, 1, 0.25, 1, 0.5], abs=1e-3)
    assert rates == pytest.approx([1] * 9, abs=1e-3)
    assert draw(tmp_path, result) == svg


def test_one_kernel_has_no_means_and_a_missing_run_leaves_a_gap(tmp_path):
    svg = draw(tmp_path, hand_made({"none": 100, "pd": 50, "mrpb": 200}, {"none": 100, "mrpb": 50}))
    assert ">mean</text>" not in svg
    speeds, rates = bars_of(svg)
    assert speeds == pytest.approx([1, 0.25, 1], abs=1e-3)
    assert len(rates) == 5


@pytest.mark.parametrize("rows", [[{"none": 100}], [{"pd": 100}]])
def test_bars_of_nothing_are_refused(tmp_path, rows):
    with pytest.raises(ConfigError, match="Contest: there is nothing to draw"):
        draw(tmp_path, hand_made(*rows, names=("none", *(name for name in rows[0] if name != "none"))))


def test_many_runs_become_a_table_of_numbers(tmp_path):
    rows = [{"none": 100, "pd": 80, "mrpb": 200} for _ in range(MAX_BARS // 2)]
    result = hand_made(*rows, {"none": 100, "pd": 25, "mrpb": 200})
    svg = draw(tmp_path, result)
    assert svg.count(">1.25</text>") == len(rows)
    assert svg.count(">4.00</text>") == 1
    assert svg.count(">0.50</text>") == len(rows) + 2  # and their mean
    assert ">mrpb</text>" in svg and ">none</text>" in svg
    share = 100 * result.simulations[0]["none"].hits / result.simulations[0]["none"].transactions
    assert svg.count(f">{share:.0f}</text>") == 3 * (len(rows) + 2)
    assert draw(tmp_path, result) == svg


def test_a_load_past_the_l1_is_no_hit(tmp_path):
    result = hand_made({"none": 100, "pd": 50})
    run = result.simulations[0]["pd"]
    half = replace(run, bypassed=int(run.loads))
    none = replace(run, bypassed=run.hits, hits=0, misses=replace(run.misses, compulsory=0))
    runs = ({"none": run, "pd": half}, {"none": none, "pd": run})
    result = replace(result, simulations=runs)
    rate = run.hits / run.loads
    assert result.hit_rate("none") == pytest.approx((rate, 0))
    assert result.hit_rate("pd") == pytest.approx((rate / 2, rate))
    assert result.mean_hit_rate("pd") == pytest.approx(0.75 * rate)


def test_there_is_no_hit_rate_without_loads_or_runs():
    result = hand_made({"none": 100}, names=("none", "pd"))
    assert result.hit_rate("pd") == (None,)
    assert result.mean_hit_rate("pd") is None
    run = result.simulations[0]["none"]
    empty = replace(run, hits=0, misses=replace(run.misses, compulsory=0))
    assert replace(result, simulations=({"none": empty},)).hit_rate("none") == (None,)
