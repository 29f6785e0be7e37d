"""Test invariants of the reference machine on random programs, and that it reports a standstill."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import SimulationError
from rdmodel.gpu.config import CacheConfig
from rdmodel.model.options import Options
from rdmodel.policies import Linear
from rdmodel.reference import Instruction, hardware, run
from rdmodel.reference.machine import MachineInstruction
from rdmodel.reference.machine import run as machine_run
from rdmodel.trace import ALL_NEEDS, Op
from tests.support.machine_programs import barrier, counted, load, logged, machine
from tests.support.machine_without_policies import one_warp, simulated


def test_a_machine_in_which_nothing_happens_for_too_long_is_an_error(monkeypatch):
    monkeypatch.setattr(machine_run, "MAX_IDLE_CYCLES", 50)
    with pytest.raises(SimulationError, match="since cycle 1"):
        one_warp(load(0), memory=100)


@given(lines=st.lists(st.integers(0, 11), max_size=30))
def test_one_warp_at_a_time_hits_and_misses_as_the_model_says(lines):
    cache = CacheConfig(size=1024, ways=2, index=Linear())
    options = Options(lat_min=0, sigma=0.0, hit_latency=0)
    program = [Instruction(op=Op.LOAD, needs=1, gap=0, lines=(line,)) for line in lines]
    model = run(hardware(cache, options, 1, iter([0] * 30), iter([0.0] * 99)), [[program]])
    outcome = one_warp(*[load(line, needs=1) for line in lines], gpu=machine(sets=4, ways=2), memory=0)
    names = ("transactions", "hits", "compulsory", "capacity", "associativity")
    assert counted(outcome, *names) == tuple(getattr(model, name) for name in names)


INSTRUCTIONS = st.builds(
    MachineInstruction,
    sectors=st.just(()),
    full=st.just(()),
    op=st.sampled_from([Op.LOAD, Op.LOAD, Op.STORE, Op.ATOMIC]),
    local=st.booleans(),
    needs=st.sampled_from([0, 1, 3, ALL_NEEDS]),
    gap=st.integers(0, 2),
    lanes=st.integers(1, 32),
    lines=st.lists(st.integers(0, 15), max_size=3).map(tuple),
)
BLOCKS = st.lists(st.lists(st.lists(INSTRUCTIONS | st.just(barrier()), max_size=4), max_size=2), max_size=4)


@given(
    blocks=BLOCKS,
    sched=st.sampled_from(["lrr", "gto", "two-level", "old", "gty"]),
    memory=st.sampled_from([None, None, 0, 5]),
    allocate=st.sampled_from(["miss", "fill"]),
    limit=st.sampled_from([1, 2, None]),
    queue=st.integers(1, 2),
)
def test_every_program_ends_with_all_queues_empty_and_all_transactions_counted(
    blocks, sched, memory, allocate, limit, queue
):
    # The end of a run asserts both.
    gpu = machine(
        l1={"allocate": allocate, "mshrs": limit, "mshr_merge": limit, "miss_queue": queue},
        core={"schedulers": 2, "fetch_group": 1},
        l2={"slices": 2, "size": 256, "ways": 1, "mshrs": limit, "mshr_merge": limit, "queue": queue},
        dram={"queue": queue},
    )
    outcome = simulated(blocks, gpu, slots=2, sms=2, sched=sched, memory=memory)
    assert sum(sm["blocks"] for sm in outcome.sms) == len(blocks)
    assert outcome.cycles == max((t for t, *_ in logged(outcome, "end")), default=-1) + 1
