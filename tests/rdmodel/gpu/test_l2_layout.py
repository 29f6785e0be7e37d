"""The L2's hash spreads lines evenly, and places those of a slice one behind the other in its DRAM."""

from __future__ import annotations

from collections import Counter

import pytest

from rdmodel.gpu.l2_layout import L2Layout

SHAPES = [(1, 1), (1, 8), (3, 4), (6, 64), (8, 2), (5, 12), (80, 16), (44, 3), (7, 9)]


@pytest.mark.parametrize(("slices", "sets"), SHAPES)
@pytest.mark.parametrize("hashed", [False, True])
def test_every_set_gets_as_many_lines_and_no_two_share_a_place_in_dram(slices, sets, hashed):
    layout = L2Layout(slices, sets, hashed)
    lines = range(5 * slices * sets)
    places = Counter((layout.slice_of(line), layout.set_of(line)) for line in lines)
    assert len(places) == slices * sets
    assert set(places.values()) == {5}
    assert len({(layout.slice_of(line), layout.number_of(line)) for line in lines}) == len(lines)


@pytest.mark.parametrize(("slices", "sets"), SHAPES)
def test_without_a_hash_lines_are_dealt_in_turn(slices, sets):
    layout = L2Layout(slices, sets, hashed=False)
    for line in range(0, 4 * slices * sets, 3):
        place = (layout.slice_of(line), layout.set_of(line), layout.number_of(line))
        assert place == (line % slices, line // slices % sets, line // slices)


@pytest.mark.parametrize("stride", [64, 80, 1024, 4096, 20480])
def test_the_hash_spreads_large_strides_over_the_slices(stride):
    layout = L2Layout(64, 32, hashed=True)
    used = {layout.slice_of(stride * i) for i in range(64 * 64)}
    assert len(used) > 16
    assert len({stride * i % 64 for i in range(64 * 64)}) <= len(used)
