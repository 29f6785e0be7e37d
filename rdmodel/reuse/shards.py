"""Sample the lines of a stream by their hash to measure reuse distances (SHARDS: Waldspurger et al., FAST 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from rdmodel.errors import ConfigError
from rdmodel.reuse._shards import Shards
from rdmodel.reuse.sampled import SampledHistogram

HASH_VALUES = 1 << 53
"""Number of different hashes that a line can have."""


def check_sample(sample: Any) -> float:
    """Return a sampling rate as a float; raise `ConfigError` unless it is a number above 0 and at most 1."""
    if isinstance(sample, bool) or not isinstance(sample, int | float) or not isfinite(sample) or not 0 < sample <= 1:
        raise ConfigError(f"sample={sample!r}: must be a number above 0 and at most 1")
    return float(sample)


def make_shards(rate: float, seed: int) -> Shards:
    """Return an empty sampler of about the share `rate` of all lines; `seed` chooses the lines."""
    salt = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
    return Shards(max(1, round(rate * HASH_VALUES)), salt)


def sampled_histogram(samples: Sequence[Shards], rate: float) -> SampledHistogram:
    """Return one histogram of the distances of several streams that were sampled separately."""
    counts_of = [shards.counts() for shards in samples]
    counts = np.zeros((max(len(finite) for finite, _ in counts_of), len(counts_of[0][1])), np.int64)
    for finite, _ in counts_of:
        counts[: len(finite)] += finite
    return SampledHistogram(
        rate=rate,
        total=sum(shards.total for shards in samples),
        lines=sum(shards.distinct for shards in samples),
        counts=counts,
        infinite=np.sum([infinite for _, infinite in counts_of], axis=0),
    )
