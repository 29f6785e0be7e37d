"""Test kernels whose addresses depend on data: accesses of every thread, results, and accesses of compiled code."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from scipy.sparse import csgraph

import tracegen
from tests.support.scalar_kernels import CASES, FAR, accesses_by_thread, hash_of, matrix_of
from tracegen import cuda
from tracegen.cuda import nvrtc, sources
from tracegen.kernel_library import inputs, labelling, traversal, trees
from tracegen.kernel_library import sparse as products
from tracegen.kernel_library.registry import declared_spec


@pytest.fixture(scope="module", params=CASES, ids=[f"{name}-{i}" for i, (name, _, _) in enumerate(CASES)])
def case(request):
    """Return a trace, the accesses of the scalar version by thread, its results, and the results of the kernel."""
    name, scalar, params = request.param
    trace = tracegen.kernel(name, **params)
    results = declared_spec(name).result(**params)
    out = {array: np.zeros(value.shape, np.float64) for array, value in results.items()}
    for array in ("cost", "answers"):
        if array in out:
            out[array][:] = -1
    accesses = {t: list(scalar(t, out, **params)) for t in range(trace.launch.threads)}
    return trace, accesses, out, results


def test_every_thread_makes_the_accesses_of_its_restatement_in_order(case):
    trace, accesses, _, _ = case
    found = accesses_by_thread(trace)
    for thread, wanted in accesses.items():
        assert found[thread] == wanted, thread


def test_results_are_those_of_the_restatement(case):
    _, _, out, results = case
    for array, value in results.items():
        np.testing.assert_allclose(value, out[array], rtol=1e-5, atol=1e-6, err_msg=array)


# ---- all launches together do what the algorithm is for


def test_the_product_is_scipys():
    matrix = inputs.band_matrix(2000, 16, 0, 0)
    y = declared_spec("spmv").result(matrix=matrix_of(matrix))["y"]
    np.testing.assert_allclose(y, matrix_of(matrix) @ products.vector(2000), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("source", [0, 17])
def test_levels_and_distances_are_scipys(source):
    for graph in (inputs.power_law_graph(800, 6, 1), inputs.scattered_graph(800, 2, 1)):
        level = csgraph.shortest_path(matrix_of(graph), unweighted=True, indices=source)
        np.testing.assert_array_equal(traversal.search_levels(graph, source), np.where(np.isinf(level), -1, level))
        far = csgraph.dijkstra(matrix_of(graph), indices=source)
        np.testing.assert_array_equal(traversal.shortest_distances(graph, source), np.where(np.isinf(far), FAR, far))


def test_components_are_scipys():
    graph = inputs.scattered_graph(1500, 2, 4)
    parts, label = csgraph.connected_components(matrix_of(graph), directed=False)
    roots = labelling.parents(graph)
    assert parts == len(set(roots.tolist())) == len(set(zip(label.tolist(), roots.tolist(), strict=True))) > 100


def test_neighbours_get_different_colours():
    graph = inputs.power_law_graph(1500, 8, 4)
    colour, _ = labelling.colours(graph, 1500)
    assert colour.min() == 0
    assert (colour[graph.sources] != colour[graph.columns]).all()


def test_words_are_counted_as_python_counts_them():
    text = inputs.prose(300, 9, 5)
    results = declared_spec("wc").result(text=text.characters.tobytes())
    wanted = Counter(hash_of(word) for word in text.characters.tobytes().split())
    assert Counter(results["hashes"].tolist()) == wanted
    counts = declared_spec("wc.count").result(N=300, WORDS=9, SEED=5)["counts"]
    assert counts.tolist() == [len(line.split()) for line in text.characters.tobytes().splitlines()]


def test_links_are_indexed_by_their_lines():
    text = inputs.pages(200, 8, 5)
    results = declared_spec("iix").result(N=200, SEED=5)
    wanted = [
        (hash_of(address), line)
        for line, html in enumerate(text.characters.tobytes().splitlines())
        for address in re.findall(rb'href="(.*?)"', html)
    ]
    assert list(zip(results["hashes"].tolist(), results["lines"].tolist(), strict=True)) == wanted
    assert len(wanted) > 100


def test_queries_find_the_record_of_their_key():
    found = declared_spec("btree").result(N=5000, M=300)["answers"]
    keys, wanted = trees.stored_keys(5000, 0), trees.queries(5000, 300, 0)
    assert (found >= 0).tolist() == np.isin(wanted, keys).tolist()
    np.testing.assert_array_equal(keys[found[found >= 0]], wanted[found >= 0])
    assert 60 < np.count_nonzero(found >= 0) < 240


# ---- compiled code accesses the same, and computes the same

SEARCH = """
struct Node { int start; int degree; };
extern "C" __global__ void look(Node *nodes, int *edges, bool *mask, bool *updating, bool *visited, int *cost, int n) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v < n && mask[v]) {
    mask[v] = false;
    #pragma unroll 1
    for (int e = nodes[v].start; e < nodes[v].degree + nodes[v].start; ++e) {
      const int w = edges[e];
      if (!visited[w]) {
        cost[w] = cost[v] + 1;
        updating[w] = true;
      }
    }
  }
}
extern "C" __global__ void highest(const int *rows, const int *columns, const int *priority, const int *colour,
                                   int *highest, int n) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v < n && colour[v] < 0) {
    int best = -1;
    #pragma unroll 1
    for (int e = rows[v]; e < rows[v + 1]; ++e) {
      const int w = columns[e];
      if (colour[w] < 0) {
        best = max(best, priority[w]);
      }
    }
    highest[v] = best;
  }
}
"""


@pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")
@pytest.mark.parametrize(
    ("name", "source", "kernel", "params"),
    [
        ("spmv", None, "spmv_thread", {"N": 300, "DEGREE": 6}),
        ("spmv.warp", None, "spmv_warp", {"N": 60, "DEGREE": 40}),
        ("bfs.1", SEARCH, "look", {"N": 300, "LEVEL": 3}),
        ("color.1", SEARCH, "highest", {"N": 300, "ROUND": 1}),
    ],
)
def test_compiled_code_makes_the_same_accesses_and_leaves_the_same_results(name, source, kernel, params):
    unroll = 1 if source else None  # as the source says
    model, results = tracegen.kernel(name, unroll=unroll, **params), declared_spec(name).result(**params)
    arrays = {k: v for k, v in declared_by(name, params).items() if k not in ("changed", "over")}
    data = [v.copy() if isinstance(v, np.ndarray) else np.zeros(v, np.float32) for v in arrays.values()]
    height = len(data[0]) - (name != "bfs.1")
    trace = cuda.trace(
        source or sources.source_path("spmv"),
        kernel,
        model.launch.grid,
        model.launch.block,
        [*data, height],
        check=True,
        base=model.launch.arrays[0].base,
    )
    for array, value in zip(arrays, data, strict=True):
        if array in results:
            np.testing.assert_allclose(value, results[array], rtol=1e-4, atol=1e-5)
    assert accesses_by_thread(trace, model.launch.arrays) == accesses_by_thread(model)
    if source:  # elsewhere loops are unrolled, so threads of a warp part that load together here
        for field in ("op", "mask", "needs", "addresses", "warp_start"):
            np.testing.assert_array_equal(getattr(trace.columns, field), getattr(model.columns, field), err_msg=field)


def declared_by(name, params):
    benchmark = declared_spec(name).benchmark
    sizes = benchmark.resolve(name, params)
    ((what, data),) = benchmark.inputs.items()
    known = {what: data.generate(**{size: sizes[size] for size in data.sizes}), **sizes}
    wanted = benchmark.arrays.__code__.co_varnames[: benchmark.arrays.__code__.co_argcount]
    return benchmark.arrays(**{size: known[size] for size in wanted})
