"""Rank tiles by successive halving: estimate all, drop those that fall behind, refine the estimates of the rest.

In every round, tiles that can no longer be among the best are dropped, and so is the worse half of the others. The rest
is estimated again from four times as much work: successive halving (Jamieson and Talwalkar, AISTATS 2016), with
confidence intervals (docs/tiles.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from threading import Event, get_ident
from typing import Any

from rdmodel.common.cancellation import Cancelled
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError, RdmodelError
from rdmodel.estimation.estimate import FinishedRuns, estimate_again
from rdmodel.execution.threads import run_in_order
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.gpu.register_use import register_notes, with_registers
from rdmodel.results.prediction import Prediction
from rdmodel.tiling.objectives import Objective, Value
from rdmodel.tiling.values import RankedTile, Tile, tile_text
from rdmodel.timing.launch_time import CountedLaunch, samples_caches, time
from rdmodel.trace import Trace

FIRST_ROUND_TRANSACTIONS = 150_000
"""Transactions that are run of each tile in the first round."""

WORK_GROWTH = 4
"""The ratio of the work of consecutive rounds."""

MAX_ROUNDS = 4
"""Rounds of a quick ranking: the last one does 64 times the work of the first."""

MIN_TILES_PER_ROUND = 4
"""Tiles that remain although they are in the worse half."""

BATCH_TILES = 32
"""Tiles whose traces are made before the first of them is estimated: traces of programs take megabytes each."""

NEGLIGIBLE_DIFFERENCE = 0.01
"""Tiles whose intervals all lie within this relative range are not refined further."""


@dataclass(slots=True)
class Candidate:
    """The `at`-th tile of a ranking, and its estimate so far.

    `rounds` is the number of completed rounds before the last estimate. `infeasible` is the reason why the tile cannot
    run, `pruned` the reason why it was dropped, or None. `notes` are sentences about its trace. The estimate is that of
    one of the `units` of work that a launch does. `launch` is that of an estimated time.
    """

    at: int
    tile: Tile
    units: float = 1.0
    trace: Trace | None = None
    rounds: int = 0
    exact: bool = False
    infeasible: str | None = None
    pruned: str | None = None
    value: Value | None = None
    prediction: Prediction | None = None
    finished: FinishedRuns = field(default_factory=FinishedRuns)
    launch: CountedLaunch | None = None
    notes: tuple[str, ...] = ()

    @property
    def estimate(self) -> Value:
        """The value of a tile that has been estimated."""
        assert self.value is not None
        return self.value

    @property
    def expected(self) -> bool:
        """Whether other tiles tell the value, and the tile was not estimated."""
        return self.value is not None and self.prediction is None

    def expect(self, value: Value) -> None:
        """Take a value that other tiles tell."""
        self.value = value
        self.pruned = f"not estimated: others tell {value.low:,.4g} to {value.high:,.4g}"


class SuccessiveHalving:
    """Estimates tiles, all of them at once or round by round."""

    def __init__(
        self,
        gpu: GPU,
        objective: Objective,
        options: Mapping[str, Any],
        seed: int,
        n_jobs: int,
        progress: Progress | None,
    ) -> None:
        self._gpu, self._objective, self._options, self._seed = gpu, objective, options, seed
        self._n_jobs, self._progress = n_jobs, progress
        self._caller = get_ident()
        self._done = self._planned = 0

    def run_exactly(self, candidates: Sequence[Candidate], make_trace: Callable[[Tile], Any]) -> None:
        """Run all blocks of each tile that can run; record why the others cannot."""
        self._run_batches(candidates, make_trace, None)

    def run_rounds(self, candidates: Sequence[Candidate], make_trace: Callable[[Tile], Any], top: int) -> None:
        """Estimate all tiles that can run; refine the estimates of those that can still be among the best `top`."""
        work = FIRST_ROUND_TRANSACTIONS
        self._run_batches(candidates, make_trace, work)
        left = list(candidates)
        for number in range(MAX_ROUNDS):
            left = [candidate for candidate in left if candidate.infeasible is None]
            for candidate in left:
                candidate.rounds = number
            if all(candidate.exact for candidate in left):
                return
            if number + 1 == MAX_ROUNDS:
                return
            left = _survivors(left, top)
            work *= WORK_GROWTH
            refined = [candidate for candidate in left if not candidate.exact]
            self._planned += len(refined)
            self._run(refined, work)

    def _run_batches(
        self, candidates: Sequence[Candidate], make_trace: Callable[[Tile], Any], work: int | None
    ) -> None:
        """Make the traces of tiles and estimate them, batch by batch; traces that need no other round are dropped."""
        self._planned = len(candidates)
        for first in range(0, len(candidates), BATCH_TILES):
            batch = candidates[first : first + BATCH_TILES]
            for candidate in batch:
                self._report()
                self._prepare(candidate, make_trace)
            runnable = [candidate for candidate in batch if candidate.infeasible is None]
            self._planned -= len(batch) - len(runnable)
            self._run(runnable, work)
            for candidate in runnable:
                if candidate.exact:
                    candidate.trace = candidate.launch = None

    def _prepare(self, candidate: Candidate, make_trace: Callable[[Tile], Any]) -> None:
        """Make the trace of a tile, or record why it cannot run."""
        try:
            trace = make_trace(candidate.tile)
            trace = trace if isinstance(trace, Trace) or not _is_kernel(trace) else trace.trace()
            if isinstance(trace, Trace):
                compute_occupancy(trace.launch, self._gpu)
        except RdmodelError as error:
            candidate.infeasible = str(error)
            return
        if not isinstance(trace, Trace):
            tile = tile_text(candidate.tile)
            raise ConfigError(f"make_trace({tile}) returned {trace!r:.60}: must be a Trace or an AffineKernel")
        candidate.trace, candidate.notes = trace, tuple(getattr(trace, "notes", ()))

    def _run(self, candidates: Sequence[Candidate], work: int | None) -> None:
        """Estimate tiles in parallel, each from `work` transactions (None: all of them)."""
        parallel = all(candidate.trace is not None and candidate.trace.any_order for candidate in candidates)
        stop = Event()
        tasks = [partial(self._estimate, candidate, work, stop) for candidate in candidates]
        with closing(run_in_order(tasks, self._n_jobs if parallel else 1, stop, self._report)) as results:
            for _ in results:
                self._done += 1
                self._report()

    def _estimate(self, candidate: Candidate, work: int | None, stop: Event) -> None:
        assert candidate.trace is not None

        def check_stop(_begun: int, _blocks: int) -> None:
            if stop.is_set():
                raise Cancelled
            if get_ident() == self._caller:
                self._report()

        sampled = work is not None and self._objective.times and samples_caches(candidate.trace)
        try:
            if self._objective.times:  # here, because assemblers of several tiles run at a time
                candidate.trace, use = with_registers(candidate.trace, self._gpu)
                candidate.notes = (*candidate.notes, *register_notes(use))
                if candidate.launch is None or candidate.launch.trace is not candidate.trace:
                    candidate.launch = CountedLaunch(candidate.trace, self._gpu)
            candidate.prediction = estimate_again(
                candidate.finished,
                candidate.trace,
                self._gpu,
                l2=self._objective.l2 and not sampled,
                work=work,
                seed=self._seed,
                progress=check_stop,
                **self._options,
            )
            if sampled:
                estimated = time(candidate.trace, self._gpu, caches="sample", seed=self._seed, **self._options)
        except ConfigError:
            raise
        except RdmodelError as error:
            candidate.infeasible = str(error)
        else:
            if sampled:  # more work on the caches would not change it
                candidate.value = Value(*[estimated.milliseconds] * 3).per(candidate.units)
                candidate.exact = True
                return
            whole = self._objective.value(candidate.prediction, self._gpu, candidate.launch)
            candidate.value = whole.per(candidate.units)
            candidate.exact = not any(count.standard_error for count in candidate.prediction.estimates.values())

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._planned)


def _is_kernel(made: Any) -> bool:
    return callable(getattr(made, "trace", None))


def _survivors(left: Sequence[Candidate], top: int) -> list[Candidate]:
    """Return the tiles to refine further; record for the others why they were dropped.

    All estimates are from the same work, so that their errors are alike and their order is meaningful.
    """
    ordered = sorted(left, key=_order)
    bar = sorted(candidate.estimate.high for candidate in ordered)[min(top, len(ordered)) - 1] if ordered else 0.0
    room = max(top, MIN_TILES_PER_ROUND, -(-len(ordered) // 2))
    able = [candidate for candidate in ordered if candidate.estimate.low <= bar]
    survivors, behind = able[:room], able[room:]
    for candidate in ordered:
        low = candidate.estimate.low
        if low > bar:
            candidate.pruned = f"at least {low:,.6g}, and {top} of the others at most {bar:,.6g}"
    for candidate in behind:
        candidate.pruned = f"behind {len(survivors)} others from the same work"
    separated = all(better.estimate.high < worse.estimate.low for better, worse in pairwise(survivors))
    settled = len(survivors) <= top and separated
    return [] if settled or _are_alike(survivors) else survivors


def _standing(candidate: Candidate) -> tuple[int, bool]:
    """Return the sort key that precedes the value: more rounds first, then dropped tiles after the others."""
    return -candidate.rounds, candidate.pruned is not None and not candidate.expected


def _order(candidate: Candidate) -> tuple[float, int]:
    return candidate.estimate.value, candidate.at


def _are_alike(survivors: Sequence[Candidate]) -> bool:
    """Return whether the tiles differ so little that their order does not matter."""
    lowest = min(candidate.estimate.low for candidate in survivors)
    return max(candidate.estimate.high for candidate in survivors) <= (1 + NEGLIGIBLE_DIFFERENCE) * lowest


def rank_candidates(candidates: Sequence[Candidate], top: int = 1) -> tuple[RankedTile, ...]:
    """Return tiles in order of their values, those with more rounds first.

    No tile whose value is only expected is among the first `top`.
    """
    known = sorted(candidate.estimate.value for candidate in candidates if not candidate.expected)
    bar = known[min(top, len(known)) - 1] if known else 0.0

    def key(candidate: Candidate) -> tuple[Any, ...]:
        value, at = _order(candidate)
        return *_standing(candidate), max(value, bar) if candidate.expected else value, candidate.expected, at

    ordered = sorted(candidates, key=key)
    ranked: list[RankedTile] = []
    for number, candidate in enumerate(ordered, 1):
        value, before = candidate.estimate, ordered[number - 2]
        equal = ranked and (*_standing(before), before.estimate.value) == (*_standing(candidate), value.value)
        ranked.append(
            RankedTile(
                rank=ranked[-1].rank if equal else number,
                tile=candidate.tile,
                value=value.value,
                low=value.low,
                high=value.high,
                tied=not candidate.expected
                and candidate.rounds == ordered[0].rounds
                and value.low <= ordered[0].estimate.high,
                pruned=candidate.pruned,
                prediction=candidate.prediction,
            )
        )
    return tuple(ranked)
