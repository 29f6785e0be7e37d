"""Masks of lanes: packed bits, active warps and active blocks, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tracegen.simt.scoreboard import Mask
from tracegen.simt.symbolic import NO_SOURCES


@pytest.mark.parametrize("shape", [(32,), (96,), (1, 64), (3, 64), (40, 32)])
@pytest.mark.parametrize("share", [0, 0.01, 0.5, 1])
def test_a_mask_packs_its_lanes_and_knows_the_blocks_that_have_one(shape, share):
    lanes = np.random.default_rng(len(shape)).random(shape) < share
    mask = Mask(lanes, NO_SOURCES)
    assert mask.bits.tolist() == np.packbits(lanes, bitorder="little").view("<u4").tolist()
    assert mask.run.tolist() == lanes.reshape(-1, 32).any(axis=1).tolist()
    assert mask.any == lanes.any()
    blocks = np.atleast_2d(lanes).any(axis=1)
    if blocks.all() or not blocks.any():
        assert mask.present is None
    else:
        assert mask.present is not None and mask.present.tolist() == blocks.tolist()


def test_a_mask_of_lanes_that_are_not_contiguous_packs_the_same_bits():
    lanes = np.arange(128) % 5 == 0
    assert Mask(lanes[::2], NO_SOURCES).bits.tolist() == Mask(lanes[::2].copy(), NO_SOURCES).bits.tolist()
