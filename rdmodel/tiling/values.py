"""Define the result of a ranking of tiles as frozen values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from rdmodel.common.axes import draw_shares, given_or_new, literal, nothing_to_draw
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.presentation import Presented
from rdmodel.common.rates import plain_rate
from rdmodel.errors import ConfigError
from rdmodel.results.prediction import Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Tile = Any
"""A tile: any value, by convention a mapping of names to sizes, such as ``{"TI": 8, "TJ": 32}``."""


MAX_DRAWN_TILES = 20
"""Tiles in a figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedTile:
    """A tile and its `value` of the objective; less is better.

    The interval from `low` to `high` is meant to contain the exact value; both equal `value` if all blocks were run.
    `rank` counts from 1; equal values share a rank. `tied` is True if the interval overlaps that of the best tile.
    `pruned` is the reason why the estimate was not refined to the end, or None. `prediction` is scaled to the whole
    grid (`rdmodel.estimate`); the properties are its main numbers, under the names that they have in JSON. It is None,
    and so are these numbers, for a tile that was not estimated, because other tiles told that it is none of the best.
    """

    rank: int
    tile: Tile
    value: float
    low: float
    high: float
    tied: bool
    pruned: str | None
    prediction: Prediction | None = field(repr=False)

    @property
    def miss_rate(self) -> float:
        """Misses of the L1 per load transaction, 0 to 1; NaN without loads or an estimate."""
        return math.nan if self.prediction is None else self.prediction.miss_rate

    @property
    def transactions(self) -> float | None:
        """Load transactions."""
        return None if self.prediction is None else self.prediction.transactions

    @property
    def sectors(self) -> float | None:
        """Sectors that the load transactions ask for: as many as transactions where lines have no sectors."""
        return None if self.prediction is None else self.prediction.sectors

    @property
    def misses(self) -> float | None:
        """Misses of the L1."""
        return None if self.prediction is None else self.prediction.misses.total

    @property
    def l2_bytes(self) -> float | None:
        """Bytes that the SMs read from the L2 and write to it; None without an L2."""
        return None if self.prediction is None or self.prediction.l2 is None else self.prediction.l2.bytes

    @property
    def dram_bytes(self) -> float | None:
        """Bytes that the L2 reads from DRAM and writes to it; None without an L2."""
        return None if self.prediction is None or self.prediction.l2 is None else self.prediction.l2.dram_bytes

    def to_dict(self) -> dict[str, Any]:
        """Return the tile and its numbers, ready for JSON if the tile is."""
        plain: dict[str, Any] = {
            "rank": self.rank,
            "tile": self.tile,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "tied": self.tied,
            "pruned": self.pruned,
            "miss_rate": plain_rate(self.miss_rate),
            "transactions": self.transactions,
            "sectors": self.sectors,
            "misses": self.misses,
        }
        if self.prediction is not None and self.prediction.l2 is not None:
            plain |= {"l2_bytes": self.l2_bytes, "dram_bytes": self.dram_bytes}
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class InfeasibleTile:
    """A tile that cannot run on the GPU or whose trace cannot be made, and the `reason`."""

    tile: Tile
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return both fields."""
        return {"tile": self.tile, "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ranking(Presented):
    """Tiles of a kernel from best to worst, by an `objective` that is minimised (``time``, or ``time per steps``).

    The ranking distinguishes the first `top` places. Tiles that were `pruned` follow those that were not; those that
    were pruned in a later round come first, and within a round the order is that of the values. `infeasible` are the
    tiles that cannot run. `seconds` is the duration of the ranking. `notes` are sentences about how traces were made.
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
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> RankedTile:
        """The first tile; raises `ConfigError` if no tile can run."""
        if not self.tiles:
            reason = f": {self.infeasible[0].reason}" if self.infeasible else ""
            raise ConfigError(f"tiles: none of {len(self.infeasible)} can run{reason}")
        return self.tiles[0]

    @property
    def ties(self) -> tuple[RankedTile, ...]:
        """The tiles whose intervals overlap that of the best one, itself included."""
        return tuple(tile for tile in self.tiles if tile.tied)

    @property
    def pruned(self) -> tuple[RankedTile, ...]:
        """The tiles whose estimates were not refined to the end."""
        return tuple(tile for tile in self.tiles if tile.pruned is not None)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the values of the best tiles, as multiples of the best one, and return the axes.

        They are new ones by default; needs matplotlib (extra ``plot``). ``rdmodel tiles --plot`` draws a map of all
        tiles. Raises `ConfigError` if no tile can run.
        """
        if not self.tiles:
            raise nothing_to_draw(self, "no tile can run")
        ax, shown, least = given_or_new(ax), self.tiles[:MAX_DRAWN_TILES], self.tiles[0].value
        values = [tile.value / least if least > 0 else tile.value for tile in shown]
        label = f"{self.objective}, times the best" if least > 0 else self.objective
        draw_shares(ax, [tile_text(tile.tile) for tile in shown], values, label)
        ax.set_title(literal(f"{self.kernel} on {self.gpu}"))
        return ax

    def __str__(self) -> str:
        """Return the best tile in one line."""
        head = f"{self.kernel} on {self.gpu}: "
        if not self.tiles:
            return f"{head}none of {len(self.infeasible)} tiles can run"
        best, ties = self.best, len(self.ties) - 1
        also = f", {ties} more as good" if ties else ""
        return f"{head}{tile_text(best.tile)} of {len(self.tiles)} tiles, {self.objective} {best.value:,.6g}{also}"

    def to_dict(self) -> dict[str, Any]:
        """Return all fields in plain types, ready for JSON if the tiles are."""
        return {
            "kernel": self.kernel,
            "gpu": self.gpu,
            "objective": self.objective,
            "effort": self.effort,
            "seed": self.seed,
            "top": self.top,
            "tiles": [tile.to_dict() for tile in self.tiles],
            "infeasible": [tile.to_dict() for tile in self.infeasible],
            "seconds": self.seconds,
            "notes": list(self.notes),
        }

    def shown_rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rank, the sizes and the objective of every tile, and the reasons of those that cannot run."""
        for tile in self.tiles:
            place = {"rank": tile.rank, "tile": tile_text(tile.tile), self.objective: tile.value}
            yield {**place, "at least": tile.low, "at most": tile.high, "L1 miss rate (%)": 100 * tile.miss_rate}
        for infeasible in self.infeasible:
            yield {"tile": tile_text(infeasible.tile), "reason": infeasible.reason}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat row for every tile: its sizes, rank and numbers, or only the reason if it is infeasible."""
        rows = []
        plains = [*(tile.to_dict() for tile in self.tiles), *(tile.to_dict() for tile in self.infeasible)]
        for plain in plains:
            tile = plain.pop("tile")
            sizes = dict(tile) if isinstance(tile, Mapping) else {"tile": tile}
            rows.append({**sizes, **plain})
        return rows


def tile_text(tile: Tile) -> str:
    """Return a tile as text: ``TI=8 TJ=32``."""
    if not isinstance(tile, Mapping):
        return str(tile)
    return " ".join(f"{name}={tile_size_text(size)}" for name, size in tile.items())


def tile_size_text(size: Any) -> str:
    """Return one size of a tile as text: ``8``, or ``32x8`` for a shape."""
    return "x".join(map(str, size)) if isinstance(size, list | tuple) else str(size)
