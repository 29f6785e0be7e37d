"""Rank tile sizes, block shapes or coarsening factors by predicted cache behaviour (docs/tiles.md)."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from numbers import Real
from time import perf_counter
from typing import Any, Literal

from rdmodel import presets
from rdmodel.answers.store import Answers
from rdmodel.common.checks import check_choice, check_flag, check_int
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError
from rdmodel.execution.threads import check_jobs
from rdmodel.gpu.config import GPU
from rdmodel.model.machine_options import complete_options
from rdmodel.results.prediction import Prediction
from rdmodel.tiling.halving import Candidate, SuccessiveHalving, rank_candidates
from rdmodel.tiling.objectives import objective_named
from rdmodel.tiling.programs import ProgramRanking, TileProgram, open_answers
from rdmodel.tiling.search import MIN_SEARCHED_TILES, TileSearch
from rdmodel.tiling.values import InfeasibleTile, Ranking, Tile, tile_text

Effort = Literal["quick", "exact"]

MAX_RANKED_TILES = 1 << 16
"""Limit on the tiles of one ranking."""

MAX_COMBINATIONS = 1 << 20
"""Limit on the combinations of sizes among which a condition chooses tiles."""


def rank_tiles(
    make_trace: Callable[[Tile], Any],
    tiles: Iterable[Tile] | Mapping[str, Iterable[Any]],
    gpu: str | GPU | None = None,
    *,
    objective: str | Callable[[Prediction], float] = "dram_bytes",
    effort: Effort = "quick",
    top: int = 1,
    where: Callable[[Tile], bool] | None = None,
    per: Callable[[Tile], float] | None = None,
    every: bool = False,
    n_jobs: int = -1,
    seed: int = 0,
    answers: Answers | str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Ranking:
    """Rank tiles of a kernel by predicted cache behaviour, the best first.

    Tiles whose trace cannot be made, or whose blocks do not fit on an SM, are reported in `Ranking.infeasible`.

    Parameters
    ----------
    make_trace
        Called with a tile; returns a `Trace`, or an object with a method `trace` that does (an `AffineKernel`). With
        the objective ``"time"``, the tiles of a program (`tracegen.cuda.TiledProgram`) are estimated one by one in
        worker processes, which compile each distinct code once.
    tiles
        Any values, by convention mappings of names to sizes. A mapping of names to lists of sizes means all
        combinations.
    gpu
        A GPU, its name, or the path of its ``.toml`` file. None means `presets.DEFAULT_GPU`, and `presets.PAPER_GPU`
        with ``definition="paper"``.
    objective
        The number to minimise: ``"miss_rate"`` or ``"misses"`` of the L1, ``"l2_bytes"``, ``"dram_bytes"``, ``"time"``
        (milliseconds, `rdmodel.time`), ``"cycles"`` (of the simulated machine, `rdmodel.roofline`), or a function of a
        `Prediction` for the whole grid.
    effort
        ``"quick"`` estimates tiles, and refines the estimates as long as they can still be among the best `top` and
        the order of these is open. ``"exact"`` runs all blocks of every tile.
    top
        Number of places that matter to ``"quick"``.
    where
        Called with a tile; those for which it is False are left out (None: all are ranked).
    per
        Called with a tile; returns how many units of work a launch does, by which its number is divided (None: all
        tiles do the same work). With temporal tiling, for example, these are the steps of a launch.
    every
        Whether the times of all tiles of a program are estimated. Otherwise, of more than
        `rdmodel.tiling.search.MIN_SEARCHED_TILES` tiles those are that can be among the best `top`, as far as the
        others tell (docs/tiles.md); the rest get the values that these tell.
    n_jobs
        Number of threads, or of processes for the times of a program; -1 means one for each core. The result does not
        depend on it.
    seed
        Seed of the estimates.
    answers
        A cache, or the path of its file, for the times of a program. Estimates that it contains are not made again;
        others are stored as soon as they are finished, so that an interrupted ranking goes on where it stopped.
    progress
        Called with (estimates made, estimates planned so far). An exception that it raises ends the ranking.
    options
        Options of `predict`. Those that describe the machine have other defaults
        (`rdmodel.model.machine_options.complete_options`).

    Returns
    -------
    Ranking
        The tiles in order.

    Raises
    ------
    ConfigError
        For problems that concern all tiles: an unknown objective or option, no tile at all, a `make_trace` that returns
        another type, an objective that is not a finite number, units of work that are not above 0, `answers` or `every`
        for something else than times of a program. Exceptions of `make_trace`, `where`, `per` and `objective` are
        passed on, except for an `RdmodelError` of `make_trace`, which makes its tile infeasible.
    """
    gpu = presets.gpu_or_default(gpu, [options.get("definition")])
    aim = objective_named(objective)
    check_choice("effort", effort, Effort)
    check_int("top", top, 1)
    check_int("seed", seed, 0)
    check_flag("every", every)
    check_jobs(n_jobs)
    if not callable(make_trace):
        raise ConfigError(f"make_trace={make_trace!r:.60}: must be a function of a tile")
    if where is not None and not callable(where):
        raise ConfigError(f"where={where!r:.60}: must be a function of a tile")
    if per is not None and not callable(per):
        raise ConfigError(f"per={per!r:.60}: must be a function of a tile")
    if "work" in options:
        raise ConfigError("work: cannot be set; a ranking chooses the work of each tile")
    with_l2 = options.pop("l2", False)
    check_flag("l2", with_l2)
    aim = replace(aim, l2=aim.l2 or with_l2)
    started = perf_counter()
    candidates = [Candidate(at, tile, _units(per, tile)) for at, tile in enumerate(all_tiles(tiles, where))]
    aim.check_gpu(gpu)
    completed = complete_options(gpu, options)
    halving = SuccessiveHalving(gpu, aim, completed, seed, n_jobs, progress)
    if aim.times and effort == "quick" and isinstance(make_trace, TileProgram):
        with (
            nullcontext(answers)
            if answers is None or isinstance(answers, Answers)
            else open_answers(answers, len(candidates))
        ) as cache:
            listed = [candidate.tile for candidate in candidates]
            search = None if every or len(listed) <= MIN_SEARCHED_TILES else TileSearch(listed, top, seed)
            ProgramRanking(make_trace, gpu, completed, seed, cache, progress).run(candidates, n_jobs, search)
    elif every:
        raise ConfigError("every: concerns times of a program only: TiledProgram and objective='time'")
    elif answers is not None:
        raise ConfigError("answers: only estimates of times of a program are stored: TiledProgram and objective='time'")
    elif effort == "exact":
        halving.run_exactly(candidates, make_trace)
    else:
        halving.run_rounds(candidates, make_trace, top)
    finished = [candidate for candidate in candidates if candidate.infeasible is None]
    return Ranking(
        kernel=next((candidate.prediction.kernel for candidate in finished if candidate.prediction is not None), ""),
        gpu=gpu.name,
        objective=aim.name if per is None else f"{aim.name} per {getattr(per, '__name__', type(per).__name__)}",
        effort=effort,
        seed=seed,
        top=top,
        tiles=rank_candidates(finished, top),
        infeasible=tuple(
            InfeasibleTile(tile=candidate.tile, reason=candidate.infeasible)
            for candidate in candidates
            if candidate.infeasible is not None
        ),
        seconds=perf_counter() - started,
        notes=tuple(dict.fromkeys(note for candidate in candidates for note in candidate.notes)),
    )


def all_tiles(
    tiles: Iterable[Tile] | Mapping[str, Iterable[Any]], where: Callable[[Tile], bool] | None = None
) -> list[Tile]:
    """Return the tiles that meet a condition as a list.

    A mapping of names to sizes means all combinations, the last name fastest. Raises `ConfigError` if there are no
    tiles, more than 2^16, or more than 2^20 combinations, and if `tiles` is not a collection of tiles.
    """
    if isinstance(tiles, Mapping):
        sizes = [_sizes(name, of) for name, of in tiles.items()]
        most = MAX_RANKED_TILES if where is None else MAX_COMBINATIONS
        if math.prod(map(len, sizes)) > most:
            # The message omits their number: it may have more digits than Python prints.
            raise ConfigError(f"tiles: more than {most} combinations, the limit of a ranking")
        given: Iterable[Tile] = (dict(zip(tiles, choice, strict=True)) for choice in itertools.product(*sizes))
        if not tiles:
            given = ()
    elif isinstance(tiles, str) or not isinstance(tiles, Iterable):
        raise ConfigError(f"tiles={tiles!r:.60}: must be tiles, or sizes by name")
    else:
        given = tiles
    met = given if where is None else filter(where, given)
    listed = list(itertools.islice(met, MAX_RANKED_TILES + 1))
    if not listed:
        condition = "" if where is None else " that meets the condition"
        raise ConfigError(f"tiles: must hold at least one tile{condition}")
    if len(listed) > MAX_RANKED_TILES:
        raise ConfigError(f"tiles: more than {MAX_RANKED_TILES}, the limit of a ranking")
    return listed


def _units(per: Callable[[Tile], float] | None, tile: Tile) -> float:
    """Return the units of work of a tile; raise `ConfigError` unless they are a finite number above 0."""
    units = 1.0 if per is None else per(tile)
    if isinstance(units, bool) or not isinstance(units, Real) or not 0 < units < math.inf:
        raise ConfigError(f"per: returned {units!r:.60} for {tile_text(tile)}: must be a finite number above 0")
    return float(units)


def _sizes(name: Any, sizes: Any) -> list[Any]:
    if isinstance(sizes, str) or not isinstance(sizes, Iterable):
        raise ConfigError(f"tiles: {name}={sizes!r:.60}: must be a list of sizes")
    listed = list(itertools.islice(sizes, MAX_RANKED_TILES + 1))
    if not listed:
        raise ConfigError(f"tiles: {name} has no sizes")
    return listed
