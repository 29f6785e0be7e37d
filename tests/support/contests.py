"""Contests whose numbers are chosen by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import rdmodel as rd
import tracegen
from tests.support.presets import FERMI


@cache
def base() -> rd.Simulation:
    """Return a short run, whose counters the others replace."""
    return rd.simulate(tracegen.kernel("atax.1", NX=64, NY=64, block=(32, 1, 1)), gpu=FERMI)


def hand_made(*rows: dict[str, int], names: tuple[str, ...] | None = None) -> rd.Contest:
    """Return a contest in which every run has 1000 instructions and so many cycles; `names` counts runs to come."""
    wanted = tuple(rd.combination(name) for name in names or rows[0])
    simulations = tuple(
        {name: replace(base(), kernel=f"k{number}", instructions=1000, cycles=n) for name, n in row.items()}
        for number, row in enumerate(rows)
    )
    return rd.Contest(combinations=wanted, simulations=simulations)
