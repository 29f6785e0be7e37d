"""Runs of a contest are kept in an answers file: an interrupted one goes on, and takes no run for another."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

import pytest

import rdmodel as rd
import tracegen
from rdmodel import policies
from rdmodel.contests import contest as contest_module

FERMI = rd.presets.gpu("gtx470-16k")
ATAX = tracegen.kernel("atax.1", NX=64, NY=64, block=(32, 1, 1))
WANTED = ["swl:best", "pd", "index:pric"]


@pytest.fixture
def run(tmp_path) -> Callable[..., rd.Contest]:
    """Run a contest with an answers file."""
    return lambda *traces, **given: rd.contest(
        traces or [ATAX],
        **{"policies": WANTED, "gpu": FERMI, "n_jobs": 1, "answers": str(tmp_path / "runs.sqlite"), **given},
    )


@pytest.mark.parametrize("jitter", [1, 3])
def test_a_second_contest_takes_all_runs_and_equals_the_first(run, jitter, monkeypatch):
    first = run(jitter=jitter)
    monkeypatch.setattr(contest_module, "simulate", None)
    second = run(jitter=jitter)
    assert (first.kept, second.kept) == (0, 4 * jitter)
    assert second == first
    assert second.to_rows() == first.to_rows()


def test_an_interrupted_contest_goes_on(run):
    def stop(done: int, total: int) -> None:
        assert total == 4
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(progress=stop)
    seen: list[tuple[int, int]] = []
    finished: list[int] = []
    again = run(
        progress=lambda done, total: seen.append((done, total)),
        so_far=lambda contest: finished.append(len(contest.simulations[0])),
    )
    assert again.kept == 2
    assert finished == [2, 3, 4]
    assert seen == [(3, 4), (4, 4)]
    assert again == run(answers=None)


def test_processes_keep_their_runs_as_well(run):
    assert run(n_jobs=2).kept == 0
    assert run(n_jobs=2).kept == 4


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"check": True},
        {"sched": "gto"},
        {"gpu": FERMI.replace(sms=3)},
        {"gpu": FERMI.replace(l1=dataclasses.replace(FERMI.l1, mshrs=7))},
        {"blocks": 1},
        {"memory": 200},
    ],
    ids=str,
)
def test_a_run_with_another_option_is_run(run, changed):
    run()
    assert run(**changed).kept == 0
    assert run(**changed).kept == 4


def test_another_kernel_or_policy_is_run(run):
    run()
    bicg = tracegen.kernel("bicg.1", NX=64, NY=64, block=(32, 1, 1))
    assert run(bicg).kept == 0
    assert run(bicg, ATAX).kept == 8
    assert run(policies=["pd:distance=9", "pd"]).kept == 2


def test_variants_of_a_kernel_whose_arrays_lie_otherwise_are_run(run):
    run(jitter=2)
    moved = tracegen.kernel("atax.1", NX=64, NY=64, block=(32, 1, 1))
    first, *others = moved.launch.arrays
    launch = dataclasses.replace(moved.launch, arrays=(dataclasses.replace(first, bytes=first.bytes + 256), *others))
    moved.launch = launch
    assert run(moved, jitter=2).kept == 4  # the runs without changes


def test_runs_that_depend_on_a_function_of_the_user_are_not_kept(run):
    own = [policies.Function(low_bits)]
    assert run(policies=own).kept == 0
    assert run(policies=own).kept == 1  # the baseline


def low_bits(line: int) -> int:
    return line % 4


def test_two_contests_share_a_file(run):
    found: list[rd.Contest] = []
    threads = [threading.Thread(target=lambda: found.append(run())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert run().kept == 4
