"""Loads of loop nests with cache operators."""

from __future__ import annotations

import pytest

import tracegen
from rdmodel.errors import TraceError
from rdmodel.trace.expansion import expand
from tracegen.affine.json_form import from_json, to_json
from tracegen.affine.statements import Store

NEST = {
    "name": "k",
    "parameters": {"N": 64},
    "arrays": {"A": ["N", "N"], "B": ["N"]},
    "threads": ["N"],
    "block": [32],
    "body": [
        {"for": "i", "from": 0, "to": 3, "do": [
            {"for": "j", "from": 0, "to": "N", "do": [
                {"load": "A", "at": ["j", "x"], "cache": "cg"},
                {"load": "B", "at": ["j"]},
            ]},
            {"load": "B", "at": ["i"], "cache": "nc.evict_last"},
        ]},
        {"store": "B", "at": ["x"]},
    ],
}  # fmt: skip


def test_the_loads_that_have_an_operator_are_marked_in_all_loops():
    trace = tracegen.affine_kernel(from_json(NEST))
    columns = expand(trace.block(0), 1)
    assert columns.cache_op.tolist() == ([2, 0] * 64 + [16 + 9]) * 3 + [0]
    assert trace.may_have_cache_ops


def test_a_nest_with_operators_keeps_them_as_json():
    assert to_json(from_json(NEST))["body"] == NEST["body"]


def test_a_nest_without_operators_has_no_column():
    plain = {**NEST, "body": [{"load": "B", "at": ["x"]}, {"store": "B", "at": ["x"]}]}
    trace = tracegen.affine_kernel(from_json(plain))
    assert all(segment.cache_op is None for segment in trace.block(0))
    assert not trace.may_have_cache_ops


def test_unknown_operators_and_operators_of_stores_are_refused():
    with pytest.raises(TraceError, match=r"^body\[0\]: load of B: cache='wt': must be one of ca, cg"):
        from_json({**NEST, "body": [{"load": "B", "at": ["x"], "cache": "wt"}]})
    with pytest.raises(TraceError, match=r"^body\[0\]: unknown field of store 'cache'"):
        from_json({**NEST, "body": [{"store": "B", "at": ["x"], "cache": "cg"}]})
    with pytest.raises(TraceError, match=r"^store of B: cache='cg': only a load has a cache operator$"):
        Store("B", "x", "cg")
