"""Name the measured launches, and trace them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tracegen
from rdmodel.trace import Trace
from tracegen import Buffer
from validation.modern import kernels

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Point:
    """A measured point of a miss-ratio curve: `kib` KiB of data, `measured` percent of the sectors that miss."""

    curve: str
    gpu: str
    kib: float
    measured: float


@dataclass(frozen=True, slots=True)
class Counter:
    """A measured counter of a case on a GPU, by its name in Nsight Compute."""

    case: str
    gpu: str
    metric: str
    measured: float


@dataclass(frozen=True, slots=True)
class Case:
    """A measured launch: the function that traces it, and what of it is predicted.

    All blocks are alike where only `blocks` of them are modelled; counters are then multiplied by `scale`.
    """

    trace: Callable[[], Trace]
    blocks: int | None = None
    scale: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)


def read_points() -> list[Point]:
    """Return all points of all curves, in the order of the file."""
    return [Point(r["curve"], r["gpu"], float(r["kib"]), float(r["measured"])) for r in _rows("curves.csv")]


def read_counters() -> list[Counter]:
    """Return all measured counters, in the order of the file."""
    return [Counter(r["case"], r["gpu"], r["metric"], float(r["measured"])) for r in _rows("counters.csv")]


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


def _doubles(*shape: int) -> Buffer:
    return Buffer(shape, np.float64)


def _squares(n: int, *names: str) -> dict[str, tuple[int, int]]:
    return dict.fromkeys(names, (n, n))


def _vectors(n: int, *names: str) -> dict[str, Buffer]:
    return {name: _doubles(n) for name in names}


def _transpose(kernel: Callable[..., None], n: int, side: int, doubles: bool = False) -> Callable[[], Trace]:
    arrays: Any = {name: _doubles(n, n) for name in "ab"} if doubles else _squares(n, "a", "b")
    return lambda: tracegen.trace(kernel, grid=(n // side, n // side), block=(side, side), arrays=arrays)


def _multiply(n: int) -> Callable[[], Trace]:
    return lambda: tracegen.trace(
        kernels.multiply_shared,
        grid=(n // 32, n // 32),
        block=(32, 32),
        arrays=_squares(n, "a", "b", "c"),
        shared_memory=2 * 4096,
        tile=32,
    )


def _stream(n: int) -> Callable[[], Trace]:
    return lambda: tracegen.trace(kernels.copy, grid=n // 1024, block=1024, arrays=_vectors(n, "a", "b"))


def _dot(n: int) -> Callable[[], Trace]:
    return lambda: tracegen.trace(
        kernels.dot,
        grid=256,
        block=1024,
        arrays=_vectors(n, "a", "b") | _vectors(256, "sums"),
        shared_memory=8192,
        threads=256 * 1024,
    )


def _add(n: int) -> Callable[[], Trace]:
    return lambda: tracegen.trace(kernels.add, grid=-(-n // 1024), block=1024, arrays=_vectors(n, "a", "b", "c"))


def _strided(n: int) -> Callable[[], Trace]:
    arrays = dict.fromkeys("abc", n)
    return lambda: tracegen.trace(kernels.add_strided, grid=160, block=1024, arrays=arrays, threads=160 * 1024)


def _sums(kernel: Callable[..., None], n: int) -> Callable[[], Trace]:
    return lambda: tracegen.trace(kernel, grid=n // 256, block=256, arrays={"data": (n, n), "sums": n})


def _write_bytes() -> Trace:
    return tracegen.trace(kernels.write_bytes, grid=2, block=1, arrays=dict.fromkeys(("source", "out"), 16384))


def _multiply_register() -> Trace:
    arrays = {"a": (992, 1024), "b": (992, 1056), "c": (1056, 1024)}
    return tracegen.trace(kernels.multiply_register, grid=(8, 66), block=(16, 8), arrays=arrays, shared_memory=512)


def _sort_shared() -> Trace:
    arrays = dict.fromkeys(("keys", "values", "sorted_keys", "sorted_values"), 1 << 22)
    return tracegen.trace(kernels.sort_shared, grid=4096, block=512, arrays=arrays, shared_memory=8192)


def _words(*shape: int) -> Buffer:
    """Return an array of 16-byte elements."""
    return Buffer(shape, np.complex128)


def _transform() -> Trace:
    return tracegen.trace(
        kernels.transform_columns, grid=(16, 32), block=(8, 4, 2), arrays=_squares(512, "image", "result")
    )


def _count() -> Trace:
    arrays = {"data": _words(1 << 22), "counts": 4370 * 64}
    return tracegen.trace(
        kernels.count_bytes, grid=4370, block=64, arrays=arrays, shared_memory=4096, threads=4370 * 64
    )


def _sequences() -> Trace:
    return tracegen.trace(kernels.store_sequences, grid=128, block=(128, 3), arrays={"out": 3 << 20}, threads=128 * 128)


def _diffuse() -> Trace:
    rows, columns = 502, 458
    lists = {"north": rows, "south": rows, "west": columns, "east": columns}
    arrays = dict.fromkeys(("image", "to_north", "to_south", "to_west", "to_east", "factor"), rows * columns)
    return tracegen.trace(kernels.diffuse, grid=450, block=512, arrays={**arrays, **lists}, rows=rows)


def _potential() -> Trace:
    arrays = {"atoms": (4, 64), "grid": (256, 256, 256)}
    return tracegen.trace(kernels.potential, grid=(8, 32, 8), block=(32, 8), arrays=arrays, slices=32)


CASES: Mapping[str, Case] = {
    "stores": Case(_write_bytes),
    "add 100": Case(_add(100)),
    "add 1048576": Case(lambda: tracegen.kernel("vectoradd", N=1 << 20, block=(128, 1, 1))),
    "add.strided": Case(_strided(160 * 1024 * 16)),
    **{f"stream.{name} {n}": Case(_stream(n)) for name in ("copy", "mul") for n in (10240, 102400)},
    **{f"stream.dot {n}": Case(_dot(n)) for n in (10240, 102400)},
    "sums.rows 16384": Case(_sums(kernels.sum_rows, 16384), blocks=1, scale=64),
    "sums.columns 16384": Case(_sums(kernels.sum_columns, 16384), blocks=1, scale=64),
    **{f"transpose.naive {n}": Case(_transpose(kernels.transpose_rows, n, 16)) for n in (128, 512)},
    **{f"transpose.shared {n}": Case(_transpose(kernels.transpose_tile, n, 16)) for n in (128, 256)},
    "transpose.columns 4096": Case(_transpose(kernels.transpose_columns, 4096, 32, True), blocks=512, scale=32),
    "transpose.rows 4096": Case(_transpose(kernels.transpose_rows, 4096, 32, True), blocks=512, scale=32),
    "transpose.tile 4096": Case(_transpose(kernels.transpose_tile, 4096, 32, True), blocks=512, scale=32),
    **{f"multiply.shared {n}": Case(_multiply(n)) for n in (32, 64, 512)},
    "multiply.register": Case(_multiply_register),
    "hotspot": Case(lambda: tracegen.kernel("hotspot", ROWS=1024, COLS=1024)),
    "backprop": Case(lambda: tracegen.kernel("backprop.1", IN=65536)),
    "walsh": Case(lambda: tracegen.kernel("fwt.1", LOG2N=23)),
    "sort.shared": Case(_sort_shared),
    "transform": Case(_transform),
    "count": Case(_count),
    "sequences": Case(_sequences),
    "diffuse": Case(_diffuse),
    "potential": Case(_potential),
}
"""The measured launches by name."""
