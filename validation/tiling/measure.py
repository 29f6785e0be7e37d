"""Simulate tiled kernels, tile by tile; rankings are compared with the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import tracegen
from rdmodel import presets
from rdmodel.simulator.simulate import simulate
from rdmodel.tiling.values import tile_text

FOLDER = Path(__file__).parent
GPUS = ("gtx470-16k", "gtx480-khairy")
"""Both have 16 KB of L1 and 640 or 768 KB of L2; index functions and schedulers differ."""

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Study:
    """A kernel, its sizes, and the values of each tile parameter; all of their combinations are tiles."""

    kernel: str
    sizes: Sizes
    tiles: Mapping[str, Sequence[int]]

    def all_tiles(self) -> list[Sizes]:
        """Return every tile, the last parameter changing fastest."""
        return [dict(zip(self.tiles, values, strict=True)) for values in product(*self.tiles.values())]


_PRODUCT = {"TI": (8, 16, 32, 64), "TJ": (16, 32, 64), "TK": (8, 32)}
_PLANE = {"TI": (4, 8, 16, 32, 64), "TJ": (16, 32, 64, 128, 256)}

STUDIES = (
    Study("gemm.tiled", {"NI": 288, "NJ": 288, "NK": 288}, _PRODUCT),
    Study("syrk.tiled", {"N": 288, "M": 288}, _PRODUCT),
    Study("syr2k.tiled", {"N": 240, "M": 240}, _PRODUCT),
    Study("2mm.tiled.1", {"NI": 224, "NJ": 224, "NK": 416, "NL": 32}, _PRODUCT),
    Study("transpose.tiled", {"NI": 1056, "NJ": 992}, _PLANE),
    Study("2dconv.tiled", {"NI": 992, "NJ": 1056}, _PLANE),
    Study("3dconv.tiled", {"NI": 96, "NJ": 96, "NK": 96}, {"TI": (2, 4, 8, 16), "TJ": (8, 16, 32), "TK": (32, 64)}),
)
"""Kernels at sizes for which a run takes seconds and no L1 holds an array.

The arrays of a kernel together exceed the L2 as well, except for syrk and syr2k on the second GPU. No row is a power of
two of lines long: such rows use few sets of a linear L1, whatever the tile.
"""

BY_NAME = {study.kernel: study for study in STUDIES}


@dataclass(frozen=True, slots=True)
class Row:
    """One simulated tile of a kernel on a GPU.

    `tile` is text such as ``TI=8 TJ=32``. `instructions` are those of warps, `transactions` those of loads, and
    `l1_misses` the transactions that requested their line from the L2. `l2_bytes` are the bytes of the lines that the
    L2 reads and writes for all SMs, as `L2Prediction.bytes` counts them.
    """

    gpu: str
    kernel: str
    tile: str
    blocks: int
    cycles: int
    instructions: int
    transactions: int
    l1_misses: int
    l2_bytes: int
    dram_bytes: int

    @property
    def key(self) -> tuple[str, str, str]:
        """GPU, kernel and tile of the row."""
        return self.gpu, self.kernel, self.tile

    @property
    def sizes(self) -> dict[str, int]:
        """The tile as numbers by name."""
        return {name: int(value) for name, _, value in (part.partition("=") for part in self.tile.split())}


Task = tuple[str, str, str]
"""GPU, kernel and tile: the key of a row."""


def tasks(gpus: Sequence[str] = GPUS, kernels: Sequence[str] = tuple(BY_NAME)) -> list[Task]:
    """Return the selected tiles in the order of the record."""
    return [
        (gpu, study.kernel, tile_text(tile))
        for gpu in GPUS
        if gpu in gpus
        for study in STUDIES
        if study.kernel in kernels
        for tile in study.all_tiles()
    ]


def measure(task: Task) -> Row:
    """Simulate one tile: all blocks on all SMs."""
    gpu, kernel, tile = task
    study = BY_NAME[kernel]
    sizes = next(found for found in study.all_tiles() if tile_text(found) == tile)
    params: dict[str, Any] = {**study.sizes, **sizes}
    trace = tracegen.kernel(kernel, **params)
    machine = presets.gpu(gpu)
    found = simulate(trace, machine)
    assert found.l2 is not None and found.dram is not None
    return Row(
        gpu=gpu,
        kernel=kernel,
        tile=tile,
        blocks=trace.launch.blocks,
        cycles=found.cycles,
        instructions=found.warp_instructions,
        transactions=int(found.loads),
        l1_misses=int(found.misses.total),
        l2_bytes=(found.l2.reads + found.l2.writes) * machine.l1.line,
        dram_bytes=found.dram.bytes,
    )
