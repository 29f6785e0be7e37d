"""The compiled core against `rdmodel.reference` where lines have sectors: the same counts, to the unit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import predict, presets
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import replace
from tests.support.builders import make_gpu
from tests.support.examples import examples
from tests.support.random_predictions import fed_in_portions
from tests.support.random_sectors import OPTIONS, check_prediction, loads_only, machines, make_trace, programs


@examples(400)
@given(programs(), machines(), OPTIONS, st.integers(0, 3))
def test_the_compiled_core_equals_the_reference_on_sectored_machines(program, gpu, options, seed):
    check_prediction(program, gpu, seed, **options)


# ---- laws


@examples(75)
@given(loads_only(), machines(), OPTIONS, st.integers(0, 3))
def test_a_core_with_masks_equals_one_without_where_a_sector_is_a_line(program, gpu, options, seed):
    gpu = gpu.replace(l1=replace(gpu.l1, sector=None))
    trace = make_trace(program)
    plain = predict(trace, gpu, seed=seed, **{**options, "stores": "free"})
    # Without stores, writing in place only chooses the core.
    masked = predict(trace, gpu, seed=seed, **{**options, "stores": "through"})
    assert masked.per_sm == plain.per_sm
    assert masked.histogram == plain.histogram


@examples(50)
@given(programs(), machines(), OPTIONS, st.integers(0, 3), st.integers(1, 5), st.integers(1, 3))
def test_it_does_not_matter_in_what_portions_the_core_is_fed(program, gpu, options, seed, draws, instructions):
    trace = make_trace(program)
    whole = predict(trace, gpu, seed=seed, **options).per_sm
    with fed_in_portions(draws, instructions):
        assert predict(trace, gpu, seed=seed, **options).per_sm == whole


# ---- refusals


COPY = make_trace([[[{"op": 0, "needs": 0, "gap": 0, "size": 4, "lanes": {lane: 4 * lane for lane in range(32)}}]]])


def test_paper_refuses_sectors_and_stores_in_place_by_name():
    with pytest.raises(ConfigError, match=r"^l1\.sector=32: the definition 'paper' .*=128, such as gtx470-16k$"):
        predict(COPY, "a100", definition="paper")
    with pytest.raises(ConfigError, match=r"^stores='through': only the definition 'hardware'.*'free' and 'allocate'$"):
        predict(COPY, "gtx470-16k", definition="paper", stores="through")


def test_paper_leaves_stores_out_on_a_gpu_whose_stores_write_through():
    gpu = make_gpu(stores="through")
    assert predict(COPY, gpu, definition="paper").config["options"]["stores"] == "free"


# ---- results


def test_a_prediction_says_transactions_and_sectors():
    plain = predict(COPY, "a100", sched="fifo", sigma=0).to_dict()
    assert plain["requests"] == 1
    assert (plain["transactions"], plain["sectors"], plain["sectors_per_transaction"]) == (1, 4, 4.0)
    assert (plain["misses"]["compulsory"], plain["tag_misses"], plain["sector_misses"]) == (4, 1, 0)
    assert plain["stores"] == {"requests": 0, "transactions": 0, "sectors": 0, "hits": 0}
    assert plain["miss_rate"] == 1.0
    assert plain["config"]["options"]["stores"] == "through"


def test_on_maxwell_and_pascal_a_warp_looks_up_each_sector():
    gpu = replace(presets.gpu("p100"), name="p100")
    found = predict(COPY, gpu, sched="fifo", sigma=0)
    assert (found.transactions, found.sectors, found.tag_misses, found.sector_misses) == (4, 4, 1, 3)
    assert str(found).endswith("L1 miss rate 100.00 % of 4 sectors")


@pytest.mark.parametrize("option", [{"sample_sms": 2}, {"sample_blocks": 0.5}, {"seeds": 2}, {"ablation": True}])
def test_samples_seeds_and_ablation_know_sectors(option):
    program = [[[{"op": 0, "needs": 0, "gap": 0, "size": 4, "lanes": {0: 32 * block, 1: 32}}]] for block in range(40)]
    gpu = make_gpu(sector=32).replace(sms=4)
    found = predict(make_trace(program), gpu, **option)
    assert found.miss_rate == found.misses.total / found.sectors
    assert found.sectors == found.hits + found.latency_misses + found.misses.total
    if found.estimates:
        assert found.estimates["miss_rate"].value == pytest.approx(
            found.estimates["misses"].value / found.estimates["sectors"].value
        )
