"""A core that reads chunks of its warps by itself runs as one whose requests are served one by one."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel import presets
from rdmodel.model._core import DONE, WANT_BLOCK, WANT_CHUNK
from rdmodel.model.cores import make_core
from rdmodel.model.monitor import RunMonitor
from rdmodel.model.options import Options
from rdmodel.model.sm import Sm
from tests.support.builders import load, make_trace

BLOCKS, WARPS, RESIDENT, CHUNK = 5, 3, 2, 4
MACHINES = {
    "one for common options": {},
    "one for all options": {"sched": "lrr"},
    "that of the paper": {"definition": "paper"},
}


def trace_of(seed):
    """Blocks whose warps have different numbers of loads, from none to many chunks."""
    rng = np.random.default_rng(seed)
    lines = [[rng.integers(0, 64, rng.integers(0, 40)).tolist() for _ in range(WARPS)] for _ in range(BLOCKS)]
    return make_trace([[[load(line) for line in warp] for warp in block] for block in lines], WARPS)


def make_sm(trace, options):
    gpu = presets.gpu("gtx470-16k")
    resolved = Options(**options).resolve(gpu)
    core = make_core(gpu, resolved, RESIDENT, WARPS, False)
    return Sm(trace, core, gpu, resolved, 0, 0, RunMonitor(BLOCKS, None).new_timer(), CHUNK)


def run_one_by_one(sm):
    """Run an SM to its end; return the requests for chunks of each slot and each warp, between beginnings of blocks."""
    ids, fed, found = iter(range(BLOCKS)), np.zeros(RESIDENT + RESIDENT * WARPS, np.int64), []
    while (wanted := sm.core.run()) != DONE:
        subject = sm.core.subject
        if wanted == WANT_BLOCK:
            found.append(fed.tolist())
            sm.give_block(next(ids, None))
            continue
        if wanted == WANT_CHUNK:
            fed[subject // WARPS] += 1
            fed[RESIDENT + subject] += 1
        sm.serve(wanted)
    return [*found, fed.tolist()]


def run_fed(sm, every):
    """Run an SM to its end, and serve every `every`-th request of a slot here, the others in the core."""
    ids, fed, found = iter(range(BLOCKS)), np.zeros(RESIDENT + RESIDENT * WARPS, np.int64), []
    stops = np.full(RESIDENT, every, np.int64)
    while (wanted := sm.advance(fed, stops)) != DONE:
        if wanted == WANT_BLOCK:
            found.append(fed.tolist())
            sm.give_block(next(ids, None))
            continue
        if wanted == WANT_CHUNK:
            slot = sm.core.subject // WARPS
            assert fed[slot] == stops[slot]
            stops[slot] += every
        sm.serve(wanted)
    return [*found, fed.tolist()]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", range(4))
def test_the_core_reads_the_chunks_that_it_would_request(machine, seed):
    trace = trace_of(seed)
    one, other, whole = (make_sm(trace, MACHINES[machine]) for _ in range(3))
    wanted = run_one_by_one(one)
    assert max(wanted[-1]) > 3, "some requests come after the beginnings of blocks"
    assert run_fed(other, 3) == wanted
    whole.run(iter(range(BLOCKS)))
    assert one.counts() == other.counts() == whole.counts()


def test_streams_that_are_no_streams_are_refused():
    sm = make_sm(trace_of(0), {})
    sm.core.run()
    sm.core.begin_block(0)
    with pytest.raises(TypeError):
        sm.core.prime(0, [object()] * (RESIDENT * WARPS), sm._chunk)
