"""Compare predicted times of products of matrices in Gluon with published ones, on Hopper and on Blackwell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

import rdmodel as rd
from rdmodel import presets
from rdmodel.gpu.config import GPU
from rdmodel.gpu.overrides import override
from validation.common import records
from validation.triton.folder import FOLDER
from validation.tuning.measures import quantile_cells, tau

PUBLISHED, PREDICTED = FOLDER / "products_published.csv", FOLDER / "products_predicted.csv"

ROWS = COLUMNS = 8192
ARCHITECTURES = {"h100": "sm_90a", "gb200": "sm_100a"}


@dataclass(frozen=True, slots=True)
class Published:
    """The measured speed of a kernel of `products`, whose factors have an `extent` in common, and where it stands."""

    gpu: str
    way: str
    tile: str
    warps: int
    buffers: int
    extent: int
    tflops: float
    source: str


@dataclass(frozen=True, slots=True)
class Predicted:
    """The predicted speed of the kernel of a published row, by number, the clock in MHz, and what binds it."""

    row: int
    tflops: float
    clock: int
    bound: str


def published() -> list[Published]:
    """Return the published rows."""
    return records.from_csv(Published, PUBLISHED.read_text())


@cache
def gpu_of(name: str) -> GPU:
    """Return the GPU of the published rows; a GB200 is taken to be a B200 with more SMs."""
    return presets.gpu("h100-sxm") if name == "h100" else override(presets.gpu("b200"), {"sms": "152"})


def tasks() -> list[int]:
    """Return the numbers of all rows."""
    return list(range(len(published())))


def predict(number: int) -> Predicted:
    """Return the speed that is predicted for a published row."""
    row = published()[number]
    found = rd.time(_trace(row), gpu_of(row.gpu))
    tflops = 2 * ROWS * COLUMNS * row.extent / found.milliseconds / 1e9
    return Predicted(number, round(tflops, 1), found.clock, found.bound)


def _trace(row: Published) -> rd.Trace:
    from rdmodel.integrations.triton import trace
    from validation.triton import products

    m, n, k = map(int, row.tile.split("x"))
    family = "hopper" if row.gpu == "h100" else "blackwell"
    layout = [_layout_of_sums(m, n, row.warps)] if family == "hopper" else []
    return trace(
        getattr(products, f"{family}_{row.way}"),
        gpu_of(row.gpu).sms if row.way == "persistent" else (ROWS // m, COLUMNS // n),
        _described((ROWS, row.extent), [m, k]),
        _described((row.extent, COLUMNS), [k, n]),
        _described((ROWS, COLUMNS), [m, n]),
        *layout,
        row.buffers,
        num_warps=row.warps,
        architecture=ARCHITECTURES[row.gpu],
    )


def _described(shape: tuple[int, int], block: list[int]) -> Any:
    """Return zeros with the attributes of a descriptor of Gluon, whose own class takes tensors of torch only."""
    from triton.experimental.gluon import language as gl

    return SimpleNamespace(
        base=np.zeros(shape, np.float16), shape=shape, strides=[shape[1], 1], block_shape=block, padding="zero",
        layout=gl.NVMMASharedLayout.get_default_for(block, gl.float16),
    )  # fmt: skip


def _layout_of_sums(rows: int, columns: int, warps: int) -> Any:
    """Return how warps hold the sums of ``wgmma``: groups of four have 64 rows, and as many columns as they can."""
    from triton.experimental.gluon import language as gl

    over_rows = min(warps, max(4, rows // 16))
    over_columns = warps // over_rows
    return gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[over_rows, over_columns], instr_shape=[16, min(256, columns // over_columns), 16]
    )


def tables() -> str:
    """Return a table of the quality of the predictions, and one of all rows."""
    rows = published()
    found = {each.row: each for each in records.from_csv(Predicted, PREDICTED.read_text())}
    summary = ["| GPU | way | rows | tau | 10 % | 50 % | 90 % |", "|---|---|---:|---:|---:|---:|---:|"]
    for gpu, ways in product(ARCHITECTURES, (("waits", "ring"), ("persistent",))):
        own = [number for number, row in enumerate(rows) if row.gpu == gpu and row.way in ways]
        measured = np.array([rows[number].tflops for number in own])
        guessed = np.array([found[number].tflops for number in own])
        quality = f"{tau(-guessed, 1 / measured):.2f} | {quantile_cells(guessed / measured)}"
        summary.append(f"| {gpu} | {', '.join(ways)} | {len(own)} | {quality} |")
    return "\n".join([*summary, "", *_rows(rows, found)]) + "\n"


def _rows(rows: list[Published], found: dict[int, Predicted]) -> Iterable[str]:
    yield "| GPU | way | tile | warps | buffers | extent | measured | predicted | ratio | clock | bound by |"
    yield "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---|"
    for number, row in enumerate(rows):
        own = found[number]
        yield (
            f"| {row.gpu} | {row.way} | {row.tile} | {row.warps} | {row.buffers} | {row.extent} | {row.tflops:.0f} "
            f"| {own.tflops:.0f} | {own.tflops / row.tflops:.2f} | {own.clock} | {own.bound} |"
        )
