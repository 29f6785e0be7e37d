"""Carry over what policies decided in one launch of a kernel to its next launch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rdmodel.policies.base import Policy
from rdmodel.policies.combinations import members_of
from rdmodel.policies.dwt_cs import DWTCS
from rdmodel.policies.index import IndexFunction


def remember(
    policies: Sequence[Policy | IndexFunction | str], found: Mapping[str, int]
) -> tuple[Policy | IndexFunction, ...]:
    """Return `policies` for a later launch of a kernel; `found` is `Simulation.found` of the earlier one.

    `DWTCS` takes over its limit (Khairy et al., section 4.2); no other policy remembers anything. A text may be a
    combination (`rdmodel.combination`). Raises `ConfigError` for a text that is not a policy.

    >>> remember(["dwt-cs", "pd"], {"dwt-cs.limit": 3})
    (DWTCS(period=10000, mpki=10.0, confirm=3, sample=3, limit=3), PD(distance=8))
    """
    members = members_of(policies)
    limit = found.get(f"{DWTCS.name}.limit")
    if limit is None:
        return members
    return tuple(replace(member, limit=limit) if isinstance(member, DWTCS) else member for member in members)
