"""Times of a program's tiles: stored as they are finished, the same in every process, compiled once for each code."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys

import joblib
import pytest

import rdmodel as rd
from rdmodel.answers.store import Answers
from rdmodel.execution import processes
from rdmodel.tiling import programs
from rdmodel.trace import RegisterUse
from tracegen.cuda import TiledProgram, nvrtc, tiled_program
from tracegen.ptx.emulator import emulated_launch

pytestmark = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")

SOURCE = """
__global__ void scale(int n, float* x) {
    for (int i = 0; i < ROWS; i++) x[(blockIdx.x * ROWS + i) * blockDim.x + threadIdx.x] *= 2;
}
"""
SIZES = {"ROWS": [1, 2], "TX": [32, 64, 2048]}
"""Tiles of two codes; `TX` shapes the launch only, and no block has 2048 threads."""

MANY = {"ROWS": list(range(1, 13)), "TX": [32]}
"""Tiles with a code each."""


def make_program(**changes):
    arguments = {"n": 4096, "x": "float[4096]"}
    given = {"source": SOURCE, "kernel": None, "grid": "n // (ROWS * TX)", "block": "TX", "args": arguments}
    return TiledProgram(**{**given, **changes})


def rank(answers=None, program=None, sizes=SIZES, **options):
    options = {"n_jobs": 1, "objective": "time", **options}
    return rd.rank_tiles(program or make_program(), sizes, "a4000", answers=answers, **options)


@pytest.fixture
def estimated(monkeypatch):
    """The tiles that were estimated in this process."""
    tiles = []
    original = programs._estimate_tile

    def estimate(program, tile, *rest):
        tiles.append(tile)
        return original(program, tile, *rest)

    monkeypatch.setattr(programs, "_estimate_tile", estimate)
    return tiles


def plain(ranking):
    return {**ranking.to_dict(), "seconds": None}


def test_an_interrupted_ranking_goes_on_where_it_stopped(tmp_path, estimated):
    path, whole = tmp_path / "answers.sqlite", rank()
    everything = len(estimated)
    assert everything == 6
    estimated.clear()

    def stop(done, _planned):
        if done >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rank(path, progress=stop)
    assert 0 < len(estimated) < everything
    finished = [tile for tile in estimated if tile["TX"] != 2048]
    estimated.clear()
    counts = []
    again = rank(path, progress=lambda done, planned: counts.append((done, planned)))
    assert plain(again) == plain(whole)
    assert not [tile for tile in estimated if tile in finished], "finished tiles are not estimated again"
    assert (counts[0], counts[1], counts[-1]) == ((0, 6), (len(finished), 6), (6, 6))
    estimated.clear()
    assert plain(rank(path)) == plain(whole)
    assert estimated == [tile for tile in estimated if tile["TX"] == 2048], "reasons are not stored"
    assert [tile.tile["TX"] for tile in whole.tiles].count(2048) == 0
    assert len(whole.infeasible) == 2


def test_worker_processes_give_the_same_ranking(monkeypatch):
    monkeypatch.setattr(programs, "SINGLE_PROCESS_SECONDS", 0.0)
    assert plain(rank(n_jobs=2)) == plain(rank())


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_the_workers_of_another_backend_give_the_same_ranking(monkeypatch, backend):
    whole, sent = plain(rank()), []
    run_elsewhere = processes._run_elsewhere

    def counted(run, runs, n_jobs):
        sent.extend(runs)
        return run_elsewhere(run, runs, n_jobs)

    monkeypatch.setattr(processes, "_run_elsewhere", counted)
    monkeypatch.setattr(programs, "SINGLE_PROCESS_SECONDS", 0.0)
    with joblib.parallel_config(backend=backend):
        assert plain(rank(n_jobs=2)) == whole
    assert len(sent) == 2, "tiles of one code go to one worker"


SCRIPT = """
import pickle, sys, time
import rdmodel as rd
from rdmodel.tiling import programs

def tell(done, planned):
    print(done, flush=True)
    time.sleep(0.2 * (done > 2))

programs.SINGLE_PROCESS_SECONDS = float(sys.argv[2])
program, sizes = pickle.load(sys.stdin.buffer)
rd.rank_tiles(program, sizes, "a4000", objective="time", answers=sys.argv[1], n_jobs=2, progress=tell)
"""


@pytest.mark.parametrize("head_start", ["0", "1000"], ids=["workers", "one process"])
def test_a_ranking_that_is_killed_goes_on_where_it_stopped(tmp_path, estimated, head_start):
    path = tmp_path / "answers.sqlite"
    command = [sys.executable, "-c", SCRIPT, str(path), head_start]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as script:
        assert script.stdin is not None
        assert script.stdout is not None
        script.stdin.write(pickle.dumps((make_program(), MANY)))
        script.stdin.close()
        while int(script.stdout.readline()) < 3:
            pass
        script.send_signal(signal.SIGKILL)
    assert script.returncode == -signal.SIGKILL
    with Answers(path) as answers:
        stored = len(answers)
    tiles = len(MANY["ROWS"])
    assert 3 <= stored < tiles
    again = rank(path, sizes=MANY)
    assert len(estimated) == tiles - stored
    assert plain(again) == plain(rank(sizes=MANY))


def test_times_are_those_of_single_calls():
    program = make_program()
    for tile in rank().tiles:
        assert tile.value == rd.time(program(tile.tile), "a4000").milliseconds
        assert tile.prediction.kernel == "scale"


@pytest.mark.parametrize("whole", [True, False], ids=["program", "function"])
def test_a_ranking_by_time_notes_registers_of_other_code(monkeypatch, whole):
    program = make_program()
    make_trace = program if whole else lambda tile: program(tile)
    notes = {
        "ptxas": (),
        "ptxas for sm_80": ("registers per thread are those of ptxas for sm_80",),
        "estimated": ("registers per thread are estimated, since no ptxas makes code for the GPU",),
    }
    for source, expected in notes.items():
        monkeypatch.setattr(emulated_launch, "count_registers", lambda *_, it=source: RegisterUse(12, it))
        assert rank(program=make_trace).notes == expected
    assert rank(program=make_trace, objective="dram_bytes").notes == ()


def test_tiles_of_one_code_are_compiled_and_read_once(monkeypatch):
    made = []
    original = tiled_program.Session

    def session(*arguments, **options):
        made.append(options["defines"])
        return original(*arguments, **options)

    monkeypatch.setattr(tiled_program, "Session", session)
    rank()
    assert sorted(made) == [("ROWS=1",), ("ROWS=2",)]


def test_an_estimate_is_not_that_of_another_program_or_machine(tmp_path, estimated):
    path = tmp_path / "answers.sqlite"
    rank(path)
    estimated.clear()
    rank(path, make_program(source=SOURCE.replace("2;", "3;")))
    assert len(estimated) == 6
    estimated.clear()
    rank(path, make_program(args={"n": 4096, "x": "float[8192]"}))
    assert len(estimated) == 6
    estimated.clear()
    rank(path, seed=1)
    assert len(estimated) == 6


def test_a_damaged_answer_is_estimated_again(tmp_path, estimated):
    program = make_program()
    with Answers(tmp_path / "answers.sqlite") as answers:
        whole = rank(answers)
        ranking = programs.ProgramRanking(program, rd.presets.gpu("a4000"), {}, 0, answers, None)
        for tile in whole.tiles:
            question = ranking._question(programs.Candidate(0, tile.tile))
            for answer in ({}, {"milliseconds": 1.0, "trace": {}, "notes": [], "prediction": {"kernel": 3}}):
                assert not ranking._take(programs.Candidate(0, tile.tile), answer)
                answers.put(question, answer)
        assert plain(rank(answers)) == plain(whole)


def test_an_answers_file_has_room_for_all_tiles(tmp_path):
    program, tile = make_program(), {"ROWS": 1, "TX": 32}
    [(_, answer)] = programs.estimate_tiles(program, [(0, tile)], rd.presets.gpu("a4000"), {}, 0)
    path = tmp_path / "answers.sqlite"
    with programs.open_answers(path, 1 << 16) as answers:
        for number in range(64):
            answers.put({"tile": number}, answer)
        assert len(answers) == 64
    assert path.stat().st_size < 64 * programs.ANSWER_BYTES


def test_a_program_is_pickled_without_what_it_compiled():
    program = make_program()
    tile = {"ROWS": 1, "TX": 32}
    trace = program(tile)
    copy = pickle.loads(pickle.dumps(program))
    assert len(pickle.dumps(program)) < 10_000
    assert copy.question(tile) == program.question(tile)
    assert copy(tile).launch == trace.launch


@pytest.mark.parametrize("options", [{"objective": "misses"}, {"effort": "exact"}])
def test_only_times_of_programs_are_stored(tmp_path, options):
    with pytest.raises(rd.ConfigError, match="answers: only estimates of times of a program are stored"):
        rank(tmp_path / "answers.sqlite", **options)
