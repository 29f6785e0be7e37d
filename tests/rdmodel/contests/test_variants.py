"""Variants of the runs of a contest: other latencies and addresses, and the intervals over them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest
from scipy.stats import gmean, t

import rdmodel as rd
import tracegen
from rdmodel.cli import main
from rdmodel.errors import ConfigError
from rdmodel.simulator.jitter import vary
from rdmodel.simulator.simulate import simulate

GPU = "gtx470-16k"
ATAX = tracegen.kernel("atax.1", NX=64, NY=64, block=(32, 1, 1))
BICG = tracegen.kernel("bicg.1", NX=64, NY=64, block=(32, 1, 1))


@pytest.fixture(scope="module")
def varied() -> rd.Contest:
    return rd.contest([ATAX, BICG], ["mrpb", "pd"], GPU, jitter=4, n_jobs=1)


def hand_made(*ratios: tuple[float, ...]) -> rd.Contest:
    """Return a contest in which ``pd`` is so many times as fast as nothing, in each variant of each kernel."""
    run = simulate(ATAX, GPU)

    def took(cycles: float) -> rd.Simulation:
        return replace(run, instructions=1000, cycles=cycles)

    return rd.Contest(
        combinations=(rd.combination("none"), rd.combination("pd")),
        simulations=tuple({"none": took(1000.0), "pd": took(1000.0 / row[0])} for row in ratios),
        variants=tuple(
            {
                "none": {number: took(1000.0 + number) for number in range(1, len(row))},
                "pd": {number: took((1000.0 + number) / row[number]) for number in range(1, len(row))},
            }
            for row in ratios
        ),
        jitter=len(ratios[0]),
    )


def test_a_variant_has_other_latencies_and_addresses_that_the_numbers_determine():
    gpu = rd.presets.gpu(GPU)
    assert vary(ATAX, gpu, 0, seed=3) == (ATAX, gpu)
    variants = [vary(ATAX, gpu, number, seed=3) for number in range(1, 20)]
    latencies = {(one.core.hit_latency - gpu.core.hit_latency, one.l2.latency - gpu.l2.latency) for _, one in variants}
    assert len(latencies) > 10
    assert all(abs(change) <= 5 for pair in latencies for change in pair)
    bases = {tuple(array.base for array in trace.launch.arrays) for trace, _ in variants}
    assert len(bases) == len(variants)
    again, same_gpu = vary(ATAX, gpu, 1, seed=3)
    assert (again.launch, same_gpu) == (variants[0][0].launch, variants[0][1])
    assert vary(ATAX, gpu, 1, seed=4)[1] != same_gpu or vary(ATAX, gpu, 1, seed=4)[0].launch != again.launch


def test_the_latency_of_a_hit_stays_at_least_one():
    gpu = rd.presets.gpu(GPU)
    fast = gpu.replace(core=replace(gpu.core, hit_latency=1), l2=replace(gpu.l2, latency=0))
    changed = [vary(ATAX, fast, number)[1] for number in range(1, 20)]
    assert min(one.core.hit_latency for one in changed) == 1
    assert min(one.l2.latency for one in changed) == 0


def test_the_first_variant_is_the_run_without_changes(varied):
    plain = rd.contest([ATAX, BICG], ["mrpb", "pd"], GPU, n_jobs=1)
    assert varied.simulations == plain.simulations
    assert plain.variants == ()
    assert plain.interval("pd") == (None, None)
    assert plain.mean_interval("pd") is None


def test_all_combinations_have_the_same_variants(varied):
    for trace, by_name in zip((ATAX, BICG), varied.variants, strict=True):
        assert list(by_name) == ["none", "mrpb", "pd"]
        for number in (1, 2, 3):
            moved, gpu = vary(trace, rd.presets.gpu(GPU), number)
            assert by_name["none"][number] == simulate(moved, gpu)


def test_processes_change_no_variant(varied):
    assert rd.contest([ATAX, BICG], ["mrpb", "pd"], GPU, jitter=4, n_jobs=2) == varied


def test_a_ratio_is_the_mean_over_variants_of_equal_conditions():
    result = hand_made((2.0, 1.5, 1.0), (3.0, 3.0, 3.0))
    assert result.relative_ipc("pd") == pytest.approx((gmean([2.0, 1.5, 1.0]), 3.0))
    assert result.relative_ipc("none") == (1.0, 1.0)
    assert result.geometric_mean("pd") == pytest.approx(gmean([gmean([2.0, 1.5, 1.0]), 3.0]))


def test_an_interval_is_that_of_students_t_for_the_logarithms():
    from numpy import exp, log

    ratios = (2.0, 1.5, 1.0)
    [(low, high)] = hand_made(ratios).interval("pd")
    logs = log(ratios)
    assert (low, high) == pytest.approx(exp(t.interval(0.95, 2, logs.mean(), logs.std(ddof=1) / 3**0.5)))
    [(low, high)] = hand_made((2.0, 2.0, 2.0)).interval("pd")
    assert (low, high) == pytest.approx((2.0, 2.0))


def test_the_interval_of_a_mean_is_over_the_means_of_the_variants():
    both = hand_made((2.0, 1.0), (1.0, 2.0))
    assert both.mean_interval("pd") == pytest.approx((2**0.5, 2**0.5))
    assert both.interval("pd")[0] != pytest.approx((2**0.5, 2**0.5))


def test_a_kernel_is_complete_when_all_its_variants_are():
    finished: list[rd.Contest] = []
    rd.contest([ATAX, BICG], ["pd"], GPU, jitter=3, n_jobs=1, so_far=finished.append)
    assert len(finished) == 12
    assert [sum(result.complete) for result in finished[:5]] == [0, 0, 0, 0, 0]
    assert [sum(result.complete) for result in finished[5:]] == [1, 1, 1, 1, 1, 1, 2]
    assert finished[2].interval("pd") == (None,)
    assert finished[3].interval("pd") != (None,)


def test_rows_and_json_have_the_intervals(varied):
    rows = varied.to_rows()
    assert [(row["kernel"], row["policies"]) for row in rows][:3] == [("atax.1", name) for name in varied.names]
    assert (rows[1]["relative_ipc_low"], rows[1]["relative_ipc_high"]) == varied.interval("mrpb")[0]
    plain = json.loads(json.dumps(varied.to_dict()))
    assert plain["kernels"][0]["interval"]["pd"] == list(varied.interval("pd")[0])
    assert len(plain["kernels"][0]["relative_ipc_by_variant"]["pd"]) == 4
    assert plain["mean_interval"]["pd"] == list(varied.mean_interval("pd"))


def test_without_variants_nothing_says_that_there_are_none():
    plain = rd.contest(ATAX, ["pd"], GPU, n_jobs=1)
    assert "mean_interval" not in plain.to_dict()
    assert "relative_ipc_low" not in plain.to_rows()[0]


def test_a_figure_has_a_line_for_each_interval(varied):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    ax = figure.subplots()
    varied.plot(ax)
    assert len(ax.lines) == 1 + 2 * 3  # the baseline, and two combinations of two kernels and their mean


@pytest.mark.parametrize("jitter", [0, -1, 1001, 2.5, True])
def test_a_number_of_variants_out_of_range_is_refused(jitter):
    with pytest.raises(ConfigError, match="jitter="):
        rd.contest(ATAX, ["pd"], GPU, jitter=jitter)


WORDS = [
    "policies",
    "atax.1",
    "--param",
    "NX=64",
    "--param",
    "NY=64",
    "--gpu",
    GPU,
    "--policies",
    "pd",
    "--jitter",
    "3",
]


def test_the_command_shows_intervals(capsys):
    assert main(WORDS) == 0
    out = capsys.readouterr().out
    assert "relative   95 % interval" in out
    assert "relative is a mean over 3 variants" in out
    assert "6 runs" in out


def test_csv_has_the_ends_of_the_intervals(capsys):
    assert main([*WORDS, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert float(rows[1]["relative_ipc_low"]) <= float(rows[1]["relative_ipc"]) <= float(rows[1]["relative_ipc_high"])
