"""Time limits and memory shares of requests reach the generation of inputs, so that no request keeps a worker."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from rdmodel.common import memory
from rdmodel.common.cancellation import Cancelled, cancellable
from rdmodel.service import scheduler
from rdmodel.service.operations import compute
from rdmodel.service.requests import read_request
from tests.support.service_client import Client
from tracegen.kernel_library import inputs, labelling, traversal
from tracegen.kernel_library.registry import declared_spec
from tracegen.kernel_library.suites import NAIVE

LARGE = {
    "bfs.1": {"N": 2_000_000},
    "bfs.2": {"N": 2_000_000},
    "btree": {"N": 15_000_000},
    "cc.1": {"N": 2_000_000},
    "color.1": {"N": 2_000_000},
    "iix": {"N": 2_000_000},
    "spmv": {"N": 1_000_000},
    "sssp": {"N": 2_000_000, "ROUND": 1000},
    "wc": {"N": 1_500_000},
}
"""Sizes that the service accepts, and whose inputs take seconds."""

SMALL = {"id": 2, "op": "predict", "kernel": "vectoradd", "params": {"N": 64}, "timeout": 60}

HUGE = {
    "bfs.1": {"N": 1 << 40},
    "btree": {"N": 1 << 28},
    "btree ": {"M": 1 << 30},
    "cc.2": {"N": 1 << 24, "DEGREE": 1 << 24},
    "color.2": {"N": 1 << 26},
    "iix.count": {"WORDS": 1 << 30},
    "spmv.warp": {"DEGREE": 1 << 20},
    "ss": {"N": 16_383},
    "sssp": {"N": 1 << 30},
    "wc.count": {"N": 1 << 28},
}


@pytest.fixture(scope="module")
def service():
    """Return a service with one worker, which has started."""
    with Client("--no-cache", "--jobs", "1") as client:
        assert "result" in client.ask(SMALL)
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("kernel", LARGE)
def test_a_request_whose_time_is_over_frees_its_worker_while_it_makes_inputs(service, kernel):
    late = {"id": 1, "op": "predict", "kernel": kernel, "params": LARGE[kernel], "timeout": 0.1}
    assert service.ask(late)["error"]["code"] == "timeout"
    started = time.monotonic()
    assert "result" in service.ask(SMALL)
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("kernel", HUGE)
def test_inputs_beyond_the_share_of_a_request_are_refused_before_they_are_made(kernel):
    request = {"op": "predict", "kernel": kernel.strip(), "params": HUGE[kernel]}
    with pytest.raises(memory.TooLargeError, match=r"=\d+: .* use smaller sizes"), memory.memory_share(1 << 31):
        compute(read_request(request), lambda *_: None, 1)


def test_the_service_answers_that_a_request_is_too_large():
    with Client("--no-cache", "--jobs", "2", "--memory", "400M") as client:
        error = client.ask({"op": "predict", "kernel": "spmv", "params": {"N": 150_000}})["error"]
        assert error["code"] == "too_large"
        assert "spmv: matrix: N=150000, DEGREE=16: needs about" in error["message"]
        assert "result" in client.ask({"op": "predict", "kernel": "spmv", "params": {"N": 1024}})


def test_a_request_has_a_share_of_the_memory_of_the_service(monkeypatch):
    def share(jobs: int) -> int:
        made = scheduler.RequestScheduler(compute, None, jobs=jobs)
        made.close()
        return made._share

    monkeypatch.setattr(scheduler, "room_bytes", lambda: 3 << 30)
    assert [share(jobs) for jobs in (1, 2, 3)] == [2 << 30, 3 << 29, 1 << 30]
    monkeypatch.setattr(scheduler, "room_bytes", lambda: None)
    assert share(4) == 2 << 30


class _Enough(Cancelled):
    pass


@pytest.mark.parametrize("checks", [0, 1, 5])
@pytest.mark.parametrize("kernel", sorted({name for name in NAIVE if declared_spec(name).inputs or name == "btree"}))
def test_the_making_of_inputs_is_checked_again_and_again(kernel, checks):
    """A check that ends the work at its n-th call ends every kernel with inputs: n is reached."""
    called = []

    def check() -> None:
        called.append(1)
        if len(called) > checks:
            raise _Enough

    for made in (inputs.band_matrix, inputs.power_law_graph, inputs.scattered_graph, inputs.prose, inputs.pages):
        made.cache_clear()
    with cancellable(check), pytest.raises(_Enough):
        declared_spec(kernel).trace(block=None, blocks=None, base=None, SEED=77).block(0)


def test_rounds_of_a_search_are_checked_one_by_one():
    graph, called = inputs.power_law_graph(2000, 4, 0), []
    with cancellable(lambda: called.append(1)):
        for work in (traversal.search_levels, traversal.shortest_distances):
            work(graph, 0)
            assert len(called) >= 3
            called.clear()
        labelling.parents(graph)
        labelling.colours(graph, 5)
    assert len(called) >= 5


def test_a_check_ends_with_its_work_and_does_not_reach_other_threads():
    code = """
from threading import Thread
from rdmodel.common.cancellation import cancellable, checkpoint
called = []
with cancellable(lambda: called.append(1)):
    checkpoint()
    thread = Thread(target=checkpoint)
    thread.start()
    thread.join()
checkpoint()
print(called)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[1]\n", "")
