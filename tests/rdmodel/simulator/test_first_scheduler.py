"""The scheduler that acts first in a cycle, in both machines and by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import simulate
from tests.support.builders import LINE, make_trace
from tests.support.engine_checks import MEMORIES, SEEDS, check
from tests.support.examples import examples
from tests.support.random_machines import MACHINES, Mix, mixed, random_blocks, random_gpu, random_policies
from tests.support.scenarios import load, machine

ROTATING = {"core": {"first_scheduler": "cycle"}}


@pytest.mark.parametrize("kind", MACHINES)
@examples(40)
@given(SEEDS, st.integers(1, 2), st.integers(1, 3), st.integers(1, 6), MEMORIES)
def test_machines_whose_schedulers_rotate_with_the_cycle_equal_the_reference(kind, seed, sms, slots, warps, memory):
    random = np.random.default_rng(seed)
    gpu = MACHINES[kind](random, **ROTATING)
    mix = mixed(gpu, kind, most=8, gaps=(0, 0, 1, 3))
    check(random, gpu, random_blocks(random, 5, warps, mix), slots, sms, memory)


@examples(25)
@given(SEEDS, MEMORIES)
def test_policies_decide_alike_on_schedulers_that_rotate_with_the_cycle(seed, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, **ROTATING)
    check(random, gpu, random_blocks(random, 6, 4, Mix(most=8)), 2, 1, memory, random_policies(random))


# ---- by hand: four warps of two schedulers, whose loads have `width` lines and wait for nothing


def warps_in_order(first, width, schedulers=2):
    """Return the warps of the loads in the order in which the L1 serves them."""
    lines = iter(range(1000))
    programs = [[load(*(next(lines) for _ in range(width))) for _ in range(3)] for _ in range(4)]
    core = {"schedulers": schedulers, "first_scheduler": first}
    gpu = machine(l1={"size": 64 * LINE, "ways": 64}, core=core)
    rows = []
    simulate(make_trace([programs], warps=4), gpu, memory=1000, observe=lambda some: rows.extend(some.tolist()))
    assert len(rows) == 12 * width
    return [row[2] for row in rows[::width]]


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_fair_schedulers_take_turns_at_the_unit(width):
    assert warps_in_order("fair", width) == [0, 1, 2, 3] * 3


@pytest.mark.parametrize("width", [2, 4])
def test_the_unit_shuts_one_scheduler_out_if_it_has_room_in_even_cycles_only(width):
    # Scheduler 0 issues in cycle 0, and has the first turn whenever the unit is free again: in even cycles.
    assert warps_in_order("cycle", width) == [0, 2] * 3 + [1, 3] * 3


@pytest.mark.parametrize("width", [1, 3])
def test_schedulers_that_rotate_take_turns_if_the_unit_has_room_after_an_odd_number_of_cycles(width):
    assert warps_in_order("cycle", width) == [0, 1, 2, 3] * 3


@pytest.mark.parametrize(("first", "width"), list(product(("fair", "cycle"), (1, 2, 3))))
def test_a_single_scheduler_is_always_the_first(first, width):
    assert warps_in_order(first, width, schedulers=1) == [0, 1, 2, 3] * 3
