"""What policies find out in one launch of a kernel and keep for the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rdmodel.policies.base import Policy
from rdmodel.policies.registry import parse_policy
from rdmodel.policies.throttling import DWTCS


def remember(policies: Sequence[Policy | str], found: Mapping[str, int]) -> tuple[Policy, ...]:
    """Return `policies` for a later launch of a kernel, with what the earlier one `found` (`Simulation.found`).

    `DWTCS` keeps its limit (Khairy et al., section 4.2); nothing else outlives a launch. Raises `ConfigError` for a
    text that is no policy.

    >>> remember(["dwt-cs", "pd"], {"dwt-cs.limit": 3})
    (DWTCS(period=10000, mpki=10.0, confirm=3, sample=1, limit=3), PD(distance=8))
    """
    made = (parse_policy(policy) if isinstance(policy, str) else policy for policy in policies)
    limit = found.get(f"{DWTCS.name}.limit")
    return tuple(replace(one, limit=limit) if isinstance(one, DWTCS) and limit is not None else one for one in made)
