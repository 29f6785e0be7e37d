"""Tiles against each other: estimates round by round, and who is given up.

Those that cannot be among the best any more are given up, and so is the worse half of the others; the rest is estimated
again from four times as much work, and so on: successive halving (Jamieson and Talwalkar, AISTATS 2016), with intervals
(docs/tiles.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from threading import Event, get_ident
from typing import Any

from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError, RdmodelError
from rdmodel.estimation.estimate import estimate
from rdmodel.execution.threads import Cancelled, run_in_order
from rdmodel.gpu.config import GPU
from rdmodel.gpu.occupancy import residency
from rdmodel.results.prediction import Prediction
from rdmodel.tiling.objectives import Objective, Value
from rdmodel.tiling.values import RankedTile, Tile, tile_text
from rdmodel.trace import Trace

WORK = 150_000
"""Transactions of a tile in the first round."""

MORE = 4
"""How many times the work of one round the next one does."""

ROUNDS = 4
"""Rounds of a quick ranking: the last one does 64 times the work of the first."""

FEWEST = 4
"""Tiles that are not given up for being in the worse half."""

CLOSE = 0.01
"""Tiles whose intervals together are not wider than this share are not worth telling apart."""


@dataclass(slots=True)
class Candidate:
    """A tile, what is known of it so far, and why nothing more will be."""

    at: int
    tile: Tile
    trace: Trace | None = None
    rounds: int = 0
    exact: bool = False
    infeasible: str | None = None
    pruned: str | None = None
    value: Value | None = None
    prediction: Prediction | None = None

    @property
    def known(self) -> Value:
        """The value, of a tile that has been estimated."""
        assert self.value is not None
        return self.value


class Race:
    """Estimates of tiles, round by round."""

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

    def prepare(self, candidates: Sequence[Candidate], make_trace: Callable[[Tile], Any]) -> list[Candidate]:
        """Make the traces of tiles; return those that can run, and note the reasons of the others."""
        for one in candidates:
            if self._progress is not None:
                self._progress(0, len(candidates))
            try:
                trace = make_trace(one.tile)
                trace = trace if isinstance(trace, Trace) or not _is_kernel(trace) else trace.trace()
                if isinstance(trace, Trace):
                    residency(trace.launch, self._gpu)
            except RdmodelError as error:
                one.infeasible = str(error)
                continue
            if not isinstance(trace, Trace):
                raise ConfigError(
                    f"make_trace({tile_text(one.tile)}) returned {trace!r:.60}: must be a Trace or an AffineKernel"
                )
            one.trace = trace
        return [one for one in candidates if one.trace is not None]

    def run_quickly(self, runners: Sequence[Candidate], top: int) -> None:
        """Estimate all tiles, and those that can still be among the best again, from more work each time."""
        left, work = list(runners), WORK
        for number in range(ROUNDS):
            self.run([one for one in left if not one.exact], work)
            left = [one for one in left if one.infeasible is None]
            for one in left:
                one.rounds = number
            if number + 1 < ROUNDS:
                left = _survivors(left, top)
            if all(one.exact for one in left):
                return
            work *= MORE

    def run(self, runners: Sequence[Candidate], work: int | None) -> None:
        """Estimate tiles from so much work (None: everything), side by side."""
        self._planned += len(runners)
        alone = self._n_jobs == 1 or not all(one.trace is not None and one.trace.any_order for one in runners)
        stop = Event()
        pieces = [partial(self._estimate, one, work, stop) for one in runners]
        with closing(run_in_order(pieces, 1 if alone else self._n_jobs, stop, self._look)) as results:
            for _ in results:
                self._done += 1
                self._look()

    def _estimate(self, one: Candidate, work: int | None, stop: Event) -> None:
        assert one.trace is not None

        def listen(_begun: int, _blocks: int) -> None:
            if stop.is_set():
                raise Cancelled
            if get_ident() == self._caller:
                self._look()

        try:
            one.prediction = estimate(
                one.trace,
                self._gpu,
                l2=self._objective.l2,
                work=work,
                seed=self._seed,
                progress=listen,
                **self._options,
            )
        except ConfigError:
            raise
        except RdmodelError as error:
            one.infeasible = str(error)
        else:
            one.value = self._objective.value(one.prediction, self._gpu)
            one.exact = not any(count.standard_error for count in one.prediction.estimates.values())

    def _look(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._planned)


def _is_kernel(made: Any) -> bool:
    return callable(getattr(made, "trace", None))


def _survivors(left: Sequence[Candidate], top: int) -> list[Candidate]:
    """Return the tiles that more work is worth while for; note why it is not for the others.

    All values are from the same work, so that those behind are so for the same reasons as they will be.
    """
    ordered = sorted(left, key=_order)
    bar = sorted(one.known.high for one in ordered)[min(top, len(ordered)) - 1] if ordered else 0.0
    room = max(top, FEWEST, -(-len(ordered) // 2))
    able = [one for one in ordered if one.known.low <= bar]
    going, behind = able[:room], able[room:]
    for one in ordered:
        if one.known.low > bar:
            one.pruned = f"at least {one.known.low:,.6g}, and {top} of the others at most {bar:,.6g}"
    for one in behind:
        one.pruned = f"behind {len(going)} others from the same work"
    settled = len(going) <= top and all(one.known.high < after.known.low for one, after in pairwise(going))
    return [] if settled or _close(going) else going


def _standing(one: Candidate) -> tuple[int, bool]:
    """Return what comes before the value: who was given up comes after those that were not."""
    return -one.rounds, one.pruned is not None


def _order(one: Candidate) -> tuple[float, int]:
    return one.known.value, one.at


def _close(going: Sequence[Candidate]) -> bool:
    """Tell whether tiles are so much alike that it does not matter which are the first."""
    return max(one.known.high for one in going) <= (1 + CLOSE) * min(one.known.low for one in going)


def ranked(running: Sequence[Candidate]) -> tuple[RankedTile, ...]:
    """Return tiles in order of their values, those that were estimated from more work first."""
    ordered = sorted(running, key=lambda one: (*_standing(one), *_order(one)))
    found: list[RankedTile] = []
    for number, one in enumerate(ordered, 1):
        assert one.prediction is not None
        value, before = one.known, ordered[number - 2]
        equal = found and (*_standing(before), before.known.value) == (*_standing(one), value.value)
        found.append(
            RankedTile(
                rank=found[-1].rank if equal else number,
                tile=one.tile,
                value=value.value,
                low=value.low,
                high=value.high,
                tied=one.rounds == ordered[0].rounds and value.low <= ordered[0].known.high,
                pruned=one.pruned,
                prediction=one.prediction,
            )
        )
    return tuple(found)
