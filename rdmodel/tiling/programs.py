"""Estimate the times of a program's tiles in worker processes, and keep finished estimates in an answers file.

Making the trace of a program, that is, compiling and reading it, takes longer than the estimate. Most of this is Python
code, so that threads would wait for each other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

from rdmodel.answers.store import DEFAULT_LIMIT_BYTES, Answers
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError, RdmodelError
from rdmodel.estimation.estimate import estimate
from rdmodel.execution.processes import SINGLE_PROCESS_SECONDS, count_workers, run_in_processes
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.gpu.register_use import register_notes, with_registers
from rdmodel.results.prediction import Prediction
from rdmodel.results.records import result_from_record, result_to_record
from rdmodel.tiling.halving import Candidate
from rdmodel.tiling.objectives import Value
from rdmodel.tiling.search import TileSearch
from rdmodel.tiling.values import Tile
from rdmodel.timing.launch_time import time
from rdmodel.trace import Trace

ESTIMATE_TRANSACTIONS = 40_000
"""Transactions from which the misses of a tile are estimated; its time has a sample of its own."""

ANSWER_BYTES = 1 << 15
"""Most bytes that an estimate takes in an answers file, which must have room for those of all tiles."""

TILES_PER_TASK = 8
"""Most tiles of the same code that one worker estimates in a row."""


@runtime_checkable
class TileProgram(Protocol):
    """A function that makes the trace of a tile from a program, and that other processes can call, too."""

    def __call__(self, tile: Tile) -> Trace:
        """Return the trace of a tile."""

    def code(self, tile: Tile) -> Hashable:
        """Return the same value for tiles that differ in their launches only."""

    def question(self, tile: Tile) -> Mapping[str, Any] | None:
        """Return what determines the trace of a tile, as JSON; None if this cannot be told."""

    def compile(self, tiles: Iterable[Tile], *, n_jobs: int = -1) -> int:
        """Compile the codes of tiles, so that no two processes compile the same one."""


def open_answers(path: str | os.PathLike[str] | None, tiles: int) -> Answers:
    """Open an answers file with room for so many tiles; None: the one in the user's cache folder."""
    return Answers(path, limit=max(DEFAULT_LIMIT_BYTES, ANSWER_BYTES * tiles))


class ProgramRanking:
    """The estimates of the tiles of a program: of those in `answers`, and of the rest."""

    def __init__(
        self,
        program: TileProgram,
        gpu: GPU,
        options: Mapping[str, Any],
        seed: int,
        answers: Answers | None,
        progress: Progress | None,
    ) -> None:
        self._program, self._gpu, self._options, self._seed = program, gpu, options, seed
        self._answers, self._progress = answers, progress
        self._plain_gpu = gpu.to_dict()

    def run(self, candidates: Sequence[Candidate], n_jobs: int, search: TileSearch | None) -> None:
        """Estimate the tiles that a search chooses, and let it predict the others; without a search, estimate all.

        The work is done in this process for the first second, then in `n_jobs` processes. An estimate is stored as
        soon as it is finished.
        """
        self._started, self._done, self._planned = perf_counter(), 0, 0
        if search is None:
            self._estimate(candidates, n_jobs)
            return
        while batch := [candidates[place] for place in search.next_batch()]:
            self._estimate(batch, n_jobs)
            search.add({one.at: None if one.infeasible is not None else one.estimate.value for one in batch})
        for place, value in search.rest().items():
            candidates[place].expect(value)

    def _estimate(self, batch: Sequence[Candidate], n_jobs: int) -> None:
        """Estimate the tiles of a batch."""
        self._planned += len(batch)
        self._report()
        left = [candidate for candidate in batch if not self._look_up(candidate)]
        self._done += len(batch) - len(left)
        tasks, jobs = self._tasks(left, n_jobs), count_workers(n_jobs)
        by_place = {candidate.at: candidate for candidate in left}

        def finish(results: Iterable[tuple[int, dict[str, Any] | str]]) -> None:
            for at, result in results:
                self._finish(by_place[at], result)
                self._done += 1
            self._report()

        self._report()
        while tasks and (jobs == 1 or len(tasks) == 1 or perf_counter() - self._started < SINGLE_PROCESS_SECONDS):
            finish(estimate_tiles(*tasks.pop(0)))
        for results in run_in_processes(estimate_tiles, tasks, n_jobs):
            finish(results)

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._planned)

    def _tasks(self, left: Sequence[Candidate], n_jobs: int) -> list[tuple[Any, ...]]:
        """Return the arguments of `estimate_tiles`: tiles of one code are neighbours, and compiled once."""
        codes: dict[Hashable, list[tuple[int, Tile]]] = {}
        for candidate in left:
            codes.setdefault(self._program.code(candidate.tile), []).append((candidate.at, candidate.tile))
        shared = [tiles[0][1] for tiles in codes.values() if len(tiles) > TILES_PER_TASK]
        if shared:
            self._program.compile(shared, n_jobs=n_jobs)
        return [
            (self._program, tiles[first : first + TILES_PER_TASK], self._gpu, self._options, self._seed)
            for tiles in codes.values()
            for first in range(0, len(tiles), TILES_PER_TASK)
        ]

    def _question(self, candidate: Candidate) -> dict[str, Any] | None:
        """Return the question to which the estimate of a tile is the answer; None if it cannot be stored."""
        if self._answers is None or not self._gpu.l1.index.is_plain:
            return None
        try:
            trace = self._program.question(candidate.tile)
        except RdmodelError:  # the estimate raises it again
            return None
        if trace is None:
            return None
        return {
            "op": "tile time", "trace": trace, "gpu": self._plain_gpu, "options": dict(self._options),
            "seed": self._seed,
        }  # fmt: skip

    def _look_up(self, candidate: Candidate) -> bool:
        """Return whether the answers file has the estimate of a tile, and take it over."""
        question = self._question(candidate)
        record = None if self._answers is None or question is None else self._answers.get(question)
        return record is not None and self._take(candidate, record)

    def _finish(self, candidate: Candidate, result: dict[str, Any] | str) -> None:
        """Take over and store the estimate of a tile, or take over the reason why it cannot run."""
        if isinstance(result, str):
            candidate.infeasible = result
            return
        question = self._question(candidate)
        if self._answers is not None and question is not None:
            self._answers.put(question, result)
        self._take(candidate, result)

    def _take(self, candidate: Candidate, record: Mapping[str, Any]) -> bool:
        """Take over an estimate; return False if the record is not one."""
        try:
            milliseconds, described, notes = record["milliseconds"], record["trace"], record["notes"]
            prediction = result_from_record(Prediction, record["prediction"], self._plain_gpu, described)
        except (KeyError, TypeError):
            return False
        if prediction is None or not isinstance(milliseconds, float) or not isinstance(notes, list):
            return False
        candidate.value, candidate.exact = Value(*[milliseconds] * 3).per(candidate.units), True
        candidate.prediction, candidate.notes = prediction, tuple(notes)
        return True


def estimate_tiles(
    program: Callable[[Tile], Trace],
    tiles: Sequence[tuple[int, Tile]],
    gpu: GPU,
    options: Mapping[str, Any],
    seed: int,
) -> list[tuple[int, dict[str, Any] | str]]:
    """Return the estimate of each numbered tile as plain values, or the reason why it cannot run."""
    return [(at, _estimate_tile(program, tile, gpu, options, seed)) for at, tile in tiles]


def _estimate_tile(
    program: Callable[[Tile], Trace], tile: Tile, gpu: GPU, options: Mapping[str, Any], seed: int
) -> dict[str, Any] | str:
    try:
        trace = program(tile)
        compute_occupancy(trace.launch, gpu)
        trace, use = with_registers(trace, gpu)
        compute_occupancy(trace.launch, gpu)
    except RdmodelError as error:
        return str(error)
    try:
        prediction = estimate(trace, gpu, work=ESTIMATE_TRANSACTIONS, seed=seed, **options)
        milliseconds = time(trace, gpu, seed=seed, **options).milliseconds
    except ConfigError:
        raise  # it concerns all tiles
    except RdmodelError as error:
        return str(error)
    return {
        "milliseconds": milliseconds,
        "trace": prediction.config["trace"],
        "notes": [*getattr(trace, "notes", ()), *register_notes(use)],
        "prediction": result_to_record(prediction, gpu.to_dict()),
    }
