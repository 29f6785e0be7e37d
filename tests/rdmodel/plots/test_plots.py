"""Figures as files: the same numbers give the same file, names stand where they should, mistakes come early."""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rdmodel.errors import ConfigError, RdmodelError
from rdmodel.plots import charts
from tests.support.comparisons import hand_made

matplotlib = pytest.importorskip("matplotlib")

NEAR, FAR = hand_made("near.1", 0.5, 0.57, 0.1), hand_made("far.2", 0.3, 0.39, 0.3)


def draw(path: Path, *comparisons) -> bytes:
    charts.scatter(comparisons, path)
    return path.read_bytes()


@pytest.mark.parametrize("suffix", [".svg", ".pdf", ".png", ".SVG"])
def test_the_same_comparisons_give_the_same_file(tmp_path, suffix, monkeypatch):
    first = draw(tmp_path / f"a{suffix}", NEAR, FAR)
    monkeypatch.setitem(matplotlib.rcParams, "lines.linewidth", 9.0)
    monkeypatch.setitem(matplotlib.rcParams, "axes.facecolor", "black")
    assert draw(tmp_path / f"b{suffix}", NEAR, FAR) == first
    assert draw(tmp_path / f"c{suffix}", NEAR) != first


def test_kernels_that_are_far_off_are_named_and_others_are_not(tmp_path):
    text = draw(tmp_path / "a.svg", NEAR, FAR).decode()
    assert "far.2" in text
    assert "near.1" not in text
    for word in ("hardware", "paper", "simulated miss rate (%)", "predicted miss rate (%)"):
        assert f">{word}</text>" in text


def test_names_go_by_the_first_definition(tmp_path):
    paper = replace(NEAR, predictions={"paper": NEAR.predictions["paper"]})
    text = draw(tmp_path / "a.svg", paper).decode()
    assert "near.1" in text
    assert "hardware" not in text


def test_names_do_not_lie_on_each_other(tmp_path):
    crowd = [hand_made(f"crowd.{i}", 0.9, 0.5) for i in range(6)]
    text = draw(tmp_path / "a.svg", *crowd).decode()
    heights = [float(y) for y in re.findall(r'y="([\d.]+)"[^>]*>crowd', text)]
    assert len(heights) == 6
    gaps = [high - low for low, high in zip(sorted(heights), sorted(heights)[1:], strict=False)]
    assert min(gaps) > 7


def test_the_users_style_is_left_as_it_was(tmp_path):
    before = dict(matplotlib.rcParams)
    draw(tmp_path / "a.svg", FAR)
    assert dict(matplotlib.rcParams) == before


# ---- mistakes


def check(path: Path) -> None:
    """Look at a path in both ways: as the command line does before it works, and as drawing does."""
    with pytest.raises(ConfigError) as early:
        charts.check_path(path)
    with pytest.raises(ConfigError) as late:
        charts.scatter([FAR], path)
    assert str(early.value) == str(late.value)
    raise early.value


@pytest.mark.parametrize("name", ["plot.gif", "plot", ".svg"])
def test_another_suffix_is_refused(tmp_path, name):
    with pytest.raises(ConfigError, match=r"must end in \.svg, \.png, \.pdf"):
        check(tmp_path / name)


def test_a_folder_that_is_missing_and_a_file_that_cannot_be_written_are_told(tmp_path):
    with pytest.raises(ConfigError, match="there is no folder"):
        check(tmp_path / "gone" / "a.svg")
    (tmp_path / "b.svg").mkdir()
    with pytest.raises(ConfigError, match="cannot be written"):
        check(tmp_path / "b.svg")


def test_a_file_that_may_not_be_written_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match="cannot be written"):
        check(tmp_path / "a.svg")


def test_a_file_that_becomes_unwritable_meanwhile_is_told(tmp_path, monkeypatch):
    (tmp_path / "a.svg").mkdir()
    monkeypatch.setattr(charts, "check_path", lambda _: None)
    with pytest.raises(ConfigError, match="cannot be written: exists already and is not a file"):
        charts.scatter([FAR], tmp_path / "a.svg")


@pytest.mark.parametrize("suffix", [".svg", ".pdf", ".png"])
def test_a_full_disk_leaves_the_old_figure_as_it_was(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    before = draw(path, NEAR)
    small = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, small[1]))
    try:
        with pytest.raises(ConfigError, match="cannot be written: File too large"):
            charts.scatter([NEAR, FAR], path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, small)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_figure_keeps_the_permissions_and_the_link_of_the_one_it_replaces(tmp_path):
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "a.svg", tmp_path / "b.svg"
    link.symlink_to(real)
    first = draw(link, NEAR)
    assert (link.is_symlink(), real.read_bytes()) == (True, first)
    real.chmod(0o640)
    assert draw(link, FAR) != first
    assert (link.is_symlink(), real.stat().st_mode & 0o777) == (True, 0o640)


def test_nothing_to_draw_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="nothing to draw"):
        charts.scatter([], tmp_path / "a.svg")


def test_without_matplotlib_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(RdmodelError, match=r"plots need matplotlib: pip install 'rdmodel\[plot\]'"):
        charts.check_path(tmp_path / "a.svg")
