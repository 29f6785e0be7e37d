"""Sizes for PPCG, checked with isl where it is installed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import ConfigError
from rdmodel.integrations import ppcg
from tests.support.rankings import SIX


def test_sizes_are_written_outermost_first():
    best = {"TI": 16, "TJ": 32, "block": [32, 8], "GY": 4}
    assert ppcg.sizes(best, tile=["TI", "TJ"]) == "{ kernel[0] -> tile[16, 32]; kernel[0] -> block[8, 32] }"
    assert (
        ppcg.sizes(best, tile=["TJ"], block=["TI"], grid=["GY", "GY"], kernel=3)
        == "{ kernel[3] -> tile[32]; kernel[3] -> block[16]; kernel[3] -> grid[4, 4] }"
    )
    assert ppcg.sizes({"T": np.int64(8)}, tile=["T"]) == "{ kernel[0] -> tile[8] }"
    assert ppcg.sizes(SIX, tile=["TI", "TJ"]) == "{ kernel[0] -> tile[32, 32] }"


def test_sizes_of_several_kernels_are_joined():
    first, second = ppcg.sizes({"T": 8}, tile=["T"]), ppcg.sizes({"T": 9, "B": 2}, tile=["T"], block=["B"], kernel=1)
    both = "{ kernel[0] -> tile[8]; kernel[1] -> tile[9]; kernel[1] -> block[2] }"
    assert ppcg.join(first, second) == both
    assert ppcg.join(both) == both


@pytest.mark.parametrize(
    ("best", "options", "named"),
    [
        ({"TI": 8}, {}, "tile, block, grid: name at least one of TI"),
        ({"TI": 8}, {"tile": ["TJ"]}, "unknown size 'TJ'"),
        ({"TI": 8}, {"tile": "TI"}, "must be a list of names"),
        ({"TI": 0}, {"tile": ["TI"]}, "TI=0: must be at least 1"),
        ({"TI": 1.5}, {"tile": ["TI"]}, "TI=1.5: must be a whole number"),
        ({"TI": True}, {"tile": ["TI"]}, "TI=True: must be a whole number"),
        ({"TI": 8}, {"tile": ["TI"], "kernel": -1}, "kernel=-1"),
        ({"T": 8}, {"block": ["T"] * 4}, "block: 4 sizes; PPCG has at most 3"),
        ({"T": 8}, {"grid": ["T"] * 3}, "grid: 3 sizes; PPCG has at most 2"),
    ],
)
def test_sizes_that_ppcg_does_not_have_are_refused(best, options, named):
    with pytest.raises(ConfigError, match=named):
        ppcg.sizes(best, **options)


SIZE = st.integers(1, 1 << 30)


@given(st.lists(SIZE, max_size=5), st.lists(SIZE, max_size=3), st.lists(SIZE, max_size=2), st.integers(0, 99))
def test_isl_reads_the_sizes_that_were_meant(tile, block, grid, kernel):
    islpy = pytest.importorskip("islpy")
    best = {
        f"{space}{n}": size
        for space, all_ in zip("tbg", (tile, block, grid), strict=True)
        for n, size in enumerate(all_)
    }
    if not best:
        return
    named = {s: [f"{s[0]}{n}" for n in range(len(v))] for s, v in (("tile", tile), ("block", block), ("grid", grid))}
    union = islpy.UnionMap(ppcg.sizes(best, **named, kernel=kernel))
    found = {}
    for one in isl_maps(union):
        assert one.domain().is_equal(islpy.Set(f"{{ kernel[{kernel}] }}"))
        sizes = one.range()
        point = sizes.sample_point()
        assert sizes.is_singleton()
        found[sizes.get_tuple_name()] = [
            int(point.get_coordinate_val(islpy.dim_type.set, at).to_python())
            for at in range(sizes.dim(islpy.dim_type.set))
        ]
    assert found == {space: sizes for space, sizes in (("tile", tile), ("block", block), ("grid", grid)) if sizes}


def isl_maps(union):
    maps = []
    union.foreach_map(maps.append)
    return maps
