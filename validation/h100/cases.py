"""List the launches that were measured on an H100, as arguments of `tracegen.cuda`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel import presets
from rdmodel.trace import Trace
from tracegen.cuda import sources
from tracegen.cuda.launchfile import read_launch_file
from tracegen.cuda.session import PreparedLaunch, Session
from validation.counters.cases import CASES as BENCHMARKS
from validation.counters.cases import LAUNCHES
from validation.counters.cases import Case as Benchmark
from validation.counters.study import find_source, source_of

FOLDER = Path(__file__).parent
K40C = FOLDER.parent / "hardware" / "k40c.cu"
GPU = "h100-sxm"
"""Preset of the measured GPU."""

ARCHITECTURE = "sm_90"

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A measured launch: a kernel of a source, its macros, its shape and its arguments by name."""

    name: str
    source: Path
    kernel: str
    grid: Shape
    block: Shape
    args: Mapping[str, Any]
    defines: Mapping[str, int] = field(default_factory=dict)
    shared: int = 0
    variables: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the name, which progress shows."""
        return self.name

    def prepare(self) -> tuple[Session, PreparedLaunch]:
        """Compile the program for the measured GPU and prepare the launch."""
        session = Session(
            self.source,
            defines=self.defines,
            architecture=ARCHITECTURE,
            kernels=(self.kernel,),
            variables=self.variables,
        )
        return session, session.prepare(self.kernel, self.grid, self.block, self.args, shared=self.shared)

    def trace(self) -> Trace:
        """Return the trace of the launch."""
        session, launch = self.prepare()
        return session.trace(launch)


def floats(*shape: int) -> str:
    """Return the description of an array of zeros."""
    return f"float[{prod(shape)}]"


def _bundled(
    name: str, source: str, kernel: str, grid: Shape, block: Shape, args: Mapping[str, Any], **rest: Any
) -> Case:
    return Case(name, sources.source_path(source), kernel, grid, block, args, **rest)


def _rows_and_columns(side: int, block: Shape = (32, 8)) -> dict[str, Shape]:
    return {"grid": (-(-side // block[0]), -(-side // block[1])), "block": block}


# ---- PolyBench/GPU


def _products() -> Iterator[Case]:
    """Matrix products with a thread per element, whose warps read rows of one matrix and elements of the other."""
    for n in (500, 512, 1024):
        shape, square = _rows_and_columns(n), floats(n, n)
        sizes = {"NI": n, "NJ": n, "NK": n}
        args = dict.fromkeys("abc", square)
        yield _bundled(f"gemm {n}", "gemm", "gemm", args=args, defines=sizes, **shape)
    for n in (512, 768):
        shape, square = _rows_and_columns(n), floats(n, n)
        sizes = {"NI": n, "NJ": n, "NK": n, "NL": n}
        args = dict.fromkeys(("A", "B", "tmp"), square)
        yield _bundled(f"2mm.1 {n}", "2mm", "mm2_1", args=args, defines=sizes, **shape)
        args = dict.fromkeys(("tmp", "C", "D"), square)
        yield _bundled(f"2mm.2 {n}", "2mm", "mm2_2", args=args, defines=sizes, **shape)
    for n in (256, 500, 512):
        shape, square = _rows_and_columns(n), floats(n, n)
        yield _bundled(f"syrk {n}", "syrk", "syrk", args=dict.fromkeys("ac", square), defines={"N": n, "M": n}, **shape)
        yield _bundled(
            f"syr2k {n}", "syr2k", "syr2k", args=dict.fromkeys("abc", square), defines={"N": n, "M": n}, **shape
        )


def _vectors() -> Iterator[Case]:
    """Products of a matrix and a vector: a thread per row, whose warps read 32 rows, or a thread per column."""
    block = (256,)
    for rows, columns in ((33792, 512), (33792, 500), (67584, 256), (135168, 256), (202752, 256), (270336, 128)):
        args = {"A": floats(rows, columns), "x": floats(columns), "tmp": floats(rows)}
        yield _bundled(
            f"atax.1 {rows}x{columns}", "atax", "atax_1", (rows // 256,), block, args,
            defines={"NX": rows, "NY": columns},
        )  # fmt: skip
    rows, columns = 1024, 33792
    args = {"A": floats(rows, columns), "y": floats(columns), "tmp": floats(rows)}
    yield _bundled("atax.2", "atax", "atax_2", (132,), block, args, defines={"NX": rows, "NY": columns})
    args = {"A": floats(rows, columns), "r": floats(rows), "s": floats(columns)}
    yield _bundled("bicg.1", "bicg", "bicg_1", (132,), block, args, defines={"NX": rows, "NY": columns})
    for n in (2000, 4096, 8192):
        args = {"A": floats(n, n), "p": floats(n), "q": floats(n)}
        yield _bundled(f"bicg.2 {n}", "bicg", "bicg_2", (-(-n // 256),), block, args, defines={"NX": n, "NY": n})
    for n in (4000, 4096, 8192):
        args = {"a": floats(n, n), "x1": floats(n), "y1": floats(n)}
        yield _bundled(f"mvt.1 {n}", "mvt", "mvt_1", (-(-n // 256),), block, args, defines={"N": n})
    args = {"a": floats(8192, 8192), "x2": floats(8192), "y2": floats(8192)}
    yield _bundled("mvt.2", "mvt", "mvt_2", (32,), block, args, defines={"N": 8192})
    for n in (2000, 4096, 8192):
        args = dict.fromkeys("AB", floats(n, n)) | dict.fromkeys(("x", "y", "tmp"), floats(n))
        yield _bundled(f"gesummv {n}", "gesummv", "gesummv", (-(-n // 256),), block, args, defines={"N": n})


def _stencils() -> Iterator[Case]:
    for n in (2000, 2048):
        both = dict.fromkeys("AB", floats(n, n))
        yield _bundled(
            f"2dconv {n}", "2dconv", "conv2d_1", args=both, defines={"NI": n, "NJ": n}, **_rows_and_columns(n)
        )
    args: dict[str, Any] = {**dict.fromkeys("AB", floats(256, 256, 256)), "i": 100}
    yield _bundled(
        "3dconv", "3dconv", "conv3d_1", (8, 32), (32, 8), args, defines=dict.fromkeys(("NI", "NJ", "NK"), 256)
    )
    shape, square = _rows_and_columns(2048), floats(2048, 2048)
    sizes = {"NX": 2048, "NY": 2048}
    args = {"fict": floats(500), "ey": square, "hz": square, "t": 0}
    yield _bundled("fdtd2d.1", "fdtd2d", "fdtd2d_1", args=args, defines=sizes, **shape)
    yield _bundled("fdtd2d.2", "fdtd2d", "fdtd2d_2", args={"ex": square, "hz": square}, defines=sizes, **shape)
    args = {"ex": square, "ey": square, "hz": square}
    yield _bundled("fdtd2d.3", "fdtd2d", "fdtd2d_3", args=args, defines=sizes, **shape)


def _statistics() -> Iterator[Case]:
    n, block = 2048, (256,)
    sizes, square, vector = {"M": n, "N": n}, floats(n, n), floats(n)
    mean = {"mean": vector, "data": square}
    std = {"std": vector, **mean}
    shape = _rows_and_columns(n)
    yield _bundled("corr.mean", "corr", "corr_mean", (8,), block, mean, defines=sizes)
    yield _bundled("corr.std", "corr", "corr_std", (8,), block, std, defines=sizes)
    yield _bundled("corr.reduce", "corr", "corr_reduce", args=std, defines=sizes, **shape)
    yield _bundled("covar.reduce", "covar", "covar_reduce", args=mean, defines=sizes, **shape)
    sizes = {"M": 1024, "N": 256}
    args = {"symmat": floats(1024, 1024), "data": floats(1024, 256)}
    yield _bundled("corr.corr", "corr", "corr_corr", (4,), block, args, defines=sizes)
    yield _bundled("covar.covar", "covar", "covar_covar", (4,), block, args, defines=sizes)
    sizes = {"NI": n, "NJ": n}
    mixed: dict[str, Any] = {"a": square, "r": square, "q": square, "k": 5}
    yield _bundled("gramschmidt.2", "gramschmidt", "gramschmidt_2", (8,), block, mixed, defines=sizes)
    yield _bundled("gramschmidt.3", "gramschmidt", "gramschmidt_3", (8,), block, mixed, defines=sizes)


# ---- Other kernels


def _matrix_multiplies() -> Iterator[Case]:
    """The kernels of a Tesla K40c: naive and in tiles, both also with x and y swapped."""
    names = ("matMul_gpu", "matMul_gpu_uncoalesced", "matMul_gpu_sharedmem", "matMul_gpu_sharedmem_uncoalesced")
    for kernel in names:
        for n in (512, 768, 1024) if "uncoalesced" in kernel else (512, 1024):
            args = {**dict.fromkeys("abc", floats(n, n)), "n": n}
            yield Case(f"{kernel} {n}", K40C, kernel, (n // 16, n // 16), (16, 16), args)
    n = 1 << 24
    args = {**dict.fromkeys("abc", floats(n)), "n": n}
    yield Case("vectorAdd", K40C, "vectorAdd", (n // 256,), (256,), args)
    args = {**dict.fromkeys("ab", floats(n)), "c": floats(132 * 1024), "n": n}
    yield Case("dotProd", K40C, "dotProd", (132 * 4,), (256,), args)
    args = {**dict.fromkeys("abc", floats(1024, 1024)), "n": 1024}
    yield _bundled("matmul_tiled", "matmul_tiled", "matmul_tiled", (64, 64), (16, 16), args)


def graph(vertices: int, degree: int) -> dict[str, NDArray[np.int32]]:
    """Return a random graph in rows: where each vertex's neighbours begin, and these."""
    draw = np.random.default_rng(0)
    degrees = draw.integers(0, 2 * degree + 1, vertices)
    rows = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int32)
    return {"rows": rows, "columns": draw.integers(0, vertices, rows[-1], dtype=np.int32)}


def _irregular() -> Iterator[Case]:
    n = 1 << 17
    found = graph(n, 8)
    levels = np.full(n, -1, np.int32)
    levels[np.random.default_rng(1).integers(0, n, n // 4)] = 3
    args: dict[str, Any] = {**found, "levels": levels, "changed": np.zeros(1, np.int32), "level": 3, "vertices": n}
    yield _bundled("bfs", "bfs", "bfs", (n // 256,), (256,), args)
    values = {"values": floats(found["columns"].size), "x": floats(n), "y": floats(n), "n": n}
    yield _bundled("spmv_thread", "spmv", "spmv_thread", (n // 256,), (256,), found | values)
    yield _bundled("spmv_warp", "spmv", "spmv_warp", (n // 8,), (256,), found | values)
    args = {"data": "uint8[16777216]", "bins": "uint32[256]", "n": 1 << 24}
    yield _bundled("histogram 256", "histogram", "histogram", (528,), (256,), args)
    side = 2048
    args = {**dict.fromkeys(("power", "in", "out"), floats(side, side)), "width": side, "height": side, "rate": 0.1}
    yield _bundled("hotspot 2048", "hotspot", "hotspot", (side // 16, side // 16), (16, 16), args)
    args = {"similarity": f"int[{side * side}]", "score": f"int[{(side + 1) ** 2}]", "n": side, "diagonal": 127}
    yield _bundled("needle", "needle", "needle", (128,), (16,), args | {"penalty": 1})
    args = {"values": floats(1 << 24), "total": floats(1), "n": 1 << 24}
    yield _bundled("reduction", "reduction", "reduction", (528,), (256,), args, shared=1024)
    args = {"in": f"int[{1 << 22}]", "out": f"int[{1 << 22}]", "sums": f"int[{1 << 14}]", "n": 1 << 22}
    yield _bundled("scan_blocks", "scan", "scan_blocks", (1 << 14,), (256,), args, shared=1024)
    args = {"in": floats(4096, 4096), "out": floats(4096, 4096), "width": 4096, "height": 4096}
    yield _bundled("transpose", "transpose", "transpose", (128, 128), (32, 8), args)


def own_cases() -> list[Case]:
    """Return the launches whose kernels are part of this project."""
    groups = (_products, _vectors, _stencils, _statistics, _matrix_multiplies, _irregular)
    return [case for group in groups for case in group()]


# ---- Public benchmarks

BLOCKS_PER_SM = {"cudaTensorCoreGemm": 1}
"""Benchmarks that launch so many blocks for each SM of the GPU."""


def public_cases(benchmarks: Path) -> list[Case]:
    """Return the launches of `validation.counters` that need no program, from a folder with their sources."""
    return [_public(case, benchmarks) for case in BENCHMARKS.values() if case.program is None]


def _public(benchmark: Benchmark, benchmarks: Path) -> Case:
    path = LAUNCHES / f"{benchmark.name}.toml"
    text = re.sub("^source = .*$", "source = '-'", path.read_text(), flags=re.MULTILINE)
    with tempfile.TemporaryDirectory(prefix="rdmodel-") as folder:
        for name, array in benchmark.inputs().items():
            np.save(Path(folder) / f"{name}.npy", array)
        (Path(folder) / path.name).write_text(text)
        file = read_launch_file(Path(folder) / path.name)
    (launch,) = file.launches
    sms = BLOCKS_PER_SM.get(benchmark.name)
    grid = launch.grid if sms is None else (sms * presets.gpu(GPU).sms,)
    assert launch.kernel is not None
    assert launch.block is not None
    return Case(
        benchmark.name, find_source(benchmarks, source_of(benchmark)), launch.kernel, grid, launch.block, file.args,
        shared=launch.shared, variables=file.variables,
    )  # fmt: skip


def all_cases(benchmarks: Path | None) -> list[Case]:
    """Return all launches; those of public benchmarks only if their sources are given."""
    return own_cases() + (public_cases(benchmarks) if benchmarks else [])
