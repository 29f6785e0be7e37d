"""Several threads and one thread: the same results, errors and callbacks, and nothing is left behind."""

from __future__ import annotations

import dataclasses
import gc
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel.execution.threads as threads
import tracegen
from rdmodel import predict
from rdmodel.errors import ConfigError, TraceError
from rdmodel.trace import Columns, Trace
from rdmodel.trace.expansion import expand
from tests.support.builders import BUSY, busy_program, load, make_gpu, make_trace, store
from tests.support.examples import examples
from tests.support.ptx_kernels import module_of
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace

SMALL = make_gpu()
BOTH = pytest.mark.parametrize("definition", ["hardware", "paper"])


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """Let threads begin at once, however short the work, and see that none is left."""
    monkeypatch.setattr(threads, "SINGLE_THREAD_SECONDS", 0.0)
    monkeypatch.setattr(threads, "POLL_SECONDS", 0.005)
    yield
    assert [one.name for one in threading.enumerate() if one.name.startswith("rdmodel")] == []


def run_in_order(work, n_jobs, stop=None, look=lambda: None):
    return threads.run_in_order(work, n_jobs, stop or threading.Event(), look)


# ---- work in turn


@pytest.mark.parametrize("n_jobs", [1, 2, 5, -1])
def test_results_come_in_the_order_of_the_work(n_jobs):
    def work(i):
        time.sleep(0.002 * (5 - i))
        return i

    assert list(run_in_order([partial(work, i) for i in range(5)], n_jobs)) == list(range(5))
    assert list(run_in_order([], n_jobs)) == []


def test_one_job_and_one_piece_of_work_stay_in_this_thread():
    assert set(run_in_order([threading.get_ident] * 3, 1)) == {threading.get_ident()}
    assert set(run_in_order([threading.get_ident], 4)) == {threading.get_ident()}
    assert threading.get_ident() not in set(run_in_order([threading.get_ident] * 3, 3))


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_the_first_error_arrives_after_the_results_before_it_though_a_later_one_was_sooner(n_jobs):
    def fail(message, after):
        time.sleep(after)
        raise ValueError(message)

    found = []
    with pytest.raises(ValueError, match="first"):
        found.extend(run_in_order([lambda: 1, partial(fail, "first", 0.05), partial(fail, "second", 0)], n_jobs))
    results = run_in_order([lambda: 1, partial(fail, "first", 0.05), partial(fail, "second", 0)], n_jobs)
    assert next(results) == 1
    with pytest.raises(ValueError, match="first"):
        next(results)


def test_after_an_error_no_more_work_is_begun():
    begun = []

    def work(i):
        begun.append(i)
        if i == 1:
            raise ValueError("enough")
        time.sleep(0.03)

    with pytest.raises(ValueError, match="enough"):
        list(run_in_order([partial(work, i) for i in range(20)], 2))
    assert max(begun) <= 3


def test_closing_stops_the_threads_and_waits_for_them():
    stop = threading.Event()

    def work():
        assert stop.wait(20)

    results = run_in_order([lambda: 0, work, work, work], 3, stop)
    assert next(results) == 0
    results.close()
    assert stop.is_set()


def test_this_thread_looks_while_the_others_work():
    looked = []
    list(run_in_order([lambda: time.sleep(0.05)] * 2, 2, look=lambda: looked.append(threading.get_ident())))
    assert set(looked) == {threading.get_ident()}
    assert len(looked) > 2


def test_threads_have_the_context_of_the_one_that_began():
    with np.errstate(divide="raise"):
        assert list(run_in_order([lambda: np.geterr()["divide"]] * 3, 3)) == ["raise"] * 3


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, True, "all"])
def test_jobs_are_a_whole_number_or_minus_one(n_jobs):
    with pytest.raises(ConfigError, match=r"^n_jobs="):
        predict(BUSY, SMALL, n_jobs=n_jobs)


# ---- predictions


@BOTH
@pytest.mark.parametrize(
    "options",
    [
        {"model_sms": 2},
        {"model_sms": 2, "seeds": 3},
        {"model_sms": "all", "seeds": 2},
        {"ablation": True},
        {"seeds": 2, "model_sms": 2, "ablation": True, "breakdown": "paper"},
    ],
)
def test_any_number_of_threads_gives_what_one_gives(definition, options):
    one = predict(BUSY, SMALL, definition=definition, n_jobs=1, **options)
    for n_jobs in (2, 7, -1):
        found = predict(BUSY, SMALL, definition=definition, n_jobs=n_jobs, **options)
        assert found == one
        assert (found.per_sm, found.runs, found.ablation) == (one.per_sm, one.runs, one.ablation)
        assert found.breakdown == one.breakdown
        assert found.config == one.config
        assert [run.histogram for run in found.runs] == [run.histogram for run in one.runs]


LINES = st.lists(st.integers(0, 30), min_size=1, max_size=3, unique=True)
INSTRUCTIONS = st.lists(st.tuples(st.booleans(), LINES), max_size=6)


@given(
    program=st.lists(st.lists(INSTRUCTIONS, min_size=2, max_size=2), min_size=1, max_size=6),
    options=st.fixed_dictionaries(
        {
            "definition": st.sampled_from(["hardware", "paper"]),
            "model_sms": st.sampled_from([1, 2, 3, "all"]),
            "seeds": st.integers(1, 3),
            "seed": st.integers(0, 5),
            "cta": st.sampled_from(["replace", "waves"]),
            "stores": st.sampled_from(["free", "allocate"]),
            "ablation": st.booleans(),
        }
    ),
    n_jobs=st.integers(2, 5),
)
@examples(60)
def test_no_small_trace_tells_threads_from_one_thread(program, options, n_jobs):
    blocks = [
        [[store(*lines) if stores else load(*lines) for stores, lines in warp] for warp in block] for block in program
    ]
    trace = make_trace(blocks, warps=2)

    def outcome(jobs):
        try:
            return predict(trace, SMALL, sms=3, n_jobs=jobs, **options)
        except TraceError as error:
            return str(error)

    assert outcome(n_jobs) == outcome(1)


# ---- traces


class Watched(Trace):
    """A trace that notes who asks for blocks, and whether two ever ask at a time."""

    def __post_init__(self):
        super().__post_init__()
        self.asking = 0
        self.most = 0
        self.threads = set()

    def block(self, block):
        self.asking += 1
        self.most = max(self.most, self.asking)
        self.threads.add(threading.get_ident())
        time.sleep(0.001)
        self.asking -= 1
        return super().block(block)


def test_one_thread_at_a_time_asks_for_a_block():
    trace = Watched(BUSY.launch, BUSY.columns)
    assert predict(trace, SMALL, seeds=4, n_jobs=4) == predict(BUSY, SMALL, seeds=4, n_jobs=1)
    assert trace.most == 1
    assert len(trace.threads) > 1


class Remembering(Watched):
    """A trace whose blocks depend on which were asked for before."""

    any_order = False


def test_a_trace_that_remembers_is_asked_by_one_thread_in_the_order_of_one_thread():
    trace = Remembering(BUSY.launch, BUSY.columns)
    predict(trace, SMALL, seeds=3, n_jobs=3)
    assert trace.threads == {threading.get_ident()}


def test_a_missing_block_is_the_same_error():
    part = make_trace(busy_program()[:4], warps=2)
    trace = Trace(BUSY.launch, part.columns, [0, 1, 2, 3])
    for n_jobs in (1, 3):
        with pytest.raises(TraceError, match=r"^block 4 is not in the trace of random: it holds 4 of 8 blocks$"):
            predict(trace, SMALL, seeds=3, model_sms=2, n_jobs=n_jobs)


def emulated(body: str, name: str, blocks: int, **options) -> EmulatedTrace:
    """Return the trace of a PTX kernel with an array of 64-bit numbers as its argument, one thread for each of them."""
    machine = LoadedModule(module_of(PTX.format(name=name, body=body)))
    array = machine.allocate(np.arange(64 * blocks, dtype=np.uint64)[::-1].copy(), "array")
    return EmulatedTrace(machine.launch(name, blocks, 64, [array], **options))


PTX = """
.visible .entry {name}(.param .u64 array)
{{
    .reg .b64 %at, %array, %value;
    .reg .b32 %t, %b;
    ld.param.u64 %array, [array];
    mov.u32 %t, %tid.x;
    mov.u32 %b, %ctaid.x;
    mad.lo.u32 %t, %b, 64, %t;
    mul.wide.u32 %at, %t, 8;
    add.u64 %at, %array, %at;
    {body}
    ret;
}}
"""
PLAIN = "ld.global.u64 %value, [%at]; st.global.u64 [%at], %value;"
FOLLOWING = "ld.global.u64 %value, [%at]; mad.lo.u64 %value, %value, 8, %array; ld.global.u64 %value, [%value];"
STORING = f"{PLAIN} mad.lo.u64 %value, %value, 8, %array; ld.global.u64 %value, [%value];"


@pytest.mark.parametrize("trace", [tracegen.kernel("2dconv", NI=64, NJ=64), emulated(PLAIN, "plain", 24)], ids=repr)
def test_two_threads_may_ask_a_trace_for_blocks_at_a_time(trace):
    wanted = [0, 3, 1, 15, 7, 2, 3, 0] * 5

    def addresses(block):
        source = trace.block(block)
        source = source if isinstance(source, Columns) else expand(source, trace.launch.block_warps)
        return source.addresses.tolist()

    plain = [addresses(block) for block in wanted]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(addresses, wanted)) == plain


def test_a_program_that_stores_the_data_on_which_its_addresses_depend_stays_in_one_thread():
    assert emulated(PLAIN, "plain", 8).any_order
    assert emulated(FOLLOWING, "following", 8).any_order
    trace = emulated(STORING, "storing", 8)
    assert not trace.any_order
    assert predict(trace, SMALL, seeds=2, n_jobs=3) == predict(trace, SMALL, seeds=2, n_jobs=1)


# ---- progress, time, interruptions


@BOTH
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_progress_adds_up_all_runs_and_is_told_in_this_thread(definition, n_jobs):
    seen, who = [], set()

    def progress(begun, blocks):
        seen.append((begun, blocks))
        who.add(threading.get_ident())

    predict(BUSY, SMALL, definition=definition, seeds=3, model_sms=2, n_jobs=n_jobs, progress=progress)
    assert who == {threading.get_ident()}
    assert seen == sorted(seen)
    assert seen[-1] == (24, 24)
    assert {blocks for _, blocks in seen} == {24}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interruption_ends_all_threads_soon(n_jobs):
    rng = np.random.default_rng(1)
    many = [[load(*rng.choice(4000, 3, replace=False).tolist()) for _ in range(3000)] for _ in range(2)]
    trace = make_trace([many] * 8, warps=2)

    def interrupt(begun, blocks):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict(trace, SMALL, seeds=40, n_jobs=n_jobs, progress=interrupt)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timer that interrupts")
def test_ctrl_c_ends_all_threads_soon():
    rng = np.random.default_rng(1)
    many = [[load(*rng.choice(4000, 3, replace=False).tolist()) for _ in range(3000)] for _ in range(2)]
    trace = make_trace([many] * 8, warps=2)
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    # Hypothesis watches the garbage collector; an interrupt in its callback would be reported, not raised.
    gc.disable()
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            predict(trace, SMALL, seeds=300, n_jobs=3)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.enable()
        signal.signal(signal.SIGALRM, before)


def test_times_are_those_of_all_threads_together():
    trace = Watched(BUSY.launch, BUSY.columns)
    found = predict(trace, SMALL, seeds=4, n_jobs=4)
    assert found.trace_seconds >= 4 * 4 * 0.001
    assert found.trace_seconds == pytest.approx(sum(run.trace_seconds for run in found.runs))
    assert found.seconds == pytest.approx(sum(run.seconds for run in found.runs))
    assert dataclasses.replace(found, seconds=0.0, trace_seconds=0.0) == found
