"""Test inputs of kernels: the shape of generated data, and data of the user, which are read or refused."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csgraph

import tracegen
from rdmodel.errors import ConfigError
from tests.support.examples import examples
from tests.support.scalar_kernels import GRAPH, MATRIX, PROSE, matrix_of
from tracegen.kernel_library import inputs, labelling, mapreduce
from tracegen.kernel_library import sparse as products
from tracegen.kernel_library.registry import declared_spec


def test_generated_inputs_are_the_same_every_time_and_differ_by_seed():
    for make in (inputs.power_law_graph, inputs.scattered_graph):
        one, again, other = make(200, 6, 1), make.__wrapped__(200, 6, 1), make(200, 6, 2)
        np.testing.assert_array_equal(one.columns, again.columns)
        assert one.columns.tolist() != other.columns.tolist()
    assert inputs.prose.__wrapped__(20, 5, 1).characters.tolist() == inputs.prose(20, 5, 1).characters.tolist()


def test_power_law_graphs_are_connected_undirected_and_have_hubs():
    graph = inputs.power_law_graph(3000, 8, 0)
    matrix, degrees = matrix_of(graph), np.diff(graph.rows)
    assert csgraph.connected_components(matrix)[0] == 1
    assert (matrix != matrix.T).nnz == 0
    assert not matrix.diagonal().any()
    assert 5 < degrees.mean() <= 8
    assert degrees.max() > 20 * degrees.mean()
    assert graph.values.min() >= 1 and graph.values.max() <= 64


def test_bands_keep_columns_near_the_diagonal():
    matrix = inputs.band_matrix(500, 8, 12, 0)
    assert abs(matrix.sources - matrix.columns).max() <= 12
    assert np.diff(matrix.rows).min() >= 1
    for first, last in pairwise(matrix.rows.tolist()):
        assert sorted(set(matrix.columns[first:last].tolist())) == matrix.columns[first:last].tolist()


def test_a_matrix_comes_from_a_file_or_from_scipy(tmp_path):
    given = scipy.sparse.random_array((40, 60), density=0.1, rng=np.random.default_rng(1), format="coo")
    scipy.io.mmwrite(tmp_path / "a.mtx", given, precision=17)
    by_file, by_value = (tracegen.kernel("spmv", matrix=what) for what in (tmp_path / "a.mtx", given))
    np.testing.assert_array_equal(by_file.columns.addresses, by_value.columns.addresses)
    assert by_file.params == {"matrix": "a.mtx"}
    assert by_value.params == {"matrix": "40x60, 240 entries"}
    y = declared_spec("spmv").result(matrix=str(tmp_path / "a.mtx"))["y"]
    np.testing.assert_allclose(y, given @ products.vector(60), rtol=1e-4, atol=1e-5)


def test_a_text_comes_from_a_file(tmp_path):
    (tmp_path / "text.txt").write_bytes(PROSE)
    trace = tracegen.kernel("wc", text=tmp_path / "text.txt")
    assert trace.params == {"text": "text.txt"}
    assert len(trace) == len(tracegen.kernel("wc", text=PROSE))


@examples(200)
@given(st.lists(st.sampled_from(['href="', 'x"', "href=", '"', "\n", "a"]), max_size=30).map("".join))
def test_links_are_those_of_a_regular_expression(text):
    characters = np.frombuffer(text.encode(), np.uint8)
    starts, lengths = mapreduce.find_links(inputs.Text(characters, np.array([0, len(text)], np.int32)))
    spans = [match.span(1) for match in re.finditer('href="([^"\n]*)"', text)]
    assert list(zip(starts.tolist(), (starts + lengths).tolist(), strict=True)) == spans


def test_a_directed_graph_is_coloured_as_an_undirected_one():
    given = scipy.sparse.coo_array(([1.0, 1, 1], ([0, 1, 2], [1, 1, 0])), shape=(3, 3))
    colour, _ = labelling.colours(inputs.read_undirected(given), 9)
    assert colour[0] not in (colour[1], colour[2])
    assert declared_spec("cc.1").inputs == ["graph"]


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("spmv", {"matrix": "missing.mtx"}, "spmv: matrix: missing.mtx: No such file"),
        ("spmv", {"matrix": [[1]]}, "must be a Matrix Market file or a sparse matrix, not list"),
        ("spmv", {"matrix": scipy.sparse.csr_array((3, 3))}, "a matrix must have at least one entry"),
        ("spmv", {"matrix": scipy.sparse.eye_array(3, dtype=complex)}, "must hold real numbers"),
        ("spmv", {"matrix": MATRIX, "N": 5}, "spmv: N: cannot be combined with matrix: it describes generated data"),
        ("spmv", {"matrx": MATRIX}, "unknown size of spmv 'matrx'; did you mean 'matrix'"),
        ("bfs.1", {"graph": scipy.sparse.eye_array(3, 4)}, "must be square, not 3x4"),
        ("bfs.1", {"graph": GRAPH, "LEVEL": 50}, "LEVEL=50: the search from vertex 0 ends with level"),
        ("bfs.2", {"graph": GRAPH, "SOURCE": 70}, "SOURCE=70: the graph has vertices 0 to 69"),
        ("sssp", {"graph": GRAPH, "SOURCE": 70}, "SOURCE=70: the graph has vertices 0 to 69"),
        ("sssp", {"graph": MATRIX}, "weights must be positive whole numbers"),
        ("color.1", {"graph": scipy.sparse.eye_array(3)}, "must have an edge between two vertices"),
        ("wc", {"text": 5}, "wc: text: must be a file or bytes, not int"),
        ("wc", {"text": b""}, "a text of 0 bytes"),
        ("iix", {"text": "missing.txt"}, "iix: text: missing.txt: No such file"),
    ],
)
def test_what_cannot_be_read_is_refused(name, params, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        tracegen.kernel(name, **params)


def test_a_kernel_that_computes_nothing_has_no_result():
    with pytest.raises(ConfigError, match=re.escape("atax.1: has no computed result, only a trace")):
        declared_spec("atax.1").result()
