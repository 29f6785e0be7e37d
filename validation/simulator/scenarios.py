"""Read ``scenarios.toml``, and run one kernel of one scenario in the simulator and the model."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tracegen
from rdmodel import presets
from rdmodel.comparison.compare import DEFINITIONS, compare
from rdmodel.comparison.values import SHARES
from rdmodel.gpu.config import GPU
from rdmodel.gpu.overrides import override
from rdmodel.model.options import Definition
from tracegen.kernel_library.suites import SUITES

FOLDER = Path(__file__).parent
SCENARIOS = FOLDER.parent / "scenarios.toml"

DIGITS = 4
"""Decimal places of a recorded rate in percent."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A GPU of ``scenarios.toml``. `goal`: its mean error has a bound; `quick`: kernels that the tests run again."""

    name: str
    gpu: GPU
    goal: bool
    quick: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel on one GPU: simulated and predicted shares of the load transactions, in percent."""

    gpu: str
    kernel: str
    loads: int
    cycles: int
    simulated: Mapping[str, float]
    predicted: Mapping[Definition, Mapping[str, float]]

    def error(self, definition: Definition) -> float:
        """Return the signed error of the predicted miss rate in percentage points."""
        return self.predicted[definition]["misses"] - self.simulated["misses"]


@cache
def settings() -> dict[str, Any]:
    """Return the contents of ``scenarios.toml``."""
    return tomllib.loads(SCENARIOS.read_text())


def make_gpu(preset: str, overrides: Mapping[str, Any], name: str) -> GPU:
    """Return a preset with some fields changed, under another name."""
    return override(presets.gpu(preset), {**overrides, "name": name})


def scenarios() -> dict[str, Scenario]:
    """Return the scenarios by name."""
    return {
        one["name"]: Scenario(
            name=one["name"],
            gpu=make_gpu(one["preset"], one.get("overrides", {}), one["name"]),
            goal=one["goal"],
            quick=tuple(one["quick"]),
        )
        for one in settings()["gpu"]
    }


def suite() -> Mapping[str, Mapping[str, Any]]:
    """Return the sizes of the kernels by name, in the order of the record."""
    kernels: Mapping[str, Mapping[str, Any]] = SUITES[settings()["suite"]]
    return kernels


def run(task: tuple[str, str]) -> Row:
    """Run the kernel of (scenario, kernel) through the simulator and both definitions of the model."""
    name, kernel = task
    compared = compare(tracegen.kernel(kernel, **suite()[kernel]), scenarios()[name].gpu, seed=settings()["seed"])
    return Row(
        gpu=name,
        kernel=kernel,
        loads=int(compared.simulation.loads),
        cycles=compared.simulation.cycles,
        simulated=_percent(compared.simulated),
        predicted={definition: _percent(compared.predicted(definition)) for definition in DEFINITIONS},
    )


def _percent(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round(100 * shares[name], DIGITS) for name in SHARES}
