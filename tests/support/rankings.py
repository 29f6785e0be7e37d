"""Provide rankings of tiles, and a kernel and an objective to rank tiles with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ranked:
    rank: int
    tile: object
    value: float


@dataclass(frozen=True)
class Ranking:
    tiles: tuple[Ranked, ...]
    infeasible: tuple[object, ...] = ()


def ranking(*tiles: tuple[object, float]) -> Ranking:
    """Return tiles, in order, with the ranks that their values give them."""
    values = [value for _, value in tiles]
    return Ranking(tuple(Ranked(1 + values.index(value), tile, value) for tile, value in tiles))


SIX = ranking(
    ({"TI": 32, "TJ": 32}, 100.0),
    ({"TI": 16, "TJ": 64}, 104.0),
    ({"TI": 16, "TJ": 32}, 104.0),
    ({"TI": 8, "TJ": 64}, 110.0),
    ({"TI": 8, "TJ": 32}, 150.0),
    ({"TI": 32, "TJ": 64}, 400.0),
)
SIZES = {"TI": [8, 16, 32], "TJ": [32, 64]}

GEMM = {
    "name": "rows",
    "parameters": {"N": 512, "T": 32},
    "arrays": {"A": ["N", "N"]},
    "block": ["T", 4],
    "threads": ["N", "N"],
    "body": [{"if": ["x < N", "y < N"], "do": [{"load": "A", "at": ["x", "y"]}]}],
}


def misses(prediction) -> float:
    return prediction.misses.total
