"""Rules by which loads look into the L1: memory space, cache operator and default operator."""

from __future__ import annotations

import pytest

from rdmodel import presets
from rdmodel.gpu.config import replace
from rdmodel.gpu.served_loads import bypass_table, bypasses_l1, looks_into_l1, serves_all_loads
from rdmodel.trace import Space
from rdmodel.trace.cache_ops import CACHE_OP_NAMES, CACHE_OPS, parse_cache_op
from tests.support.builders import BUSY, make_gpu

PAST = {"cg", "cv", "volatile", "no_allocate", "async.cg", "bulk", "nc.cg", "nc.no_allocate"}


@pytest.mark.parametrize("name", CACHE_OP_NAMES.values())
@pytest.mark.parametrize("space", [Space.GLOBAL, Space.LOCAL])
def test_an_l1_that_serves_all_loads_serves_those_whose_operator_does_not_lead_past_it(name, space):
    l1 = replace(make_gpu().l1, sector=32)
    assert looks_into_l1(l1, space, parse_cache_op(name)) == (name not in PAST)


def test_an_l1_is_the_texture_cache_if_it_has_sectors_and_serves_read_only_loads():
    sectored = replace(make_gpu().l1, sector=32)
    for l1, served in ((sectored, True), (replace(sectored, caches=("global",)), False), (make_gpu().l1, False)):
        assert looks_into_l1(l1, Space.GLOBAL, parse_cache_op("tex")) == served


@pytest.mark.parametrize(
    ("caches", "dlcm", "served"),
    [
        (("nc",), None, {"nc", "ca"}),
        (("nc",), "ca", {"nc", "ca", "global"}),
        (("nc",), "cs", {"nc", "ca"}),
        (("local",), None, {"local", "ca"}),
        (("local", "nc"), "cg", {"local", "nc", "ca"}),
        (("global", "local", "nc"), "cv", {"local", "nc", "ca", "cs"}),
        (("global", "local", "nc"), "ca", {"global", "local", "nc", "ca", "cs"}),
        ((), None, {"ca"}),
    ],
)
def test_the_default_operator_is_that_of_global_loads_without_one(caches, dlcm, served):
    l1 = replace(make_gpu().l1, caches=caches, dlcm=dlcm)
    loads = {"global": (Space.GLOBAL, None), "local": (Space.LOCAL, None)}
    loads |= {name: (Space.GLOBAL, name) for name in ("ca", "cs", "nc")}
    assert {load for load, (space, name) in loads.items() if looks_into_l1(l1, space, parse_cache_op(name))} == served


def test_the_table_has_every_space_and_operator():
    table = bypass_table(presets.gpu("titan-x-maxwell").l1)
    assert table[Space.GLOBAL * CACHE_OPS] == 1
    assert table[Space.GLOBAL * CACHE_OPS + parse_cache_op("nc")] == 0
    assert table[Space.LOCAL * CACHE_OPS] == 1
    assert len(table) == len(Space) * CACHE_OPS


def test_traces_without_operators_bypass_nothing_on_machines_that_serve_all_loads():
    assert not bypasses_l1(make_gpu().l1, BUSY)
    assert bypasses_l1(replace(make_gpu().l1, dlcm="cg"), BUSY)
    assert bypasses_l1(presets.gpu("titan-x-pascal").l1, BUSY)
    assert serves_all_loads(presets.gpu("a100").l1) and not serves_all_loads(presets.gpu("titan-x-pascal").l1)
