"""Counters of predictions under the names of Nsight Compute: loads and stores apart, sectors of 32 bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tracegen
from rdmodel import GPU, Prediction, predict, presets, simulate
from rdmodel.errors import ConfigError
from rdmodel.results.metrics import (
    DRAM_METRIC,
    L1_METRICS,
    L1_RATE_METRIC,
    L2_METRIC,
    L2_METRICS,
    L2_RATE_METRIC,
    LOAD_RATE_METRIC,
    REQUEST_METRIC,
    SECTOR_METRIC,
)
from tests.support.builders import BUSY, SMALL


def whole_grid(kernel: str, gpu: str | GPU = "v100", **options: object) -> Prediction:
    sizes = options.pop("sizes", {})
    return predict(tracegen.kernel(kernel, **sizes), gpu, model_sms="all", threads=None, histogram=False, **options)


def test_a_vector_add_misses_every_sector_once_and_its_stores_miss_as_well():
    metrics = whole_grid("vectoradd", sizes={"N": 4096}).metrics()
    assert metrics == {
        f"{REQUEST_METRIC}ld.sum": 2 * 4096 / 32,
        f"{SECTOR_METRIC}ld.sum": 2 * 4096 * 4 / 32,
        f"{SECTOR_METRIC}ld_lookup_hit.sum": 0,
        f"{SECTOR_METRIC}ld_lookup_miss.sum": 2 * 4096 * 4 / 32,
        LOAD_RATE_METRIC: 0,
        f"{REQUEST_METRIC}st.sum": 4096 / 32,
        f"{SECTOR_METRIC}st.sum": 4096 * 4 / 32,
        f"{SECTOR_METRIC}st_lookup_hit.sum": 0,
        f"{SECTOR_METRIC}st_lookup_miss.sum": 4096 * 4 / 32,
        L1_RATE_METRIC: 0,
    }


def test_sectors_in_flight_are_hits_and_the_two_rates_differ_by_the_stores():
    found = whole_grid("gemm", sizes={"NI": 64, "NJ": 64, "NK": 64})
    metrics = found.metrics()
    load_hits = found.hits + found.latency_misses
    assert found.latency_misses > 0
    assert metrics[f"{SECTOR_METRIC}ld_lookup_hit.sum"] == load_hits
    assert metrics[f"{SECTOR_METRIC}ld_lookup_miss.sum"] == found.misses.total
    assert metrics[LOAD_RATE_METRIC] == pytest.approx(100 * (1 - found.miss_rate))
    every = found.sectors + found.stores.sectors
    assert metrics[L1_RATE_METRIC] == pytest.approx(100 * (load_hits + found.stores.hits) / every)


def test_a_request_is_an_instruction_whatever_its_lines_and_its_groups_of_lanes():
    for gpu, groups in (("v100", 1), ("p100", 4)):
        metrics = whole_grid("atax.1", gpu, sizes={"NX": 64, "NY": 64}).metrics()
        requests, sectors = (metrics[f"{stem}ld.sum"] for stem in (REQUEST_METRIC, SECTOR_METRIC))
        assert requests == 2 * 64 * 2  # per warp and column: a and x
        assert sectors == 64 * (64 + 2 * groups)  # all lanes read one element of x, which every group looks up


def test_the_l2_has_its_reads_by_outcome_and_writes_that_hit():
    metrics = whole_grid("vectoradd", sizes={"N": 4096}, l2=True).metrics()
    sectors = 4096 * 4 // 32
    assert {name: value for name, value in metrics.items() if name in L2_METRICS} == {
        f"{L2_METRIC}read.sum": 2 * sectors,
        f"{L2_METRIC}read_lookup_hit.sum": 0,
        f"{L2_METRIC}read_lookup_miss.sum": 2 * sectors,
        f"{L2_METRIC}write.sum": sectors,
        f"{L2_METRIC}write_lookup_hit.sum": sectors,
        f"{L2_METRIC}write_lookup_miss.sum": 0,
        L2_RATE_METRIC: pytest.approx(100 / 3),
        f"{DRAM_METRIC}read.sum": 2 * sectors,
        f"{DRAM_METRIC}write.sum": 0,
    }
    assert tuple(metrics) == L1_METRICS + L2_METRICS


def test_a_sector_that_a_fetch_adds_is_a_lookup_that_misses_and_no_read():
    def every_second_sector(k, a):
        k.load(a, k.x * 16)

    trace = tracegen.trace(every_second_sector, grid=4, block=32, arrays={"a": 16 * 128})
    for gpu, fetched in (("v100", 2), ("rtx3070", 1)):
        found = predict(trace, gpu, model_sms="all", threads=None, l2=True)
        assert (found.l2.reads, found.l2.misses) == (128, 128)
        metrics = found.metrics()
        assert metrics[f"{L2_METRIC}read.sum"] == 128
        assert metrics[f"{L2_METRIC}read_lookup_miss.sum"] == metrics[f"{DRAM_METRIC}read.sum"] == 128 * fetched


def test_without_modelled_stores_there_are_only_the_metrics_of_loads():
    metrics = whole_grid("vectoradd", sizes={"N": 4096}, stores="free").metrics()
    assert L1_RATE_METRIC not in metrics
    assert not [name for name in metrics if "_op_st" in name]


def test_the_mean_over_seeds_is_a_metric_too():
    sizes = {"NI": 32, "NJ": 32, "NK": 32}
    found = whole_grid("gemm", sizes=sizes, seeds=2)
    name = f"{SECTOR_METRIC}ld_lookup_hit.sum"
    assert found.metrics()[name] == sum(run.metrics()[name] for run in found.runs) / 2


def test_caches_of_whole_lines_have_no_such_metrics():
    with pytest.raises(ConfigError, match=r"l1\.sector=128: Nsight Compute counts sectors of 32 bytes"):
        predict(BUSY, SMALL).metrics()


def test_stores_that_act_as_loads_cannot_be_told_apart():
    gpu = presets.gpu("v100")
    with pytest.raises(ConfigError, match=r"stores='allocate': counts stores as loads"):
        predict(BUSY, gpu, stores="allocate").metrics()


def test_a_simulation_of_a_stream_has_the_metrics_of_its_prediction_except_requests():
    trace = tracegen.kernel("vectoradd", N=4096)
    predicted = whole_grid("vectoradd", sizes={"N": 4096}, l2=True).metrics()
    simulated = simulate(trace, "v100").metrics()
    assert {name for name in predicted if name not in simulated} == {f"{REQUEST_METRIC}{op}.sum" for op in ("ld", "st")}
    dram_writes = f"{DRAM_METRIC}write.sum"  # what the run leaves in the L2 depends on time
    for name, value in simulated.items():
        if name != dram_writes:
            assert value == pytest.approx(predicted[name]), name


@pytest.mark.parametrize("gpu", ["gv100", "a100", "gtx470-16k"])
def test_atomics_fetch_what_they_change_once_and_are_no_lookups_of_loads(gpu):
    def count(k, A):
        k.atomic(A, k.x % 2048)

    trace = tracegen.trace(count, grid=16, block=256, arrays={"A": 2048})
    found = predict(trace, gpu, model_sms="all", threads=None, l2=True).l2
    simulated = simulate(trace, gpu)
    assert found is not None and simulated.l2 is not None and simulated.dram is not None
    assert found.atomic_sectors == found.dram_read_sectors == 2048 * 4 // found.sector
    assert simulated.l2.atomic_sectors == found.atomic_sectors
    assert (found.reads, simulated.l2.reads, found.writes) == (0, 0, simulated.l2.writes)
    if found.sector == 32:
        metrics = simulated.metrics()
        assert metrics == pytest.approx(
            {**found.metrics(), **{name: metrics[name] for name in metrics if "l1tex" in name}}
        )
        assert metrics[f"{DRAM_METRIC}read.sum"] == 256
        assert metrics[f"{L2_METRIC}read_lookup_miss.sum"] == 0


def test_metrics_of_a_simulation_are_its_counters():
    found = simulate(tracegen.kernel("gemm", NI=64, NJ=64, NK=64), "gv100")
    metrics = found.metrics()
    assert found.l2 is not None and found.dram is not None
    assert metrics[f"{SECTOR_METRIC}ld_lookup_hit.sum"] == found.hits + found.pending_hits
    assert metrics[f"{SECTOR_METRIC}ld_lookup_miss.sum"] == found.misses.total
    assert metrics[f"{SECTOR_METRIC}st.sum"] == found.store_lookups.sectors
    assert metrics[f"{L2_METRIC}read.sum"] == found.l2.reads == found.misses.total
    assert 32 * (metrics[f"{DRAM_METRIC}read.sum"] + metrics[f"{DRAM_METRIC}write.sum"]) == found.dram.bytes


def test_a_simulation_lacks_the_metrics_that_it_does_not_count():
    trace = tracegen.kernel("vectoradd", N=4096)
    ideal = simulate(trace, "v100", memory=200).metrics()
    assert not [name for name in ideal if name.startswith((L2_METRIC, DRAM_METRIC))]
    stores = [name for name in simulate(trace, "v100", stores=False).metrics() if "_op_st" in name]
    assert stores == []
    past = simulate(trace, presets.gpu("v100").replace(l1=replace(presets.gpu("v100").l1, dlcm="cg"))).metrics()
    assert f"{SECTOR_METRIC}ld.sum" not in past and f"{L2_METRIC}read.sum" in past


def test_a_simulation_of_lines_without_sectors_has_no_metrics():
    with pytest.raises(ConfigError, match="Nsight Compute counts sectors of 32 bytes"):
        simulate(tracegen.kernel("vectoradd", N=4096), "gtx470-16k").metrics()
