"""Combine policies and an index function, given as texts or as objects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError, suggestion
from rdmodel.plugins.entry_points import installed
from rdmodel.policies.base import Policy, check_described
from rdmodel.policies.compiled import library_of
from rdmodel.policies.index import INDEX_FUNCTIONS, IndexFunction, index_to_dict
from rdmodel.policies.index_registry import INDEX_GROUP, index_function, index_names
from rdmodel.policies.registry import (
    BASELINE,
    COMBINATIONS,
    check_policies,
    parse_policy,
    policy_fields,
    policy_from_fields,
    policy_names,
)

INDEX_PREFIX = "index"
"""Prefix of an index function in a text: ``index:pric``."""

PLUS = re.compile(r"\+(?![0-9]|\.[0-9])")
"""The sign that joins policies: any plus sign except that of a number."""

COMMA = re.compile(r",(?![^:+=,]*=)")
"""The sign between combinations: any comma except one before an option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """Policies of the machine, at most one of a kind, and an index function of the L1 (None: that of the GPU)."""

    name: str
    policies: tuple[Policy, ...] = ()
    index: IndexFunction | None = None

    def __post_init__(self) -> None:
        """Check the name, and that the policies can be combined."""
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"name={self.name!r}: must be a text")
        check_policies(self.policies)
        if self.index is not None and not isinstance(self.index, IndexFunction):
            raise ConfigError(f"index={self.index!r}: must be an index function (rdmodel.policies)")

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the policies with their names and options, and the index function, as plain values."""
        return {
            "name": self.name,
            "policies": [policy_fields(policy) for policy in self.policies],
            "index": None if self.index is None else index_to_dict(self.index),
        }


Member = str | Policy | IndexFunction | Mapping[str, Any]
"""A part of a combination: a text, a policy, an index function, or the fields of a policy (`policy_fields`)."""

CombinationLike = Combination | Member | Sequence[Member]
"""Everything that `combination` accepts."""


def combination(wanted: CombinationLike) -> Combination:
    """Return the combination for a text, a policy, an index function, or a sequence of these.

    A text joins policies (`rdmodel.policies.parse_policy`), index functions (``index:pric`` or just ``pric``) and names
    of `COMBINATIONS` with plus signs. Raises `ConfigError` for anything else, for two policies of one kind and for two
    index functions.

    >>> combination("swl:warps=2+bypass-all")
    Combination(name='swl:warps=2+bypass-all', policies=(SWL(warps=2), BypassAll()), index=None)
    """
    if isinstance(wanted, Combination):
        return wanted
    parts = [wanted] if isinstance(wanted, str | Policy | IndexFunction | Mapping) else wanted
    if not isinstance(parts, Sequence):
        raise ConfigError(f"policies: {wanted!r} is neither a text, nor a policy, nor a sequence of them")
    members = members_of(parts)
    indices = [member for member in members if isinstance(member, IndexFunction)]
    if len(indices) > 1:
        raise ConfigError(f"policies: {indices[0].name!r} and {indices[1].name!r} are both index functions of the L1")
    return Combination(
        name="+".join(part if isinstance(part, str) else member_text(part) for part in parts) or BASELINE,
        policies=tuple(member for member in members if isinstance(member, Policy)),
        index=indices[0] if indices else None,
    )


def members_of(parts: Sequence[Member]) -> tuple[Policy | IndexFunction, ...]:
    """Return the policies and index functions that the parts of a combination stand for, in their order."""
    members: list[Policy | IndexFunction] = []
    for part in parts:
        members += _parse_members(part) if isinstance(part, str) else [_member(part)]
    return tuple(members)


def combinations(text: str) -> list[Combination]:
    """Return the combinations in a text that lists them with commas.

    >>> [listed.name for listed in combinations("none,mrpb:drain=longest,entries=16,swl:best+pd")]
    ['none', 'mrpb:drain=longest,entries=16', 'swl:best+pd']
    """
    return [combination(part) for part in COMMA.split(text)]


def member_text(member: Member) -> str:
    """Return a policy or an index function as text, with the options that differ from their defaults.

    >>> member_text(parse_policy("mrpb:entries=inf,latency=5"))
    'mrpb:entries=none'
    """
    made = _member(member)
    defaults = {f.name: f.default for f in fields(made)}  # type: ignore[arg-type]
    changed = {name: getattr(made, name) for name in defaults if getattr(made, name) != defaults[name]}
    options = ",".join(f"{name}={str(value).lower()}" for name, value in changed.items())
    head = f"{INDEX_PREFIX}:{made.name}" if isinstance(made, IndexFunction) else made.name
    return f"{head}:{options}" if options else head


def _member(part: Member) -> Policy | IndexFunction:
    if isinstance(part, Policy | IndexFunction):
        check_described(part)
        return part
    if isinstance(part, Mapping):
        return policy_from_fields(part)
    raise ConfigError(f"policies: {part!r} is neither a text, nor a policy, nor an index function")


def _parse_members(text: str) -> list[Policy | IndexFunction]:
    members: list[Policy | IndexFunction] = []
    for part in PLUS.split(text):
        head, _, rest = part.partition(":")
        if head == INDEX_PREFIX:
            members.append(index_function(rest))
        elif part in INDEX_FUNCTIONS:
            members.append(index_function(part))
        elif head in INDEX_FUNCTIONS:
            raise ConfigError(f"index function {head!r}: takes no options in a text; use rdmodel.policies or l1.index")
        elif part in COMBINATIONS:
            members += _parse_members(COMBINATIONS[part]) if COMBINATIONS[part] else []
        elif head in COMBINATIONS:
            raise ConfigError(f"combination {head!r}: takes no options")
        elif part in installed(INDEX_GROUP) and head not in policy_names():
            members.append(index_function(part))
        elif part and library_of(part) is None and head not in policy_names() and (hint := _suggested_name(head)):
            raise ConfigError(f"unknown policy {head!r}{hint}")
        else:
            members.append(parse_policy(part))
    return members


def _suggested_name(name: str) -> str:
    known = [*policy_names(), *COMBINATIONS, f"{INDEX_PREFIX}:"]
    return suggestion(name, known) or suggestion(name, index_names())
