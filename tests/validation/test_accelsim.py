"""The committed comparison with Accel-Sim: complete, of the same transactions, and reproduced where that is fast."""

from __future__ import annotations

from itertools import product

import pytest

from validation.accelsim import accel_sim, study
from validation.microbenchmarks.clock import Clock

COUNTED = study.read(study.COUNTED)
SIMULATED = study.read(study.CSV)
PLACE = {(each.machine, each.kernel, each.kilobytes, each.sched): each for each in SIMULATED}
FAST = [run for run in study.RUNS if run[1] in ("gemm", "corr.reduce", "fdtd2d.1")]

CHAINS = {
    ("accelsim-fermi", "hits"): (858, 1178),
    ("accelsim-fermi", "misses"): (2728, 5153),
    ("accelsim-qv100", "hits"): (5501, 5693),
    ("accelsim-qv100", "misses"): (7650, 10297),
}
"""Cycles of Accel-Sim for one thread that loads 8 and 16 times, with each load waiting for the one before it."""

OUTPUT = """\
\tTotal_core_cache_stats_breakdown[GLOBAL_ACC_R][HIT] = 1
\tTotal_core_cache_stats_breakdown[GLOBAL_ACC_R][MISS] = 2
gpu_tot_sim_cycle = 3
\tTotal_core_cache_stats_breakdown[GLOBAL_ACC_R][HIT] = 10
\tTotal_core_cache_stats_breakdown[GLOBAL_ACC_R][HIT_RESERVED] = 20
\tTotal_core_cache_stats_breakdown[GLOBAL_ACC_R][MISS] = 30
\tTotal_core_cache_stats_breakdown[GLOBAL_ACC_W][MISS] = 77
gpu_tot_sim_cycle = 99
"""


def test_both_records_have_every_run_once_and_in_order():
    runs = list(product(study.KERNELS, study.CACHES, study.SCHEDULERS))
    assert [(each.kernel, each.kilobytes, each.sched) for each in COUNTED] == runs
    assert tuple(PLACE) == tuple(study.RUNS)


def test_both_simulators_look_up_the_same_number_of_transactions():
    for machine, counted in product(study.MACHINES, COUNTED):
        assert PLACE[machine, counted.kernel, counted.kilobytes, counted.sched].lookups == counted.lookups, counted


def test_the_page_is_that_of_the_record():
    assert study.RESULTS.read_text() == study.page(COUNTED, SIMULATED)


@pytest.mark.parametrize("run", FAST, ids=lambda run: " ".join(map(str, run)))
def test_the_simulator_reproduces_the_record(run):
    assert study.simulate(run) == PLACE[run]


@pytest.mark.parametrize(("gpu", "kind"), CHAINS)
def test_each_load_of_a_chain_takes_the_cycles_that_it_takes_in_accel_sim(gpu, kind):
    clock, stride = Clock(gpu), 8192 if kind == "misses" else 0
    few, many = (clock.chain([8192 + stride * i for i in range(n)]) for n in (8, 16))
    eight, sixteen = CHAINS[gpu, kind]
    assert abs((many - few) - (sixteen - eight)) <= 1


def test_the_last_counts_of_loads_that_accel_sim_prints_are_read():
    assert accel_sim.parse(OUTPUT, "gemm", 16, "lrr") == study.Counts("Accel-Sim", "gemm", 16, "lrr", 10, 20, 30, 99)


def test_output_without_counts_is_refused():
    with pytest.raises(ValueError, match="gemm: Accel-Sim printed no cycles"):
        accel_sim.parse("aborted", "gemm", 16, "lrr")
