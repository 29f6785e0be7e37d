"""Heat maps: a cell for every tile, read back from the file."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rdmodel.errors import ConfigError
from rdmodel.plots.heatmap import heat_map

pytest.importorskip("matplotlib")


def plain(values, infeasible=()) -> dict[str, object]:
    """Return what `Ranking.to_dict` does of tiles with such values, the least first."""
    ordered = sorted(values, key=lambda one: one[1])
    return {
        "objective": "dram_bytes",
        "tiles": [{"tile": tile, "value": value} for tile, value in ordered],
        "infeasible": [{"tile": tile, "reason": "too large"} for tile in infeasible],
    }


def draw(ranking, path: Path) -> str:
    heat_map(ranking, path)
    return path.read_text()


def texts(svg: str) -> Counter[str]:
    return Counter(one.text for one in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"))


GRID = [({"TI": ti, "TJ": tj}, 100.0 * (1 + ti / 8) * (1 + tj / 16)) for ti in (8, 16) for tj in (16, 32, 64)]


def test_a_cell_says_how_many_times_the_best_value_its_tile_has(tmp_path):
    found = texts(draw(plain(GRID), tmp_path / "a.svg"))
    least = min(value for _, value in GRID)
    for text, count in Counter(f"{value / least:.2f}" for _, value in GRID).items():
        assert found[text] >= count
    assert found["TI"] == found["TJ"] == 1
    assert {"8", "16", "32", "64"} <= found.keys()
    assert found["dram_bytes, times the best"] == 1


def test_sizes_are_in_order_whatever_the_order_of_the_tiles(tmp_path):
    svg = draw(plain([({"T": t}, float(t)) for t in (64, 8, 16, 128)]), tmp_path / "a.svg")
    ticks = re.findall(r"<g id=\"xtick_\d+\">.*?>(\d+)</text>", svg, re.S)
    assert ticks == ["8", "16", "64", "128"]


def test_a_name_that_does_not_vary_has_no_axis(tmp_path):
    found = texts(draw(plain([({**tile, "TK": 8}, value) for tile, value in GRID]), tmp_path / "a.svg"))
    assert "TK" not in found
    assert not [text for text in found if text.startswith("TK")]


def test_every_choice_of_further_sizes_has_a_panel(tmp_path):
    four = [
        ({"TK": tk, "block": block, **tile}, value * tk)
        for tile, value in GRID
        for tk in (1, 2)
        for block in ([32, 8], [16, 16])
    ]
    found = texts(draw(plain(four), tmp_path / "a.svg"))
    for title in ("TK=1, block=32x8", "TK=1, block=16x16", "TK=2, block=32x8", "TK=2, block=16x16"):
        assert found[title] == 1


def test_tiles_that_cannot_run_have_a_cross_and_the_best_a_frame(tmp_path):
    without = draw(plain(GRID), tmp_path / "a.svg")
    crossed = draw(plain(GRID[:-1], [GRID[-1][0]]), tmp_path / "b.svg")
    count = [svg.count("stroke: #808080") for svg in (without, crossed)]
    assert count[1] > count[0]
    for svg in (without, crossed):
        assert svg.count("stroke: #ff0000") == 1


def test_the_same_ranking_gives_the_same_file(tmp_path):
    for suffix in ("svg", "png", "pdf"):
        one, two = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
        heat_map(plain(GRID), one)
        heat_map(plain(GRID), two)
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("value", [0.0, -7.5, 1e300, 1e-300])
def test_values_of_any_size_are_drawn(tmp_path, value):
    draw(plain([({"T": 8}, value), ({"T": 16}, value), ({"T": 32}, value + abs(value) / 2)]), tmp_path / "a.svg")
    draw(plain([({"T": 8}, value)]), tmp_path / "b.svg")


def test_a_rough_value_below_the_best_is_drawn(tmp_path):
    ranking = plain([({"T": 8}, 100.0), ({"T": 16}, 200.0)])
    ranking["tiles"].append({"tile": {"T": 32}, "value": 50.0})
    found = texts(draw(ranking, tmp_path / "a.svg"))
    assert {"1.00", "2.00", "0.50"} <= found.keys()


@pytest.mark.parametrize(
    ("ranking", "named"),
    [
        (plain([]), "nothing to draw"),
        (plain([], [{"T": 8}]), "nothing to draw"),
        (plain([(8, 1.0)]), "a heat map needs tiles with sizes by name"),
        (plain([({}, 1.0)]), "a heat map needs tiles with sizes by name"),
        (
            plain(
                [({"A": a, "T": 1, "U": u}, 1.0 + u) for a in range(17) for u in (1, 2)]
                + [({"A": 0, "T": 2, "U": 1}, 9.0)]
            ),
            "17 panels",
        ),
        (plain([({"T": [[1], [2]]}, 1.0)]), "sizes must be numbers"),
    ],
)
def test_what_cannot_be_drawn_is_refused(tmp_path, ranking, named):
    with pytest.raises(ConfigError, match=named):
        heat_map(ranking, tmp_path / "a.svg")
    assert not (tmp_path / "a.svg").exists()


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="must end in"):
        heat_map(plain(GRID), tmp_path / "a.txt")
    with pytest.raises(ConfigError, match="there is no folder"):
        heat_map(plain(GRID), tmp_path / "gone" / "a.svg")
