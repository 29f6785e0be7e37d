"""A warp alone, with a memory without latency, sees the sectored L1 that the model predicts, to the unit."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracegen
from rdmodel import predict, presets, simulate
from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.gpu.config import GPU
from rdmodel.results.prediction import Prediction
from rdmodel.results.simulation import Simulation, StoreLookups
from rdmodel.trace import Op, Trace
from tests.support.examples import examples
from tests.support.random_sectors import machines, make_trace, programs

AT_ONCE = {"lat_min": 0, "sigma": 0, "hit_latency": 0, "threads": None, "sms": 1}


def run_both(trace: Trace, gpu: GPU) -> tuple[Simulation, Prediction]:
    """Run both where nothing is in flight when the next transaction looks up its line."""
    endless = {"mshrs": None, "mshr_merge": None, "mshr_per_warp": None, "tags_per_step": 1}
    alone = gpu.replace(
        sms=1,
        max_blocks=1,
        core=dataclasses.replace(gpu.core, hit_latency=0),
        l1=dataclasses.replace(gpu.l1, **endless),
        l2=dataclasses.replace(gpu.l2, sector=gpu.l1.sector, fetch=None, partitions=1),
    )
    return simulate(trace, alone, memory=0, check=True), predict(trace, alone, **AT_ONCE)


def check(found: Simulation, model: Prediction) -> None:
    assert (found.hits, found.pending_hits, found.misses) == (model.hits, model.latency_misses, model.misses)
    assert (found.transactions, found.sectors) == (model.transactions, model.sectors)
    assert (found.tag_misses, found.sector_misses) == (model.tag_misses, model.sector_misses)
    stores = model.stores
    assert found.store_lookups == StoreLookups(stores.transactions, stores.sectors, stores.hits)


@examples(150)
@given(programs(), machines(), st.sampled_from(["update", "through", "through"]))
def test_a_random_warp_alone_sees_the_sectors_that_the_model_predicts(program, gpu, stores):
    blocks = [[[*warp, FIRST]] for block in program for warp in block]
    l1 = dataclasses.replace(gpu.l1, stores=stores)
    check(*run_both(make_trace(blocks), gpu.replace(l1=l1)))


FIRST = {"op": int(Op.LOAD), "needs": 0, "gap": 0, "size": 4, "lanes": {0: 0}}


@pytest.mark.parametrize("preset", ["v100", "p100", "rtx3070", "a100-80g"])
@pytest.mark.parametrize("kernel", ["atax.1", "gemm", "2dconv", "mvt.1"])
def test_a_warp_alone_sees_the_sectors_that_the_model_predicts_on_a_preset(kernel, preset):
    sizes = {"NI": 24, "NJ": 64, "NK": 40, "NX": 64, "NY": 64, "N": 64}
    names = {spec.name: spec.sizes for spec in tracegen.kernels()}[kernel]
    trace = tracegen.kernel(kernel, block=(32, 1, 1), **{name: sizes[name] for name in names if name in sizes})
    gpu = fit_to_launch(presets.gpu(preset), trace.launch)
    small = gpu.l1.line * gpu.l1.sets * 2
    l1 = dataclasses.replace(gpu.l1, unified=0, carveouts=(), carveout="auto", size=small, ways=2)
    check(*run_both(trace, gpu.replace(l1=l1)))
