"""The committed comparison of schemes on three generations of GPUs: complete, tabulated and reproduced."""

from __future__ import annotations

import pytest

import rdmodel as rd
import tracegen
from rdmodel.contests.contest import Contest, contest
from rdmodel.contests.defaults import default_combinations
from tracegen.kernel_library.suites import SUITES
from validation.schemes import report
from validation.schemes.machines import EARLIER, GREEDY, SLICES, SMS, SUITE, VARIANTS, Run, part_of, recorded, runs_of

RUNS = recorded()


def test_the_record_has_every_scheme_on_every_kernel_and_gpu():
    names = [one.name for one in default_combinations()]
    names = ["none", *(name for name in names if name != "none")]
    assert [(run.gpu, run.kernel, run.policies, run.variant) for run in RUNS] == [
        (gpu, kernel, name, variant)
        for gpu in SLICES
        for schemes in (names, [GREEDY])
        for kernel in SUITES[SUITE]
        for name in schemes
        for variant in range(VARIANTS)
    ]


def test_the_page_is_that_of_the_record():
    assert report.RESULTS.read_text() == report.page(RUNS)


def test_the_figure_shows_the_speeds_and_hit_rates_of_the_record(monkeypatch):
    drawn = {}
    monkeypatch.setattr(report, "tables_figure", lambda *given, **_: drawn.update(zip("ksrp", given, strict=True)))
    report.draw(RUNS)
    kernels, speeds, rates = drawn["k"], drawn["s"], drawn["r"]
    assert kernels == [*SUITES[SUITE], "mean"]
    assert list(speeds) == list(rates)
    assert GREEDY not in speeds
    assert set(speeds["none"]) == {1.0}
    known = report.Speeds(RUNS)
    at = kernels.index("bfs.1")
    assert speeds["swl:best"][at] == known.of_kernel(report.FIGURE_GPU, "bfs.1", "swl:best")
    assert speeds["swl:best"][-1] == known.mean(report.FIGURE_GPU, "swl:best")
    (rate,) = [
        run.hit_rate
        for run in RUNS
        if (run.gpu, run.kernel, run.policies, run.variant) == (report.FIGURE_GPU, "bfs.1", "swl:best", 0)
    ]
    assert rates["swl:best"][at] == 100 * rate


@pytest.mark.parametrize("gpu", sorted({*SLICES} - {*EARLIER}))
def test_the_simulator_takes_the_recorded_cycles(gpu):
    trace = tracegen.kernel("kmeans.invert", **SUITES[SUITE]["kmeans.invert"])
    known = {run.policies: run for run in RUNS if (run.gpu, run.kernel, run.variant) == (gpu, "kmeans.invert", 0)}
    for name in ("none", "cca"):
        policies = [] if name == "none" else [name]
        assert rd.simulate(trace, part_of(gpu), policies=policies, sms=SMS).cycles == known[name].cycles


def test_the_runs_of_a_contest_come_with_their_variants():
    result = contest(tracegen.kernel("vectoradd", N=4096), ["cca"], "gtx480-khairy", sms=1, jitter=VARIANTS, n_jobs=1)
    runs = list(runs_of("gtx480-khairy", result))
    assert [(run.policies, run.variant) for run in runs] == [
        (name, variant) for name in ("none", "cca") for variant in range(VARIANTS)
    ]
    cycles = [result.simulations[0]["none"].cycles, *(run.cycles for run in result.variants[0]["none"].values())]
    assert [run.cycles for run in runs[:VARIANTS]] == cycles
    assert isinstance(result, Contest)
    assert runs[0].hit_rate == 0.0  # a stream


def test_speeds_are_geometric_means_over_kernels_and_variants():
    cycles = {
        ("a", "none"): (100, 100, 100),
        ("a", "x"): (50, 50, 50),
        ("b", "none"): (8, 8, 8),
        ("b", "x"): (4, 8, 16),
    }
    runs = [
        Run("gpu", kernel, policies, variant, count, 0.5)
        for (kernel, policies), counts in cycles.items()
        for variant, count in enumerate(counts)
    ]
    speeds = report.Speeds(runs)
    assert speeds.of_kernel("gpu", "a", "x") == pytest.approx(2)
    assert speeds.of_kernel("gpu", "b", "x") == pytest.approx(1)
    assert speeds.mean("gpu", "x") == pytest.approx(2**0.5)
    low, high = speeds.interval("gpu", "x")
    # means of the variants: 2, 2**0.5 and 1; their logarithms have the standard deviation log(2) / 2
    half = 2 ** (4.302652729749464 / 2 / 3**0.5)
    assert (low, high) == pytest.approx((2**0.5 / half, 2**0.5 * half))
    assert "| `x` | 1.41 (0.60 to 3.35) | 1, 0 | 50 % |" in report.page(runs)
