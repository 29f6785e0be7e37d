"""Choose the combinations of a contest that names none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rdmodel.gpu.config import GPU
from rdmodel.policies import POLICIES
from rdmodel.policies.combinations import COMBINATIONS, Combination, combination
from rdmodel.policies.registry import required_options
from rdmodel.simulator.options import policy_refusal

SWEEP = "swl:best"
"""The default combination with static limits; `swl` has no default limit."""


def default_combinations(gpu: GPU) -> tuple[list[Combination], Mapping[str, list[str]]]:
    """Return the combinations that need no options and that the simulator has on a GPU, and the names of the others.

    The names are listed by the reason why the simulator does not have them (`policy_refusal`).
    """
    alone = [name for name, cls in POLICIES.items() if not required_options(cls)]
    chosen: list[Combination] = []
    left_out: dict[str, list[str]] = {}
    for entry in map(combination, (SWEEP, *alone, *COMBINATIONS)):
        reason = _refusal(gpu, entry)
        if reason is None:
            chosen.append(entry)
        else:
            left_out.setdefault(reason, []).append(entry.name)
    return chosen, left_out


def _refusal(gpu: GPU, entry: Combination) -> str | None:
    reasons: Iterable[str | None] = (policy_refusal(gpu, policy) for policy in entry.policies)
    return next((reason for reason in reasons if reason is not None), None)
