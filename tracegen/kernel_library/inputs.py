"""Generate or read matrices, graphs and texts for kernels whose addresses depend on data.

Generated data depend only on their sizes and the seed, not on the platform.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rdmodel.common.cancellation import checkpoint
from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.memory import import_library
from rdmodel.common.regular_files import read_bounded_bytes
from rdmodel.errors import ConfigError
from tracegen.kernel_library.registry import Position
from tracegen.matrix_market import read_matrix_market

MAX_TEXT_BYTES = (1 << 31) - 1
"""Largest text: kernels index it with 32-bit integers."""

SEED = Position(0, below=1 << 31)
"""Declaration of the seed of generated data."""

QUADRANTS = (0.57, 0.19, 0.19)
"""Probabilities of an edge for three quadrants of the matrix of a power-law graph, at every scale (Graph500)."""


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """A sparse matrix in CSR form, or the directed graph that has it as its adjacency matrix.

    Row i has the entries ``rows[i]:rows[i + 1]`` of `columns` (ascending) and `values`. `width` is the number of
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
    """A text: its `characters`, and the `starts` of its lines, followed by the end of the text."""

    characters: NDArray[np.uint8]
    starts: NDArray[np.int32]

    def __str__(self) -> str:
        return f"{len(self.starts) - 1} lines, {len(self.characters)} bytes"


# ---- generated: the memory that generation and a kernel's use of the data take at most, then the data


def need_of_matrix(N: int, DEGREE: int) -> int:
    """Return the bytes for `band_matrix`."""
    return 100 * N * DEGREE + 64 * N


def need_of_graph(N: int, DEGREE: int) -> int:
    """Return the bytes for `power_law_graph` and `scattered_graph`."""
    return 100 * N * DEGREE + 64 * N


def need_of_text(N: int, WORDS: int) -> int:
    """Return the bytes for `prose`."""
    return 80 * N * WORDS + 100 * N


def need_of_pages(N: int, WORDS: int) -> int:
    """Return the bytes for `pages`."""
    return 80 * N * WORDS + 100 * N


def build_sparse(row: NDArray[Any], column: NDArray[Any], value: NDArray[Any], shape: tuple[int, int]) -> Sparse:
    """Build a matrix from its entries; the first of several entries at one place counts."""
    checkpoint()
    place, first = np.unique(row.astype(np.int64) * shape[1] + column, return_index=True)
    checkpoint()
    rows = np.searchsorted(place, np.arange(shape[0] + 1, dtype=np.int64) * shape[1])
    return _frozen(rows, place % shape[1], value[first], shape[1])


@lru_cache(maxsize=4)
def band_matrix(N: int, DEGREE: int, BAND: int, SEED: int) -> Sparse:
    """Generate an N x N matrix with rows of 1 to 2 DEGREE - 1 entries, at most BAND from the diagonal (0: anywhere).

    Entries at the same place are merged, so narrow bands have fewer.
    """
    draw = np.random.default_rng(SEED)
    row = np.repeat(np.arange(N), draw.integers(1, 2 * DEGREE, N))
    low = np.maximum(row - BAND, 0) if BAND else np.zeros_like(row)
    high = np.minimum(row + BAND + 1, N) if BAND else np.full_like(row, N)
    return build_sparse(row, draw.integers(low, high), draw.uniform(-1, 1, len(row)), (N, N))


@lru_cache(maxsize=4)
def power_law_graph(N: int, DEGREE: int, SEED: int) -> Sparse:
    """Generate an undirected R-MAT graph of N vertices with about DEGREE edges each, and weights of 1 to 64.

    Every vertex but the first has an edge to an earlier one, so the graph is connected. The rest of the N DEGREE / 2
    edges follow a power law: few vertices have many, most have few. Vertices are shuffled.
    """
    draw = np.random.default_rng(SEED)
    later = np.arange(1, N)
    here, there = _recursive_edges(draw, N, max(0, N * DEGREE // 2 - len(later)))
    here, there = np.concatenate([later, here]), np.concatenate([draw.integers(0, later), there])
    return _undirected(draw.permutation(N), here, there, draw)


@lru_cache(maxsize=4)
def scattered_graph(N: int, DEGREE: int, SEED: int) -> Sparse:
    """Generate a graph as `power_law_graph` does, without the connecting edges, so that it has many components."""
    draw = np.random.default_rng(SEED)
    here, there = _recursive_edges(draw, N, N * DEGREE // 2)
    return _undirected(draw.permutation(N), here, there, draw)


def _recursive_edges(draw: np.random.Generator, vertices: int, edges: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return both ends of R-MAT edges, whose places result from choosing quadrants of the matrix recursively."""
    scale = max(1, int(vertices - 1).bit_length())
    here, there = np.zeros(edges, np.int64), np.zeros(edges, np.int64)
    for _ in range(scale):
        checkpoint()
        quarter = np.searchsorted(np.cumsum(QUADRANTS), draw.random(edges), side="right")
        here, there = 2 * here + quarter // 2, 2 * there + quarter % 2
    return here * vertices >> scale, there * vertices >> scale


def _undirected(order: NDArray[Any], here: NDArray[Any], there: NDArray[Any], draw: np.random.Generator) -> Sparse:
    """Return the graph with both directions of the edges, renamed by `order`, without loops at a vertex."""
    here, there = order[here][here != there], order[there][here != there]
    weight = draw.integers(1, 65, len(here))
    edges = build_sparse(np.minimum(here, there), np.maximum(here, there), weight, (len(order), len(order)))
    row, column = np.concatenate([edges.sources, edges.columns]), np.concatenate([edges.columns, edges.sources])
    return build_sparse(row, column, np.concatenate([edges.values, edges.values]), (len(order), len(order)))


@lru_cache(maxsize=4)
def prose(N: int, WORDS: int, SEED: int) -> Text:
    """Generate N lines of 1 to 2 WORDS - 1 words; the r-th most frequent word has a share in proportion to 1 / r."""
    draw = np.random.default_rng(SEED)
    return lines_of(b"".join(b" ".join(line) + b"\n" for line in _lines(draw, N, WORDS)))


@lru_cache(maxsize=4)
def pages(N: int, WORDS: int, SEED: int) -> Text:
    """Generate N lines of HTML as `prose`, with a link around about one word in eight."""
    draw = np.random.default_rng(SEED)
    lines = []
    for line in _lines(draw, N, WORDS):
        checkpoint()
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
    made = []
    for at, n in enumerate(lengths.tolist()):
        if at % 1024 == 0:
            checkpoint()
        made.append([vocabulary[next(chosen)] for _ in range(n)])
    return made


def lines_of(characters: bytes) -> Text:
    """Split a text into lines; the last one may lack a line break."""
    if not 0 < len(characters) <= MAX_TEXT_BYTES:
        raise ConfigError(f"a text of {len(characters)} bytes: must be 1 to 2^31 - 1")
    data = np.frombuffer(characters, dtype=np.uint8)
    starts = np.concatenate([[0], np.flatnonzero(data == ord("\n")) + 1])
    if starts[-1] != len(data):
        starts = np.append(starts, len(data))
    return Text(data, starts.astype(np.int32))


# ---- read


def read_matrix(given: Any) -> Sparse:
    """Read a matrix from a Matrix Market file, a ``scipy.sparse`` matrix or a `Sparse`; raises `ConfigError`."""
    read = read_matrix_market(given, ConfigError) if isinstance(given, str | os.PathLike) else None
    sparse = import_library("scipy.sparse")  # slow to import and rarely needed
    if read is not None:
        given = sparse.coo_array((read.values, (read.rows, read.columns)), shape=read.shape)
    matrix = given if isinstance(given, Sparse) else _from_scipy(given, sparse)
    if not len(matrix.columns):
        raise ConfigError("a matrix must have at least one entry")
    return matrix


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
    """Read a directed graph from its adjacency matrix, as `read_matrix` does."""
    matrix = read_matrix(given)
    if matrix.height != matrix.width:
        raise ConfigError(f"the adjacency matrix of a graph must be square, not {matrix.height}x{matrix.width}")
    return matrix


def read_undirected(given: Any) -> Sparse:
    """Read a graph as `read_graph` does, with both directions of every edge and without loops at a vertex."""
    graph = read_graph(given)
    here, there = graph.sources, graph.columns
    proper = here != there
    if not proper.any():
        raise ConfigError("a graph must have an edge between two vertices")
    here, there = here[proper], there[proper]
    row, column = np.concatenate([here, there]), np.concatenate([there, here])
    return build_sparse(row, column, np.tile(graph.values[proper], 2), (graph.height, graph.height))


def read_weighted(given: Any) -> Sparse:
    """Read a graph as `read_graph` does, with positive whole numbers as weights."""
    graph = read_graph(given)
    weights = graph.values
    if not ((weights > 0) & (weights == np.floor(weights)) & (weights < 1 << 20)).all():
        raise ConfigError("weights must be positive whole numbers below 2^20")
    return graph


def read_text(given: Any) -> Text:
    """Read a text from a file, or from bytes; raises `ConfigError`."""
    if isinstance(given, str | os.PathLike):
        given = read_bounded_bytes(given, MAX_TEXT_BYTES, ConfigError)
    if not isinstance(given, bytes):
        raise ConfigError(f"must be a file or bytes, not {type(given).__name__}")
    return lines_of(given)


def _frozen(rows: Any, columns: Any, values: Any, width: int) -> Sparse:
    """Return a matrix with read-only arrays, because it may be shared."""
    with np.errstate(over="ignore", invalid="ignore"):  # a number beyond float32 becomes infinite
        matrix = Sparse(np.array(rows, np.int32), np.array(columns, np.int32), np.array(values, np.float32), width)
    for array in (matrix.rows, matrix.columns, matrix.values):
        array.flags.writeable = False
    return matrix
