"""Choose the combinations of a contest that names none."""

from __future__ import annotations

from rdmodel.policies import POLICIES
from rdmodel.policies.combinations import Combination, combination
from rdmodel.policies.registry import COMBINATIONS, required_options

SWEEP = "swl:best"
"""The default combination with static limits; `swl` has no default limit."""


def default_combinations() -> list[Combination]:
    """Return the combinations that need no options."""
    alone = [name for name, cls in POLICIES.items() if not required_options(cls)]
    return [combination(name) for name in (SWEEP, *alone, *COMBINATIONS)]
