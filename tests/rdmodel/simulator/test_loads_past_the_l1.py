"""Loads that do not look into the L1, by their cache operators and by `l1.dlcm`, in the simulator and in the model."""

from __future__ import annotations

from dataclasses import replace

import pytest

import rdmodel as rd
import tracegen
from rdmodel.policies import MRPB

V100 = rd.presets.gpu("v100")


def reading(cache: str | None) -> rd.Trace:
    """Return a trace whose 64 threads read 64 words three times, with a cache operator."""

    def kernel(k, A):
        for _ in range(3):
            k.load(A, k.thread_x, cache=cache)

    return tracegen.trace(kernel, grid=1, block=64, arrays={"A": 64})


@pytest.mark.parametrize(("cache", "bypassed"), [(None, 0), ("ca", 0), ("nc", 0), ("cg", 6), ("cv", 6)])
def test_the_operator_decides_as_in_the_model(cache, bypassed):
    trace = reading(cache)
    simulated, predicted = rd.simulate(trace, V100, check=True), rd.predict(trace, V100)
    assert simulated.bypassed == predicted.bypassed_transactions == bypassed
    assert simulated.l2.reads >= (24 if bypassed else 8)


@pytest.mark.parametrize(("dlcm", "bypassed"), [("ca", 0), ("cg", 6)])
def test_the_default_operator_holds_for_loads_without_one(dlcm, bypassed):
    gpu = V100.replace(l1=replace(V100.l1, dlcm=dlcm))
    assert rd.simulate(reading(None), gpu).bypassed == bypassed
    assert rd.simulate(reading("ca"), gpu).bypassed == 0


@pytest.mark.parametrize("gpu", ["gtx470-16k", "v100"])
def test_loads_past_the_l1_wait_in_the_queues_of_reordering_like_others(gpu):
    reordered = rd.simulate(reading("cg"), gpu, policies=[MRPB()], check=True)
    assert (reordered.bypassed, reordered.loads) == (6, 0)
    assert reordered.cycles > rd.simulate(reading("cg"), gpu).cycles
