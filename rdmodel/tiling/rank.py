"""`rank_tiles`: which tile (or block shape, or coarsening factor) is kindest to the caches (docs/tiles.md)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any, Literal

from rdmodel import presets
from rdmodel.common.checks import check_choice, check_flag, check_int
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError
from rdmodel.execution.threads import check_jobs
from rdmodel.gpu.config import GPU
from rdmodel.results.prediction import Prediction
from rdmodel.tiling.halving import Candidate, Race, ranked
from rdmodel.tiling.objectives import objective_named, told
from rdmodel.tiling.values import InfeasibleTile, Ranking, Tile

Effort = Literal["quick", "exact"]

MOST_TILES = 1 << 16
"""Tiles of one ranking."""


def rank_tiles(
    make_trace: Callable[[Tile], Any],
    tiles: Iterable[Tile] | Mapping[str, Iterable[Any]],
    gpu: str | GPU = "gtx470-16k",
    *,
    objective: str | Callable[[Prediction], float] = "dram_bytes",
    effort: Effort = "quick",
    top: int = 1,
    n_jobs: int = -1,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Ranking:
    """Rank tiles of a kernel by what the caches do, the best first.

    `make_trace` is called with a tile and returns a `Trace`, or what has a method `trace` that does (an
    `AffineKernel`). `tiles` are any values, by convention mappings of names to sizes; a mapping of names to sizes to
    choose from stands for all combinations. `objective`, of which less is better: ``"miss_rate"`` and ``"misses"`` of
    the L1, ``"l2_bytes"``, ``"dram_bytes"``, ``"time"`` (cycles, `rdmodel.tiling.objectives`), or a function of a
    `Prediction` that is scaled to the whole grid. With ``effort="quick"`` tiles are estimated, and refined while they
    can still be among the best `top`, or their order among themselves is open; ``"exact"`` runs everything of every
    tile. `options` are those of `predict`; those that describe the machine have other defaults
    (`rdmodel.tiling.objectives.told`). Tiles are shared out to `n_jobs` threads (-1: one for each core), with the same
    result for any number. `progress` is called with (estimates made, estimates planned so far); what it raises ends the
    ranking.

    Tiles for which no trace can be made or that cannot be resident are reported in `Ranking.infeasible`. Raises
    `ConfigError` for what is wrong for all tiles: an unknown objective or option, no tile at all, a `make_trace` that
    returns something else, an objective that is no finite number; and what `make_trace` and `objective` raise, unless
    it is an `RdmodelError` of `make_trace`.
    """
    machine = presets.gpu(gpu)
    aim = objective_named(objective)
    check_choice("effort", effort, Effort)
    check_int("top", top, 1)
    check_int("seed", seed, 0)
    check_jobs(n_jobs)
    if not callable(make_trace):
        raise ConfigError(f"make_trace={make_trace!r:.60}: must be a function of a tile")
    if "work" in options:
        raise ConfigError("work: is not for a ranking, which chooses the work of each tile itself")
    with_l2 = options.pop("l2", False)
    check_flag("l2", with_l2)
    aim = replace(aim, l2=aim.l2 or with_l2)
    started = perf_counter()
    candidates = [Candidate(at, tile) for at, tile in enumerate(all_tiles(tiles))]
    race = Race(machine, aim, told(machine, options), seed, n_jobs, progress)
    runners = race.prepare(candidates, make_trace)
    if effort == "exact":
        race.run(runners, None)
    else:
        race.run_quickly(runners, top)
    running = [one for one in runners if one.infeasible is None]
    return Ranking(
        kernel=next((one.trace.launch.kernel for one in runners if one.trace is not None), ""),
        gpu=machine.name,
        objective=aim.name,
        effort=effort,
        seed=seed,
        top=top,
        tiles=ranked(running),
        infeasible=tuple(
            InfeasibleTile(tile=one.tile, reason=one.infeasible) for one in candidates if one.infeasible is not None
        ),
        seconds=perf_counter() - started,
    )


def all_tiles(tiles: Iterable[Tile] | Mapping[str, Iterable[Any]]) -> list[Tile]:
    """Return the tiles as a list; a mapping of names to sizes is the product of the sizes, the last name fastest.

    Raises `ConfigError` for none, for more than 2^16, and for what is no tile at all.
    """
    if isinstance(tiles, Mapping):
        sizes = [_sizes(name, of) for name, of in tiles.items()]
        if math.prod(map(len, sizes)) > MOST_TILES:
            # As many as a product can be, they may have more digits than Python prints.
            raise ConfigError(f"tiles: more than {MOST_TILES} combinations, which is as many as can be ranked")
        found: list[Tile] = [dict(zip(tiles, choice, strict=True)) for choice in itertools.product(*sizes)]
    elif isinstance(tiles, str) or not isinstance(tiles, Iterable):
        raise ConfigError(f"tiles={tiles!r:.60}: must be tiles, or sizes by name")
    else:
        found = list(itertools.islice(tiles, MOST_TILES + 1))
    if not found or (isinstance(tiles, Mapping) and not tiles):
        raise ConfigError("tiles: there are none")
    if len(found) > MOST_TILES:
        raise ConfigError(f"tiles: more than {MOST_TILES}, which is as many as can be ranked")
    return found


def _sizes(name: Any, sizes: Any) -> list[Any]:
    if isinstance(sizes, str) or not isinstance(sizes, Iterable):
        raise ConfigError(f"tiles: {name}={sizes!r:.60}: must be the sizes to choose from")
    found = list(itertools.islice(sizes, MOST_TILES + 1))
    if not found:
        raise ConfigError(f"tiles: {name} has no sizes to choose from")
    return found
