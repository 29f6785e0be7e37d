"""Compare the wavefronts of shared memory with a count bank by bank."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.trace.banks import count_wavefronts
from tests.support.examples import examples
from tests.support.naive_banks import naive_wavefronts

PLACES = st.one_of(
    st.builds(lambda base, step: [base + lane * step for lane in range(32)], st.integers(0, 40), st.integers(0, 140)),
    st.builds(lambda base, by: [base + 4 * (lane ^ by) for lane in range(32)], st.integers(0, 40), st.integers(0, 31)),
    st.builds(
        lambda base, step, by: [base + step * (lane & ~by) for lane in range(32)],
        st.integers(0, 40),
        st.integers(0, 140),
        st.sampled_from([1, 2, 3, 4, 15, 31]),
    ),
    st.lists(st.integers(0, 600), min_size=32, max_size=32),
    st.lists(st.integers(0, 40).map(lambda word: 128 * word), min_size=32, max_size=32),
)


@given(PLACES, st.integers(0, 0xFFFFFFFF), st.sampled_from([1, 2, 4, 8, 16]), st.booleans(), st.booleans())
@examples(400)
def test_wavefronts_agree_with_a_count_bank_by_bank(places, mask, size, atomic, aligned):
    places = [place // size * size if aligned else place for place in places]
    active = {lane: places[lane] for lane in range(32) if mask >> lane & 1}
    found = count_wavefronts(np.array([places]), np.array([mask], np.uint32), size, atomic)
    assert tuple(found[0].tolist()) == naive_wavefronts(active, size, atomic)


def test_many_instructions_are_counted_in_one_call():
    # A row, a column of 32 words per row, a column of half-warp pairs of 8 bytes, and no lane at all.
    lanes = np.arange(32)
    addresses = np.array([4 * lanes, 128 * lanes, 256 * lanes, lanes])
    masks = np.array([0xFFFFFFFF] * 3 + [0], np.uint32)
    assert count_wavefronts(addresses, masks, [4, 4, 8, 4]).tolist() == [[1, 1], [32, 1], [32, 2], [0, 0]]


def test_a_wide_load_that_lanes_share_in_pairs_takes_half_the_wavefronts():
    lanes = np.arange(32)
    all_lanes = np.array([0xFFFFFFFF], np.uint32)
    for places, size, wavefronts in (
        (0 * lanes, 16, 2),
        (0 * lanes, 8, 1),
        (16 * (lanes // 2), 16, 2),
        (16 * (lanes & ~2), 16, 4),  # two distant pairs per quarter: half a warp uses each bank twice
        (8 * (lanes // 2), 8, 1),
        (16 * (lanes % 16), 16, 4),  # the halves agree, but neighbours do not
    ):
        assert count_wavefronts(places[None], all_lanes, size)[0, 0] == wavefronts
