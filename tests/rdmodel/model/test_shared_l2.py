"""The L2 of the model: the compiled cache and the order in which requests reach it, against plain Python, and laws."""

from __future__ import annotations

import dataclasses
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tracegen
from rdmodel import ConfigError, Prediction, predict, reference, simulate
from rdmodel.cli.main import main
from rdmodel.gpu.config import GPU
from rdmodel.gpu.memory import L2Config
from rdmodel.model import shared_l2
from rdmodel.model._l2 import SharedCache
from rdmodel.model.options import Options
from rdmodel.policies import Linear
from rdmodel.trace import ALL_NEEDS, Op
from tests.support.builders import LINE, Instructions, make_gpu, make_trace
from tests.support.examples import examples
from tests.support.random_predictions import HARDWARE, PAPER, Requests, expected, machines, programs

OPTIONS = st.one_of(st.fixed_dictionaries(PAPER), HARDWARE)
COUNTS = ("reads", "hits", "writes", "write_hits", "write_backs", "dirty", "dram_read_sectors", "atomic_sectors")


def whole_number(most: int) -> st.SearchStrategy[int]:
    return st.integers(1, most)


@st.composite
def l2s(draw: st.DrawFn) -> L2Config:
    ways = draw(whole_number(3))
    size = LINE * ways * draw(whole_number(4))
    return L2Config(slices=draw(whole_number(3)), ways=ways, size=size, dirty_ways=draw(st.sampled_from([None, 1, 2])))


CASES = (programs(), machines(), l2s(), OPTIONS, st.integers(0, 3))
searched = examples(150)
checked = examples(30)


def run(program: list[list[Instructions]], warps: int, gpu: GPU, seed: int = 0, **options: object) -> Prediction:
    """Return a prediction, of blocks with a load that is modelled; others are not looked at."""
    trace = make_trace(program, warps)
    want = expected(trace, program, gpu, Options(**options).resolve(gpu), seed)
    assume(sum(counts.transactions for counts in want))
    return predict(trace, gpu, seed=seed, l2=True, **options)


def requests_of(program, warps, gpu, seed, **options) -> list[list[reference.L2Request]]:
    requests: Requests = {}
    expected(make_trace(program, warps), program, gpu, Options(**options).resolve(gpu), seed, requests)
    return [requests[sm] for sm in sorted(requests)]


def counted(l2: object) -> dict[str, float]:
    return {name: getattr(l2, name) for name in COUNTS}


# ---- against plain Python


@examples(100)
@given(
    logs=st.lists(
        st.lists(st.tuples(st.integers(0, 9), st.integers(-9, 30), st.sampled_from([0, 1, 3])), max_size=40),
        min_size=1,
        max_size=3,
    ),
    l2=l2s(),
)
def test_the_compiled_cache_equals_lists_of_lines(logs, l2):
    made = [[reference.L2Request(t, line, kind > 0, atomic=kind == 3) for t, line, kind in log] for log in logs]
    logs = [sorted(log, key=lambda one: one.time) for log in made]
    merged = sorted((request.time, sm, place) for sm, log in enumerate(logs) for place, request in enumerate(log))
    served = [logs[sm][place] for _, sm, place in merged]
    sets = l2.sets(LINE)
    cache = SharedCache(sets=l2.slices * sets, ways=l2.ways, dirty_ways=l2.dirty_ways or -1)
    cut = len(served) // 2
    for part in (served[:cut], served[cut:]):
        kinds = np.array([3 if r.atomic else r.write for r in part], np.uint8)
        cache.request(np.array([r.line for r in part], np.int64), kinds)
    found = {name: cache.counts(0)[name] for name in COUNTS if name != "dirty"} | {"dirty": cache.dirty()}
    assert found == counted(reference.shared_l2(logs, l2.slices, sets, l2.ways, l2.dirty_ways))


@searched
@given(*CASES, st.sampled_from([(1, 1), (2, 5), (4096, 1 << 18)]))
def test_what_leaves_the_sms_and_how_the_l2_serves_it_equal_the_reference(program, gpu, l2, options, seed, at_once):
    gpu = gpu.replace(l2=l2)
    most_logged, most_pending = at_once
    with (
        patch.object(shared_l2, "MAX_LOGGED_REQUESTS", most_logged),
        patch.object(shared_l2, "MIN_PENDING_TO_MERGE", most_pending),
        patch.object(shared_l2, "PENDING_PER_SM_TO_MERGE", 0),
    ):
        found = run(*program, gpu, seed, **options).l2
    logs = requests_of(*program, gpu, seed, **options)
    assert counted(found) == counted(reference.shared_l2(logs, l2.slices, l2.sets(LINE), l2.ways, l2.dirty_ways))


@checked
@given(*CASES)
def test_asking_for_the_l2_changes_nothing_else(program, gpu, l2, options, seed):
    gpu = gpu.replace(l2=l2)
    found = run(*program, gpu, seed, **options)
    alone = predict(make_trace(*program), gpu, seed=seed, **options)
    assert alone.l2 is None
    assert dataclasses.replace(found, l2=None, config=alone.config) == alone


# ---- laws


@checked
@given(*CASES)
def test_reads_are_the_misses_of_the_modelled_sms_and_writes_what_their_stores_touch(program, gpu, l2, options, seed):
    found = run(*program, gpu.replace(l2=l2), seed, **options)
    assert found.l2.reads == found.misses.total
    assert found.l2.hits + found.l2.misses == found.l2.reads
    if options["threads"] is None and options["model_sms"] == "all" and options["blocks"] is None:
        allocates = options["stores"] == "allocate"
        assert found.l2.writes == (0 if allocates else lines_of(program[0], {Op.STORE, Op.ATOMIC}))
        assert found.l2.atomic_sectors <= (0 if allocates else lines_of(program[0], {Op.ATOMIC}))
    assert found.l2.dram_read_sectors == found.l2.misses + found.l2.atomic_sectors
    assert found.l2.dram_bytes == (found.l2.dram_read_sectors + found.l2.write_backs) * LINE
    assert found.l2.write_backs + found.l2.dirty <= found.l2.writes


def lines_of(program: list[list[Instructions]], ops: set[Op]) -> int:
    return sum(len(lines) for block in program for warp in block for op, _, _, lines in warp if op in ops)


@checked
@given(*CASES)
def test_an_l2_with_room_for_everything_reads_each_line_once_at_most_and_writes_nothing_back(
    program, gpu, l2, options, seed
):
    del l2
    gpu = gpu.replace(l2=L2Config(slices=1, ways=64, size=64 * LINE))
    found = run(*program, gpu, seed, **options)
    logs = requests_of(*program, gpu, seed, **options)
    assert found.l2.write_backs == 0
    written = {r.line for log in logs for r in log if r.write}
    read = {r.line for log in logs for r in log if not r.write}
    assert len(read - written) <= found.l2.misses <= len(read)
    assert found.l2.dirty == len(written)


@checked
@given(*CASES)
def test_more_ways_never_miss_more(program, gpu, l2, options, seed):
    def misses(more: int) -> float:
        wider = dataclasses.replace(l2, ways=l2.ways + more, size=l2.size // l2.ways * (l2.ways + more))
        counts = run(*program, gpu.replace(l2=wider), seed, **options).l2
        return counts.misses + counts.writes - counts.write_hits

    assert misses(0) >= misses(1) >= misses(5)


# ---- scenarios


def load(*lines: int) -> tuple:
    return (int(Op.LOAD), ALL_NEEDS, 0, lines)


def store(*lines: int) -> tuple:
    return (int(Op.STORE), ALL_NEEDS, 0, lines)


SMALL = make_gpu(size=4 * LINE, ways=1, index=Linear()).replace(sms=2, l2=L2Config(slices=1, ways=2, size=2 * LINE))
"""Two SMs, an L1 with sets of one line, and an L2 with one set of two lines."""

BOTH = pytest.mark.parametrize("definition", ["hardware", "paper"])


@BOTH
def test_what_one_sm_has_fetched_another_one_finds_in_the_l2(definition):
    # SM 1 asks for the line of SM 0 at the same time; there is no latency in the L2, so it is there.
    found = predict(make_trace([[[load(3)]], [[load(3)]]], 1), SMALL, definition=definition, model_sms="all", l2=True)
    assert (found.misses.total, found.l2.reads, found.l2.hits, found.l2.misses) == (2, 2, 1, 1)


@BOTH
def test_a_store_takes_a_line_without_a_fetch_and_is_written_when_it_has_to_go(definition):
    program = [[[load(0), store(8), load(1), load(2)]]]
    options = {"definition": definition, "model_sms": "all", "threads": None, "l2": True}
    found = predict(make_trace(program, 1), SMALL.replace(sms=1), **options).l2
    # 0, 8 | 1 (0 goes), then 2 (8 goes, dirty)
    assert (found.misses, found.writes, found.write_hits, found.write_backs, found.dirty) == (3, 1, 0, 1, 0)
    assert found.dram_bytes == 4 * LINE


@BOTH
def test_a_store_that_comes_last_leaves_the_sm_too(definition):
    found = predict(
        make_trace([[[load(0), store(0), store(5)]]], 1), SMALL.replace(sms=1), definition=definition, l2=True
    )
    assert (found.l2.writes, found.l2.write_hits, found.l2.dirty) == (2, 1, 2)


@BOTH
def test_stores_that_are_loads_are_reads_of_the_l2(definition):
    found = predict(make_trace([[[load(0), store(5)]]], 1), SMALL, definition=definition, stores=True, l2=True).l2
    assert (found.reads, found.writes) == (2, 0)


def test_one_sm_has_the_whole_l2_to_itself():
    gpu = SMALL.replace(l2=L2Config(slices=1, ways=1, size=4 * LINE))
    two = make_trace([[[load(0), load(4)]], [[load(8), load(0)]]], 1)
    found = predict(two, gpu, model_sms=1, l2=True, lat_min=9, sigma=0.0).l2
    assert (found.sms_modelled, found.reads, found.misses) == (1, 2, 2)


def test_means_over_seeds_are_means_of_every_count():
    trace = tracegen.kernel("atax.1", NX=64, NY=64)
    found = predict(trace, l2=True, seeds=2)
    assert found.l2.reads == sum(run.l2.reads for run in found.runs) / 2 == found.misses.total
    assert found.to_dict()["l2"]["reads"] == found.l2.reads == found.to_row()["l2_reads"]


def test_a_run_that_is_long_enough_to_be_merged_many_times_equals_one_that_is_merged_once():
    trace = tracegen.kernel("gemm", NI=64, NJ=256, NK=64)
    with (
        patch.object(shared_l2, "MAX_LOGGED_REQUESTS", 50),
        patch.object(shared_l2, "MIN_PENDING_TO_MERGE", 1000),
        patch.object(shared_l2, "PENDING_PER_SM_TO_MERGE", 0),
    ):
        often = predict(trace, model_sms="all", l2=True).l2
    assert often == predict(trace, model_sms="all", l2=True).l2
    assert often.writes > 0


def test_what_is_not_merged_yet_does_not_grow_with_the_trace():
    longest = []

    def note(self: shared_l2.SharedL2, now: int, sms: list[shared_l2.ModelledSm]) -> None:
        pass_time(self, now, sms)
        longest.append(self._requests.count)

    pass_time = shared_l2.SharedL2.pass_time
    with (
        patch.object(shared_l2, "MAX_LOGGED_REQUESTS", 100),
        patch.object(shared_l2, "MIN_PENDING_TO_MERGE", 4000),
        patch.object(shared_l2, "PENDING_PER_SM_TO_MERGE", 0),
        patch.object(shared_l2.SharedL2, "pass_time", note),
    ):
        reads = [
            predict(tracegen.kernel("atax.1", NX=2048, NY=n), "gtx470-16k", model_sms="all", l2=True).l2.reads
            for n in (32, 256)
        ]
    assert reads[1] > 100_000
    # 8 SMs have blocks, and log 100 requests and what one step adds.
    assert max(longest) < 8000


def test_without_stores_and_latency_the_simulated_l2_counts_the_same_reads_of_a_stream():
    trace = tracegen.patterns.stream(64 * 1024)
    found = predict(trace, "gtx470-16k", model_sms="all", threads=None, l2=True)
    simulated = simulate(trace, "gtx470-16k")
    assert found.l2.reads == simulated.l2.reads
    assert found.l2.misses == simulated.l2.misses == found.l2.reads
    assert found.l2.dram_bytes == simulated.dram.bytes


@pytest.mark.parametrize("l2", [L2Config(slices=1 << 40), L2Config(size=1 << 40)])
def test_an_l2_that_no_memory_holds_is_refused(l2):
    with pytest.raises(ConfigError, match=r"l2\.slices x l2\.size: \d+ lines"):
        predict(make_trace([[[load(0)]]], 1), SMALL.replace(l2=l2), l2=True)


@pytest.mark.parametrize("wrong", [1, "yes", None])
def test_l2_must_be_true_or_false(wrong):
    with pytest.raises(ConfigError, match="l2="):
        predict(make_trace([[[load(0)]]], 1), SMALL, l2=wrong)


def test_the_command_shows_the_l2_and_says_how_much_of_the_gpu_it_saw(capsys):
    arguments = ["predict", "atax.1", "--param", "NX=512", "--param", "NY=64", "--l2"]
    assert main([*arguments, "--model-sms", "all"]) == 0
    everything = capsys.readouterr().out
    assert "reads of the L2" in everything
    assert "DRAM bytes" in everything
    assert "missing" not in everything
    assert main(arguments) == 0
    assert "missing" not in capsys.readouterr().out
    assert main([*arguments, "--model-sms", "1"]) == 0
    assert "for 1 SM alone: the requests of the other SMs are missing" in capsys.readouterr().out
    assert main([*arguments, "--csv"]) == 0
    assert "l2_dram_bytes" in capsys.readouterr().out


@pytest.mark.parametrize("l2", [False, True])
def test_sms_that_get_no_block_are_counted_as_idle_and_change_nothing(l2):
    trace = tracegen.kernel("gemm", NI=8, NJ=96, NK=32)
    assert trace.launch.blocks == 3
    many, few = (predict(trace, "gtx470-16k", sms=sms, model_sms="all", l2=l2) for sms in (14, 3))
    assert many.per_sm[:3] == few.per_sm
    assert [sm.sm for sm in many.per_sm] == list(range(14))
    assert not any(sm.blocks or sm.transactions or sm.steps or sm.misses.total for sm in many.per_sm[3:])
    assert (many.hits, many.misses, many.steps) == (few.hits, few.misses, few.steps)
    assert not l2 or counted(many.l2) == counted(few.l2)
