"""Figures of results: what `plot` draws on axes, and what `save_figure` and the commands write into files."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

import pytest

import rdmodel as rd
import tracegen
from rdmodel.cli import main
from rdmodel.common.axes import draw_lines, literal
from rdmodel.errors import ConfigError, RdmodelError
from rdmodel.plots import save_figure
from rdmodel.plots.save_figure import MAX_DRAWN_RESULTS

matplotlib = pytest.importorskip("matplotlib")
pytestmark = pytest.mark.filterwarnings("ignore:.*pyplot.*")

from matplotlib.figure import Figure  # noqa: E402

GPU = "v100"
SIZES = {"NI": 64, "NJ": 64, "NK": 64}


@pytest.fixture
def ax():
    return Figure().subplots()


def gemm(kernel="gemm") -> rd.Trace:
    return tracegen.kernel(kernel, **SIZES)


def widths(ax) -> list[float]:
    return [bar.get_width() for bar in ax.patches]


def heights(ax) -> list[float]:
    return [bar.get_height() for bar in ax.patches]


def tick_names(axis) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def texts(path) -> set[str]:
    svg = "{http://www.w3.org/2000/svg}text"
    return {"".join(one.itertext()).strip() for one in ElementTree.parse(path).iter(svg)}


# ---- results


def test_a_prediction_draws_its_outcomes_in_percent(ax):
    result = rd.predict(gemm(), GPU)
    assert result.plot(ax) is ax
    assert sum(widths(ax)) == pytest.approx(100)
    assert tick_names(ax.yaxis)[:3] == ["hits", "latency misses", "compulsory misses"]
    assert widths(ax)[0] == pytest.approx(100 * result.hits / result.sectors)
    assert ax.get_title() == "gemm on v100"


def test_a_curve_draws_its_points_in_lines_or_bytes(ax):
    curve = rd.MissRatioCurve([1, 2, 8], [1.0, 0.5, 0.25])
    curve.plot(ax)
    curve.plot(ax, line=128)
    lines, sizes = (line.get_xydata().tolist() for line in ax.lines)
    assert lines == [[1, 1.0], [2, 0.5], [8, 0.25]]
    assert sizes == [[128, 1.0], [256, 0.5], [1024, 0.25]]
    assert ax.get_xscale() == "log"


def test_a_histogram_draws_shares_of_ranges_of_distances(ax):
    rd.Histogram([0, 1, 2, 3], [1, 1, 1, 1], infinite=4).plot(ax)
    assert heights(ax) == pytest.approx([0.5, 0.125, 0.125, 0.25])
    assert tick_names(ax.xaxis) == ["infinite", "0", "1", "2 to 3"]


def test_a_locality_draws_all_re_references_and_those_that_the_l1s_served(ax):
    result = rd.locality(gemm(), GPU)
    result.plot(ax)
    counts = [*result.unbounded.to_dict().values(), *result.bounded.to_dict().values()]
    assert heights(ax) == pytest.approx([100 * n / result.accesses for n in counts])


def test_a_simulation_and_a_comparison_draw_shares_of_the_loads(ax):
    comparison = rd.compare(gemm(), "gtx470-16k")
    comparison.plot(ax)
    assert len(heights(ax)) == len(comparison.simulated) * (1 + len(comparison.predictions))
    other = Figure().subplots()
    comparison.simulation.plot(other)
    assert sum(widths(other)) == pytest.approx(100)


def test_a_sweep_has_a_line_for_every_kernel_and_combination_of_the_other_axes(ax):
    result = rd.sweep([gemm(), gemm("gemm.tiled")], GPU, sched=["random", "fifo"], seed=[1, 2, 4])
    result.plot(ax)
    assert [line.get_label() for line in ax.lines] == [
        f"{kernel}, sched={sched}" for kernel in ("gemm", "gemm.tiled") for sched in ("random", "fifo")
    ]
    rates = [row.result.miss_rate for row in result.rows]
    assert [y for line in ax.lines for y in line.get_ydata()] == rates


def test_values_that_are_no_numbers_have_bars(ax):
    result = rd.sweep(gemm(), [GPU, "a100-80g"], seed=0)
    result.plot(ax, measure="transactions")
    assert heights(ax) == [row.result.transactions for row in result.rows]
    assert tick_names(ax.xaxis) == ["v100", "a100-80g"]
    assert ax.get_ylabel() == "transactions"


def test_kernels_of_one_name_have_lines_of_their_own(ax):
    result = rd.sweep([gemm(), tracegen.kernel("gemm", NI=32, NJ=32, NK=32)], GPU, seed=[0, 1])
    result.plot(ax, measure=lambda one: one.misses.total)
    assert [line.get_label() for line in ax.lines] == ["gemm (0)", "gemm (1)"]


def test_points_that_cannot_be_run_leave_gaps(ax):
    result = rd.sweep(gemm(), "gtx470-16k", ways=[3, 4], definition="hardware")
    assert len(result.infeasible) == 1
    result.plot(ax)
    assert ax.lines[0].get_xdata().tolist() == [4]


def test_an_unknown_measure_of_a_sweep_is_refused(ax):
    result = rd.sweep(gemm(), GPU, seed=[0, 1])
    with pytest.raises(ConfigError, match="measure='cycles': the results have no such number"):
        result.plot(ax, measure="cycles")


def test_a_ranking_draws_its_best_tiles(ax):
    ranking = rd.rank_tiles(
        lambda tile: tracegen.kernel("gemm", **SIZES, block=(tile["X"], 8, 1)), [{"X": 8}, {"X": 32}], GPU
    )
    ranking.plot(ax)
    assert widths(ax) == pytest.approx([tile.value / ranking.best.value for tile in ranking.tiles])


def test_origins_draw_the_ones_that_miss_most(ax):
    table = rd.predict(gemm(), GPU, origins=True).by("array")
    table.plot(ax)
    assert widths(ax) == [row.counts.misses.total for row in table.rows]
    assert tick_names(ax.yaxis) == [row.name for row in table.rows]


def test_without_axes_a_new_figure_is_made():
    from matplotlib import pyplot

    matplotlib.use("agg")
    drawn = rd.predict(gemm(), GPU).plot()
    assert drawn.figure is pyplot.gcf()
    pyplot.close(drawn.figure)


@pytest.mark.parametrize(
    "result",
    [
        rd.MissRatioCurve([], []),
        rd.Histogram([], [], infinite=0),
        rd.predict(gemm(), "titan-x-pascal"),
        rd.predict(gemm(), "titan-x-pascal", origins=True, blocks=1).by("array").__class__("line", "k", ()),
    ],
    ids=lambda result: type(result).__name__,
)
def test_without_anything_to_draw_the_reason_is_told(result, ax):
    with pytest.raises(ConfigError, match=f"^{type(result).__name__}: there is nothing to draw; "):
        result.plot(ax)


def test_names_are_neither_formulas_nor_left_out_of_legends(ax):
    assert literal("$x_1$") == r"\$x_1\$"
    draw_lines(ax, [1, 2], {"_hidden": [1, 2], "a$b$\x1b": [2, 1]}, "y")
    assert [text.get_text().strip() for text in ax.get_legend().get_texts()] == ["_hidden", r"a\$b\$\x1b"]


# ---- files


def test_results_are_saved_side_by_side(tmp_path):
    results = [rd.predict(gemm(kernel), GPU) for kernel in ("gemm", "gemm.tiled")]
    save_figure(results, tmp_path / "a.svg")
    assert {"gemm on v100", "gemm.tiled on v100"} <= texts(tmp_path / "a.svg")
    save_figure(results, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


@pytest.mark.parametrize("number", [0, MAX_DRAWN_RESULTS + 1])
def test_a_figure_has_few_results(number, tmp_path):
    with pytest.raises(ConfigError, match=f"plot: {number} results: a figure has 1 to {MAX_DRAWN_RESULTS}"):
        save_figure([rd.predict(gemm(), GPU)] * number, tmp_path / "a.svg")


def test_a_value_that_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="plot: int cannot be drawn"):
        save_figure(3, tmp_path / "a.svg")


WORDS = [word for name, size in SIZES.items() for word in ("--param", f"{name}={size}")]


@pytest.mark.parametrize(
    ("words", "drawn"),
    [
        (["mrc", "gemm", *WORDS], {"gemm", "miss ratio", "128 B"}),
        (["mrc", "gemm", *WORDS, "--sample", "0.5"], {"gemm", "miss ratio"}),
        (["locality", "gemm", *WORDS], {"intra-thread", "served by the L1"}),
        (["sweep", "gemm", *WORDS, "--vary", "seed=1,2", "--no-cache"], {"seed", "miss rate"}),
    ],
    ids=["mrc", "sampled", "locality", "sweep"],
)
def test_commands_draw_into_the_file_that_is_named(words, drawn, tmp_path, capsys):
    assert main([*words, "--gpu", GPU, "--plot", str(tmp_path / "a.svg")]) == 0
    assert capsys.readouterr().out
    assert drawn <= texts(tmp_path / "a.svg")


@pytest.mark.parametrize("command", ["mrc", "locality", "sweep"])
def test_a_file_that_cannot_be_written_is_refused_before_the_run(command, tmp_path, capsys):
    assert main([command, "no-such-kernel", "--plot", str(tmp_path / "none" / "a.svg")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_results_are_used_without_loading_matplotlib():
    code = (
        "import sys, rdmodel as rd, tracegen\n"
        f"rd.predict(tracegen.kernel('gemm', **{SIZES}), 'v100').to_dict()\n"
        "assert not any(name.startswith('matplotlib') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_plot_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(RdmodelError, match=r"plots need matplotlib: pip install 'rdmodel\[plot\]'"):
        rd.predict(gemm(), GPU).plot()
