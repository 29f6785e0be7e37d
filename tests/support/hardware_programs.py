"""Run small programs on the reference of the definition `hardware`, and list its tries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

from rdmodel.gpu.config import CacheConfig
from rdmodel.model.options import Options
from rdmodel.policies import Linear
from rdmodel.reference import Block, Counts, Instruction, Log, Try, hardware, run
from rdmodel.trace import Op

A, B, C, D, E, F = range(6)
LAST = 1
"""Needs the memory instruction before."""


def load(*lines: int, needs: int = 0, gap: int = 0) -> Instruction:
    return Instruction(Op.LOAD, needs, gap, lines)


def store(*lines: int, needs: int = 0, gap: int = 0) -> Instruction:
    return Instruction(Op.STORE, needs, gap, lines)


Tries = list[tuple[int, int, int, str]]


def play(
    *blocks: Block,
    ways: int = 8,
    slots: int = 1,
    draws: list[int] | None = None,
    choices: Iterator[float] | None = None,
    cache: dict[str, Any] | None = None,
    **changes: Any,
) -> tuple[Tries, Counts]:
    """Return (time, warp, line, outcome) of every try in one set; a miss takes 10 steps, a hit 2 by default."""
    geometry = CacheConfig(size=128 * ways, ways=ways, index=Linear(), **(cache or {}))
    chosen: dict[str, Any] = {"lat_min": 10, "hit_latency": 2, "sched": "fifo", **changes}
    options = Options(sigma=0.0, **chosen)
    log: Log = []
    sm = hardware(geometry, options, slots, iter(draws) if draws else repeat(0), choices or repeat(0.0), log)
    counts = run(sm, blocks)
    return [(t.time, t.warp, t.line, t.outcome) for t in log if isinstance(t, Try)], counts


def times(result: tuple[Tries, Counts]) -> list[tuple[int, int, int]]:
    return [(time, warp, line) for time, warp, line, _ in result[0]]
