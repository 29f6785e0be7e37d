"""Addresses and bounds of the elements that an instruction accesses, against plain numbers of Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracegen.arrays import Place, allocate

INDEX = st.one_of(st.integers(-3, 12), st.sampled_from([-(1 << 62), 1 << 62, (1 << 63) - 1]))
LANES = (2, 3)


@st.composite
def places(draw: st.DrawFn) -> Place:
    """Return a place in an array of one to three dimensions; an index is a number, or has any shape of a batch."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    array = allocate({"A": shape}, base=256, threads=6)["A"]
    bases = []
    for _ in range(draw(st.sampled_from([1, len(shape)]))):
        kind = draw(st.sampled_from([(), LANES, LANES, (2, 1), (3,)]))
        numbers = draw(st.lists(INDEX, min_size=int(np.prod(kind)), max_size=int(np.prod(kind))))
        bases.append(np.array(numbers, np.int64).reshape(kind) if kind else draw(INDEX))
    return Place(array, bases, [0] * len(bases))


@given(places())
def test_the_address_and_the_bounds_are_those_of_every_lane_on_its_own(place):
    address, inside = place.locate(LANES)
    extents = place.array.shape if len(place.bases) > 1 else (place.array.elements,)
    columns = [np.broadcast_to(base, LANES).ravel().tolist() for base in place.bases]
    rows = list(zip(*columns, strict=True))
    assert inside == all(0 <= i < extent for row in rows for i, extent in zip(row, extents, strict=True))
    if inside:
        expected = [place.array.base + 4 * int(np.ravel_multi_index(row, extents)) for row in rows]
        assert np.broadcast_to(address, LANES).ravel().tolist() == expected


@given(places())
def test_indices_that_are_all_inside_are_those_of_which_no_lane_is_outside(place):
    _, inside = place.locate(LANES)
    assert inside == (place.outside(np.ones(LANES, np.bool_)) is None)
