"""Matrices, graphs and texts for kernels whose addresses depend on data: generated from a seed, or read.

What is generated is the same for the same sizes, everywhere.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import ConfigError
from tracegen.kernel_library.registry import Position

SEED = Position(0, below=1 << 31)
"""Declares the parameter that says which of the generated inputs this is."""

QUADRANTS = (0.57, 0.19, 0.19)
"""How likely an edge falls into each of three quarters of a power-law graph's matrix, at every scale: Graph500's."""


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """A sparse matrix in CSR form, or the directed graph that has it as its adjacency matrix.

    Row i has entries ``rows[i]:rows[i + 1]`` of `columns`, ascending, and `values`; `width` is the number of
    columns.
    """

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    width: int

    @property
    def height(self) -> int:
        """Number of rows, or of vertices."""
        return len(self.rows) - 1

    @property
    def sources(self) -> NDArray[np.int32]:
        """The row of every entry."""
        return np.repeat(np.arange(self.height, dtype=np.int32), np.diff(self.rows))

    def __str__(self) -> str:
        return f"{self.height}x{self.width}, {len(self.columns)} entries"


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """A text: its `characters`, and where each line starts; one more start is the end."""

    characters: NDArray[np.uint8]
    starts: NDArray[np.int32]

    def __str__(self) -> str:
        return f"{len(self.starts) - 1} lines, {len(self.characters)} bytes"


# ---- made


def build_sparse(row: NDArray[Any], column: NDArray[Any], value: NDArray[Any], shape: tuple[int, int]) -> Sparse:
    """Return a matrix from its entries; of several for the same place, the first one holds."""
    place, first = np.unique(row.astype(np.int64) * shape[1] + column, return_index=True)
    rows = np.searchsorted(place, np.arange(shape[0] + 1, dtype=np.int64) * shape[1])
    return _frozen(rows, place % shape[1], value[first], shape[1])


@lru_cache(maxsize=4)
def band_matrix(N: int, DEGREE: int, BAND: int, SEED: int) -> Sparse:
    """Return an N x N matrix with rows of 1 to 2 DEGREE - 1 entries, at most BAND from the diagonal (0: anywhere).

    Entries that fall on the same place are one, so narrow bands have fewer.
    """
    draw = np.random.default_rng(SEED)
    row = np.repeat(np.arange(N), draw.integers(1, 2 * DEGREE, N))
    low = np.maximum(row - BAND, 0) if BAND else np.zeros_like(row)
    high = np.minimum(row + BAND + 1, N) if BAND else np.full_like(row, N)
    return build_sparse(row, draw.integers(low, high), draw.uniform(-1, 1, len(row)), (N, N))


@lru_cache(maxsize=4)
def power_law_graph(N: int, DEGREE: int, SEED: int) -> Sparse:
    """Return an undirected R-MAT graph of N vertices, about DEGREE edges at each, with weights of 1 to 64.

    Every vertex but the first has an edge to an earlier one, so the graph is connected. What is left of the
    N DEGREE / 2 edges follows a power law: few vertices have many, most have few. Vertices are shuffled.
    """
    draw = np.random.default_rng(SEED)
    later = np.arange(1, N)
    here, there = _recursive_edges(draw, N, max(0, N * DEGREE // 2 - len(later)))
    here, there = np.concatenate([later, here]), np.concatenate([draw.integers(0, later), there])
    return _undirected(draw.permutation(N), here, there, draw)


@lru_cache(maxsize=4)
def scattered_graph(N: int, DEGREE: int, SEED: int) -> Sparse:
    """Return an R-MAT graph as `power_law_graph` does, without the edges that connect it: it has many parts."""
    draw = np.random.default_rng(SEED)
    here, there = _recursive_edges(draw, N, N * DEGREE // 2)
    return _undirected(draw.permutation(N), here, there, draw)


def _recursive_edges(draw: np.random.Generator, vertices: int, edges: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ends of R-MAT edges: a quarter of the matrix is chosen, a quarter of that, and so on."""
    scale = max(1, int(vertices - 1).bit_length())
    here, there = np.zeros(edges, np.int64), np.zeros(edges, np.int64)
    for _ in range(scale):
        quarter = np.searchsorted(np.cumsum(QUADRANTS), draw.random(edges), side="right")
        here, there = 2 * here + quarter // 2, 2 * there + quarter % 2
    return here * vertices >> scale, there * vertices >> scale


def _undirected(order: NDArray[Any], here: NDArray[Any], there: NDArray[Any], draw: np.random.Generator) -> Sparse:
    """Return the graph of both directions of the edges, renamed by `order`; no vertex has an edge to itself."""
    here, there = order[here][here != there], order[there][here != there]
    weight = draw.integers(1, 65, len(here))
    one = build_sparse(np.minimum(here, there), np.maximum(here, there), weight, (len(order), len(order)))
    row, column = np.concatenate([one.sources, one.columns]), np.concatenate([one.columns, one.sources])
    return build_sparse(row, column, np.concatenate([one.values, one.values]), (len(order), len(order)))


@lru_cache(maxsize=4)
def prose(N: int, WORDS: int, SEED: int) -> Text:
    """Return N lines of 1 to 2 WORDS - 1 words each; the r-th most frequent word is as likely as 1 / r."""
    draw = np.random.default_rng(SEED)
    return lines_of(b"".join(b" ".join(line) + b"\n" for line in _lines(draw, N, WORDS)))


@lru_cache(maxsize=4)
def pages(N: int, WORDS: int, SEED: int) -> Text:
    """Return N lines of HTML: as `prose`, with a link around about one word in eight."""
    draw = np.random.default_rng(SEED)
    lines = []
    for line in _lines(draw, N, WORDS):
        linked = draw.random(len(line)) < 1 / 8
        words = zip(line, linked, strict=True)
        lines.append(b" ".join(b'<a href="http://%b.org/">%b</a>' % (w, w) if link else w for w, link in words) + b"\n")
    return lines_of(b"".join(lines))


def _lines(draw: np.random.Generator, lines: int, words: int) -> list[list[bytes]]:
    letters = draw.integers(ord("a"), ord("z") + 1, (4096, 12), dtype=np.uint8)
    vocabulary = [bytes(row[:n]) for row, n in zip(letters, draw.integers(2, 13, len(letters)), strict=True)]
    lengths = draw.integers(1, 2 * words, lines)
    shares = np.cumsum(1 / np.arange(1, len(vocabulary) + 1))
    chosen = iter(np.searchsorted(shares, draw.random(lengths.sum()) * shares[-1], side="right").tolist())
    return [[vocabulary[next(chosen)] for _ in range(n)] for n in lengths.tolist()]


def lines_of(characters: bytes) -> Text:
    """Return a text with its lines; the last one need not end."""
    data = np.frombuffer(characters, dtype=np.uint8)
    starts = np.concatenate([[0], np.flatnonzero(data == ord("\n")) + 1])
    if starts[-1] != len(data):
        starts = np.append(starts, len(data))
    return Text(data, starts.astype(np.int32))


# ---- read


def read_matrix(given: Any) -> Sparse:
    """Return a matrix from a Matrix Market file, a ``scipy.sparse`` matrix or a `Sparse`; raises `ConfigError`."""
    import scipy.io  # costs more than everything else here, and is seldom needed
    import scipy.sparse

    if isinstance(given, str | os.PathLike):
        given = _matrix_market(os.fspath(given), scipy.io.mmread)
        given = given if scipy.sparse.issparse(given) else scipy.sparse.coo_array(given)
    matrix = given if isinstance(given, Sparse) else _from_scipy(given, scipy.sparse)
    if not len(matrix.columns):
        raise ConfigError("the matrix has no entries")
    return matrix


def _matrix_market(path: str, read: Callable[[str], Any]) -> Any:
    """Return what `read` makes of a file; raise `ConfigError` with the line of a mistake, if `read` knows it."""
    try:
        with open(path, "rb"):  # `read` would look for other endings, and says less
            pass
        return read(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except MemoryError:
        raise ConfigError(f"{path}: a matrix of the size that it gives does not fit in memory") from None
    except (ValueError, OverflowError, TypeError, EOFError, zlib.error) as error:
        found = re.fullmatch(r"Line (\d+): (.*)", str(error))
        line, what = (f":{found[1]}", found[2]) if found else ("", str(error))
        raise ConfigError(f"{path}{line}: not a Matrix Market file ({what.rstrip('.')})") from None


def _from_scipy(given: Any, module: Any) -> Sparse:
    if not module.issparse(given) or given.ndim != 2:
        raise ConfigError(f"must be a Matrix Market file or a sparse matrix, not {type(given).__name__}")
    if given.dtype.kind not in "biuf":
        raise ConfigError(f"must hold real numbers, not {given.dtype}")
    if max(*given.shape, given.nnz) >= 1 << 31:
        raise ConfigError("rows, columns and entries must be fewer than 2^31")
    try:
        csr = module.csr_array(given, copy=True)
    except MemoryError:
        raise ConfigError(f"{given.shape[0]}x{given.shape[1]}, {given.nnz} entries: do not fit in memory") from None
    csr.sum_duplicates()
    return _frozen(csr.indptr, csr.indices, csr.data, csr.shape[1])


def read_graph(given: Any) -> Sparse:
    """Return a directed graph from its adjacency matrix, which is read as `read_matrix` does."""
    matrix = read_matrix(given)
    if matrix.height != matrix.width:
        raise ConfigError(f"the adjacency matrix of a graph must be square, not {matrix.height}x{matrix.width}")
    return matrix


def read_undirected(given: Any) -> Sparse:
    """Return a graph as `read_graph` does, with both directions of every edge and no edge from a vertex to itself."""
    graph = read_graph(given)
    here, there = graph.sources, graph.columns
    proper = here != there
    if not proper.any():
        raise ConfigError("the graph has no edge between two vertices")
    here, there = here[proper], there[proper]
    row, column = np.concatenate([here, there]), np.concatenate([there, here])
    return build_sparse(row, column, np.tile(graph.values[proper], 2), (graph.height, graph.height))


def read_weighted(given: Any) -> Sparse:
    """Return a graph as `read_graph` does, whose entries are weights: positive whole numbers."""
    graph = read_graph(given)
    weights = graph.values
    if not ((weights > 0) & (weights == np.floor(weights)) & (weights < 1 << 20)).all():
        raise ConfigError("weights must be positive whole numbers below 2^20")
    return graph


def read_text(given: Any) -> Text:
    """Return a text from a file, or from its bytes; raises `ConfigError`."""
    if isinstance(given, str | os.PathLike):
        try:
            given = Path(given).read_bytes()
        except OSError as error:
            raise ConfigError(f"{os.fspath(given)}: {error.strerror}") from None
    if not isinstance(given, bytes):
        raise ConfigError(f"must be a file or bytes, not {type(given).__name__}")
    if not 0 < len(given) < 1 << 31:
        raise ConfigError(f"a text of {len(given)} bytes: must be 1 to 2^31 - 1")
    return lines_of(given)


def _frozen(rows: Any, columns: Any, values: Any, width: int) -> Sparse:
    """Return a matrix whose arrays nobody changes, since it may be shared."""
    matrix = Sparse(np.array(rows, np.int32), np.array(columns, np.int32), np.array(values, np.float32), width)
    for array in (matrix.rows, matrix.columns, matrix.values):
        array.flags.writeable = False
    return matrix
