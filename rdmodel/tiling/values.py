"""What a ranking of tiles says, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rdmodel.errors import ConfigError
from rdmodel.results.describe import frame
from rdmodel.results.prediction import Prediction

if TYPE_CHECKING:
    import pandas as pd

Tile = Any
"""What stands for a tile: by convention a mapping of names to sizes, such as ``{"TI": 8, "TJ": 32}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedTile:
    """A tile and what it comes to; `value` is the objective's, lower is better.

    The exact value is meant to lie from `low` to `high` (both are `value` where everything was run). `rank` counts from
    1, equal values share one. `tied`: cannot be told from the best tile, their intervals overlap. `pruned` says why
    no more time was spent on the tile, None if its value is as good as was asked for. `prediction` is scaled to
    the whole grid (`rdmodel.estimate`).
    """

    rank: int
    tile: Tile
    value: float
    low: float
    high: float
    tied: bool
    pruned: str | None
    prediction: Prediction = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the tile and its numbers, ready for JSON if the tile is."""
        one = self.prediction
        plain: dict[str, Any] = {
            "rank": self.rank,
            "tile": self.tile,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "tied": self.tied,
            "pruned": self.pruned,
            "miss_rate": one.miss_rate,
            "transactions": one.transactions,
            "misses": one.misses.total,
        }
        if one.l2 is not None:
            plain |= {"l2_bytes": one.l2.bytes, "dram_bytes": one.l2.dram_bytes}
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class InfeasibleTile:
    """A tile that cannot run on the GPU, or cannot be made, and the `reason`."""

    tile: Tile
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return both fields."""
        return {"tile": self.tile, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Tiles of a kernel from best to worst, by an `objective` of which less is better.

    The first `top` places were to be told from the rest; tiles that were `pruned` come after those that were not, the
    earlier they were given up, the later, and values are in order among those given up together. `infeasible` are
    those that cannot run. `seconds` is what the ranking took.
    """

    kernel: str
    gpu: str
    objective: str
    effort: str
    seed: int
    top: int
    tiles: tuple[RankedTile, ...]
    infeasible: tuple[InfeasibleTile, ...]
    seconds: float = field(compare=False)

    @property
    def best(self) -> RankedTile:
        """The first tile; raises `ConfigError` if no tile can run."""
        if not self.tiles:
            why = f": {self.infeasible[0].reason}" if self.infeasible else ""
            raise ConfigError(f"tiles: none of {len(self.infeasible)} can run{why}")
        return self.tiles[0]

    @property
    def ties(self) -> tuple[RankedTile, ...]:
        """The tiles that cannot be told from the best, itself among them."""
        return tuple(one for one in self.tiles if one.tied)

    @property
    def pruned(self) -> tuple[RankedTile, ...]:
        """The tiles that were given up early."""
        return tuple(one for one in self.tiles if one.pruned is not None)

    def __str__(self) -> str:
        """Return the best tile in one line."""
        head = f"{self.kernel} on {self.gpu}: "
        if not self.tiles:
            return f"{head}none of {len(self.infeasible)} tiles can run"
        best, ties = self.best, len(self.ties) - 1
        also = f", {ties} more as good" if ties else ""
        return f"{head}{tile_text(best.tile)} of {len(self.tiles)} tiles, {self.objective} {best.value:,.6g}{also}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON if the tiles are."""
        return {
            "kernel": self.kernel,
            "gpu": self.gpu,
            "objective": self.objective,
            "effort": self.effort,
            "seed": self.seed,
            "top": self.top,
            "tiles": [one.to_dict() for one in self.tiles],
            "infeasible": [one.to_dict() for one in self.infeasible],
            "seconds": self.seconds,
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat row for every tile: its sizes, rank and numbers; infeasible ones have a reason alone."""
        rows = []
        plains = [*(one.to_dict() for one in self.tiles), *(one.to_dict() for one in self.infeasible)]
        for plain in plains:
            tile = plain.pop("tile")
            sizes = dict(tile) if isinstance(tile, Mapping) else {"tile": tile}
            rows.append({**sizes, **plain})
        return rows

    def to_frame(self) -> pd.DataFrame:
        """Return `to_rows` as a data frame; needs pandas (extra ``frame``)."""
        return frame(self.to_rows())


def tile_text(tile: Tile) -> str:
    """Return a tile as people write it: ``TI=8 TJ=32``."""
    if not isinstance(tile, Mapping):
        return str(tile)
    return " ".join(f"{name}={size_text(size)}" for name, size in tile.items())


def size_text(size: Any) -> str:
    """Return one size of a tile: ``8``, or ``32x8`` for a shape."""
    return "x".join(map(str, size)) if isinstance(size, list | tuple) else str(size)
