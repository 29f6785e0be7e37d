"""Say how many random examples a comparison with an oracle draws."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

ALL = "RDMODEL_ALL_EXAMPLES" in os.environ
FRACTION, LEAST = 16, 4


def examples(count: int, *, least: int = LEAST, **more: Any) -> settings:
    """Return settings for `count` examples if all are wanted, otherwise for a sixteenth of them, but at least `least`.

    A test with many parameters, which draws for each of them, needs fewer for each.
    """
    drawn = count if ALL else max(-(-count // FRACTION), min(count, least))
    return settings(max_examples=drawn, deadline=None, **more)
