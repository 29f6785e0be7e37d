"""Reuse distances of a kernel's lines, its warps taking turns: what `rdmodel mrc` shows, of all lines or a sample."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from rdmodel.errors import ConfigError
from rdmodel.reuse._shards import Shards
from rdmodel.reuse.sampled import SampledHistogram

HASHES = 1 << 53
"""A line's hash is one of so many."""


def check_sample(sample: Any) -> float:
    """Return a rate; raise `ConfigError` unless it is a number above 0 and at most 1."""
    if isinstance(sample, bool) or not isinstance(sample, int | float) or not isfinite(sample) or not 0 < sample <= 1:
        raise ConfigError(f"sample={sample!r}: must be a number above 0 and at most 1")
    return float(sample)


def shards(rate: float, seed: int) -> Shards:
    """Return what follows the lines of a sample of that rate, chosen by the seed."""
    salt = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
    return Shards(max(1, round(rate * HASHES)), salt)


def sampled_histogram(found: Sequence[Shards], rate: float) -> SampledHistogram:
    """Return the distances of streams that were sampled each by itself, together."""
    counted = [one.counts() for one in found]
    counts = np.zeros((max(len(finite) for finite, _ in counted), len(counted[0][1])), np.int64)
    for finite, _ in counted:
        counts[: len(finite)] += finite
    return SampledHistogram(
        rate=rate,
        total=sum(one.total for one in found),
        lines=sum(one.distinct for one in found),
        counts=counts,
        infinite=np.sum([infinite for _, infinite in counted], axis=0),
    )
