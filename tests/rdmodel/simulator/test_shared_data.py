"""The simulated L1 whose ways are tags alone: all sets share a pool of data (docs/gpus.md)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import example, given

import tracegen
from rdmodel import presets, simulate
from rdmodel.gpu.cache import OWN_DATA
from rdmodel.policies import APCM, PD, PDP, GCache
from tests.support.engine_checks import MOSTLY_LOADS, PLENTY, SEEDS, check
from tests.support.examples import examples
from tests.support.machine_programs import load, logged, machine, one_warp
from tests.support.random_machines import (
    Mix,
    random_blocks,
    random_gpu,
    random_policies,
    random_sectored_gpu,
    shared_data,
)


def pooled(gpu, random):
    """Return a machine whose L1 has data for no more lines than it has tags."""
    l1 = gpu.l1
    own = dataclasses.replace(l1, size=l1.sets * l1.ways * l1.line, **OWN_DATA)
    return gpu.replace(l1=dataclasses.replace(own, **shared_data(own, random)))


@pytest.mark.parametrize("draw", [random_gpu, random_sectored_gpu])
@examples(40)
@given(SEEDS)
def test_both_machines_choose_the_same_lines(draw, seed):
    random = np.random.default_rng(seed)
    check(random, pooled(draw(random), random), random_blocks(random, 4, 3), 2, 2)


@pytest.mark.parametrize("draw", [random_gpu, random_sectored_gpu])
@examples(60)
@given(SEEDS)
def test_both_machines_choose_the_same_lines_under_policies(draw, seed):
    random = np.random.default_rng(seed)
    gpu = pooled(draw(random, l1=PLENTY), random)
    check(random, gpu, random_blocks(random, 4, 3), 2, 2, None, random_policies(random))


PROTECTING = [APCM(tags=2, loads=3, most=2), PD(distance=4), PDP(period=50), GCache(period=60)]


@pytest.mark.parametrize("policy", PROTECTING, ids=lambda policy: policy.name)
@pytest.mark.parametrize("draw", [random_gpu, random_sectored_gpu])
@examples(50)
@given(SEEDS)
@example(19)
def test_loads_wait_alike_for_data_where_lines_are_protected(draw, policy, seed):
    # Few lines have data, so that a set often has an empty way and no data for it.
    random = np.random.default_rng(seed)
    gpu = pooled(draw(random, l1={"ways": 3, "sets": 4, "mshrs": int(random.integers(1, 5))}), random)
    lines = gpu.l1.pools * int(random.integers(1, 3))
    gpu = gpu.replace(l1=dataclasses.replace(gpu.l1, size=lines * gpu.l1.line))
    mix = Mix(sectors=gpu.l1.sectors, most=30, widest=3, pool=tuple(range(14)), ops=MOSTLY_LOADS, needs=(0, 1))
    check(random, gpu, random_blocks(random, 3, 3, mix), 2, 1, None, (policy,))


# ---- scenarios


def shared(lines, sets=4, ways=2, **fields):
    gpu = machine(sets=sets, ways=ways)
    return gpu.replace(l1=dataclasses.replace(gpu.l1, size=128 * lines, tag_sets=sets, **fields))


def misses(gpu, *lines):
    """Return the lines that miss when one warp loads lines one after the other."""
    outcome = one_warp(*(load(line, needs=1) for line in lines), policies=(), gpu=gpu)
    return [entry[2] for entry in logged(outcome, "fill")]


def test_without_data_a_line_of_the_set_whose_turn_it_is_leaves():
    # It is the turn of set 0, and then of set 1.
    assert misses(shared(2), 0, 1, 2, 1, 0) == [0, 1, 2, 0]
    assert misses(shared(2), 0, 1, 2, 1, 0, 1) == [0, 1, 2, 0, 1]


def test_a_line_that_was_used_again_outlives_a_newer_one():
    # Lines 0, 4, 8 and 12 are in set 0.
    assert misses(shared(4, ways=3), 0, 0, 4, 8, 12, 0) == [0, 4, 8, 12, 0]
    assert misses(shared(4, ways=3, protected=1), 0, 0, 4, 8, 12, 0) == [0, 4, 8, 12]


def test_sets_of_another_part_give_no_data():
    # Sets 0 and 1 share two lines, and so do sets 2 and 3.
    assert misses(shared(4, pools=2), 2, 3, 0, 1, 4, 2, 3, 1, 0) == [2, 3, 0, 1, 4, 0]


def test_a_full_set_replaces_its_own_oldest_line_although_there_are_data():
    assert misses(shared(8), 1, 0, 4, 8, 1, 0) == [1, 0, 4, 8, 0]


def test_as_many_data_as_tags_are_those_of_ordinary_ways():
    trace = tracegen.kernel("mvt.1", N=256)
    gpu = presets.gpu("gtx470-16k")
    whole = gpu.replace(l1=dataclasses.replace(gpu.l1, tag_sets=gpu.l1.sets))
    assert simulate(trace, whole, sms=1).cycles == simulate(trace, gpu, sms=1).cycles
