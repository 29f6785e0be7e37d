"""Build comparisons of simulator and model with chosen miss rates."""

from __future__ import annotations

from dataclasses import replace

import rdmodel as rd
import tracegen
from rdmodel.gpu.config import LatencyConfig
from rdmodel.trace import ALL_NEEDS, Op
from tests.support.presets import FERMI

ATAX = tracegen.kernel("atax.1", NX=64, NY=64, block=(32, 1, 1))
LATENCY = LatencyConfig(lat_min=90, sigma=3.5, hit_latency=7)


def loads(*lines: int) -> list:
    return [(Op.LOAD, ALL_NEEDS, 0, [line]) for line in lines]


def stores(*lines: int) -> list:
    return [(Op.STORE, 0, 0, [line]) for line in lines]


def hand_made(kernel: str, simulated: float, hardware: float, paper: float | None = None) -> rd.Comparison:
    """Return a comparison of 1000 loads with the given miss rates."""
    base = rd.compare(ATAX, gpu=FERMI, latency=LATENCY)

    def misses(rate: float) -> rd.MissCounts:
        return rd.MissCounts(0, round(1000 * rate), 0)

    rates = {"hardware": hardware} | ({} if paper is None else {"paper": paper})
    predictions = {
        definition: replace(
            base.predictions[definition],
            transactions=1000,
            hits=1000 - round(1000 * rate),
            latency_misses=0,
            misses=misses(rate),
        )
        for definition, rate in rates.items()
    }
    simulation = replace(
        base.simulation, kernel=kernel, hits=1000 - round(1000 * simulated), pending_hits=0, misses=misses(simulated)
    )
    return rd.Comparison(simulation=simulation, predictions=predictions, latency=LATENCY)
