"""Loads that do not look into the L1: the compiled core against `rdmodel.reference`, to the unit."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rdmodel import predict
from rdmodel.errors import ConfigError
from rdmodel.gpu.cache import ALL_LOADS
from rdmodel.gpu.config import GPU, replace
from rdmodel.model.options import Options
from rdmodel.model.shared_l2 import is_plain_l2
from rdmodel.reference.model.l2 import SectoredL2
from rdmodel.trace import ALL_NEEDS
from rdmodel.trace.cache_ops import CacheOp
from tests.support.builders import make_gpu
from tests.support.examples import examples
from tests.support.random_predictions import PAPER, expected
from tests.support.random_sectors import (
    OPTIONS,
    check_prediction,
    coalesced,
    loads_only,
    machines,
    make_trace,
    programs,
    programs_with_operators,
)


@st.composite
def partial_machines(draw: st.DrawFn) -> GPU:
    """Return a GPU whose L1 serves some loads, with any default operator."""
    gpu = draw(machines())
    caches = draw(st.sampled_from([ALL_LOADS, ("nc",), ("local",), ("local", "nc"), ("global",), ()]))
    return gpu.replace(
        l1=replace(gpu.l1, caches=caches, dlcm=draw(st.sampled_from([None, None, "ca", "cg", "cs", "cv"])))
    )


@examples(100)
@given(programs_with_operators(), partial_machines(), OPTIONS, st.integers(0, 3))
def test_the_compiled_core_equals_the_reference_where_loads_go_past_the_l1(program, gpu, options, seed):
    check_prediction(program, gpu, seed, **options)


@examples(30)
@given(programs_with_operators(), partial_machines(), st.fixed_dictionaries(PAPER), st.integers(0, 3))
def test_so_does_the_definition_paper(program, gpu, options, seed):
    check_prediction(program, gpu.replace(l1=replace(gpu.l1, sector=None, request_bytes=128)), seed, **options)


@examples(30)
@given(programs_with_operators(), partial_machines(), OPTIONS, st.integers(0, 3))
def test_the_l2_receives_their_sectors(program, gpu, given_options, seed):
    given_options = {**given_options, "model_sms": "all", "threads": None, "l2": True}
    gpu = gpu.replace(l2=replace(gpu.l2, sector=gpu.l1.sector))
    # In an L2 with whole lines, a line that was written in part can be read.
    assume(not is_plain_l2(gpu))
    trace, options = make_trace(program), Options(**given_options).resolve(gpu)
    requests: dict[int, list] = {}
    expected(trace, coalesced(program, gpu.l1, options, full=True), gpu, options, seed, requests)
    want = asdict(SectoredL2(gpu).serve([requests[sm] for sm in sorted(requests)]))
    got = predict(trace, gpu, seed=seed, **given_options)
    assert {name: getattr(got.l2, name) for name in want} == want
    assert got.l2.reads == got.misses.total + got.bypassed_sectors


@examples(30)
@given(programs(), machines(), OPTIONS, st.integers(0, 3))
def test_operators_that_do_not_bypass_change_nothing(program, gpu, options, seed):
    marked = [[[{**row, "cache_op": 1 + row["gap"] % 2 * 2} for row in warp] for warp in block] for block in program]
    plain = predict(make_trace(program), gpu, seed=seed, **options)
    assert predict(make_trace(marked), gpu, seed=seed, **options).per_sm == plain.per_sm


@examples(30)
@given(loads_only(), machines(), OPTIONS, st.integers(0, 3))
def test_without_served_loads_every_sector_goes_to_the_l2(program, gpu, options, seed):
    found = predict(make_trace(program), gpu, seed=seed, dlcm="cg", **options)
    assert found.transactions == found.sectors == found.requests == 0
    assert found.stalls == found.bypassed == found.stores.sectors == 0
    if found.bypassed_requests:
        assert found.bypassed_sectors >= found.bypassed_transactions >= found.bypassed_requests


WARP_LOAD = {"op": 0, "needs": ALL_NEEDS, "gap": 0, "size": 4, "lanes": {lane: 4 * lane for lane in range(32)}}


def test_a_load_past_the_l1_neither_looks_into_it_nor_changes_it():
    past = {**WARP_LOAD, "cache_op": CacheOp.CG}
    found = predict(make_trace([[[WARP_LOAD, past, past, WARP_LOAD]]]), "a100", sched="fifo", sigma=0, l2=True)
    assert (found.requests, found.transactions, found.hits, found.misses.total) == (2, 2, 4, 4)
    assert (found.bypassed_requests, found.bypassed_transactions, found.bypassed_sectors) == (2, 2, 8)
    assert (found.l2.reads, found.l2.hits) == (12, 8)
    assert found.miss_rate == 0.5


def test_it_waits_for_memory_and_needs_no_mshr():
    gpu = make_gpu(mshrs=1)
    loads = [{**WARP_LOAD, "needs": 0, "lanes": {0: 128 * line}, "cache_op": CacheOp.CG} for line in range(4)]
    found = predict(make_trace([[loads]]), gpu, sigma=0, lat_min=100)
    assert (found.stalls, found.bypassed_transactions, found.steps) == (0, 4, 103)
    served = [{**load, "cache_op": CacheOp.CA} for load in loads]
    assert predict(make_trace([[served]]), gpu, sigma=0, lat_min=100).stalls > 0


def test_global_loads_pass_by_the_l1_of_maxwell_and_pascal_unless_they_are_compiled_otherwise():
    found = predict(make_trace([[[WARP_LOAD]]]), "titan-x-pascal")
    assert (found.transactions, found.bypassed_transactions, found.bypassed_sectors) == (0, 4, 4)
    cached = predict(make_trace([[[WARP_LOAD]]]), "titan-x-pascal", dlcm="ca")
    assert (cached.transactions, cached.bypassed_transactions) == (4, 0)
    assert cached.config["gpu"]["l1"]["dlcm"] == "ca"


def test_the_profiler_counts_them_as_misses():
    past = {**WARP_LOAD, "cache_op": CacheOp.NO_ALLOCATE}
    metrics = predict(make_trace([[[WARP_LOAD, WARP_LOAD, past]]]), "a100", sched="fifo", sigma=0).metrics()
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 12
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"] == 4
    assert metrics["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] == 3


@pytest.mark.parametrize("option", [{"sample_sms": 2}, {"sample_blocks": 0.5}, {"seeds": 2}, {"ablation": True}])
def test_samples_seeds_and_ablation_know_them(option):
    row = {**WARP_LOAD, "lanes": {0: 0, 1: 32}}
    program = [[[row, {**row, "cache_op": CacheOp.CG}]] for _ in range(40)]
    found = predict(make_trace(program), make_gpu(sector=32).replace(sms=4), **option)
    assert found.bypassed_sectors == found.sectors
    assert found.bypassed_requests == found.requests


def test_an_unknown_default_operator_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"^unknown value for dlcm: 'wb'"):
        predict(make_trace([[[WARP_LOAD]]]), "a100", dlcm="wb")
