"""Combinations of cache-management policies: from texts, policies and index functions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from rdmodel.errors import ConfigError, suggestion
from rdmodel.gpu.config import index_to_dict
from rdmodel.policies import (
    INDEX_FUNCTIONS,
    POLICIES,
    IndexFunction,
    Policy,
    check_policies,
    index_function,
    parse_policy,
)
from rdmodel.simulator.options import policy_fields

BASELINE = "none"
"""The name of the combination without policies, which is always run and which the others are relative to."""

COMBINATIONS: Mapping[str, str] = {
    BASELINE: "",
    "dwt-pric": "streaming-bypass+dwt-cs+index:pric",
    "apcm-swl": "apcm+swl:best",
}
"""Combinations that have a name, and what they stand for."""

INDEX = "index"
PLUS = re.compile(r"\+(?![0-9.])")
"""What joins policies: any plus sign but that of a number."""

COMMA = re.compile(r",(?![^:+=,]*=)")
"""What stands between combinations: any comma but that before an option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """Policies of the machine, at most one of a kind, and an index function of the L1 (None: the GPU's own)."""

    name: str
    policies: tuple[Policy, ...] = ()
    index: IndexFunction | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be combined."""
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"name={self.name!r}: must be a text")
        check_policies(self.policies)
        if self.index is not None and not isinstance(self.index, IndexFunction):
            raise ConfigError(f"index={self.index!r}: must be an index function (rdmodel.policies)")

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the policies with their names and options, and the index function, as plain values."""
        return {
            "name": self.name,
            "policies": [policy_fields(one) for one in self.policies],
            "index": None if self.index is None else index_to_dict(self.index),
        }


Wanted = str | Policy | IndexFunction | Combination | Sequence["str | Policy | IndexFunction"]
"""What stands for a combination: `combination` makes one of it."""


def combination(wanted: Wanted) -> Combination:
    """Return the combination that is meant: by a text, a policy, an index function, or a sequence of these.

    A text joins policies (`rdmodel.policies.parse_policy`), ``index:NAME`` and names of `COMBINATIONS` with plus
    signs. Raises `ConfigError` for anything else, and for two policies of one kind.

    >>> combination("swl:warps=2+pd")
    Combination(name='swl:warps=2+pd', policies=(SWL(warps=2), PD(distance=8)), index=None)
    """
    if isinstance(wanted, Combination):
        return wanted
    parts = [wanted] if isinstance(wanted, str | Policy | IndexFunction) else wanted
    if not isinstance(parts, Sequence):
        raise ConfigError(f"policies: {wanted!r} is neither a text, nor a policy, nor a sequence of them")
    members = [member for part in parts for member in (_parse(part) if isinstance(part, str) else [part])]
    indices = [member for member in members if isinstance(member, IndexFunction)]
    if len(indices) > 1:
        raise ConfigError(f"policies: {indices[0].name!r} and {indices[1].name!r} are both index functions of the L1")
    name = "+".join(part if isinstance(part, str) else policy_text(part) for part in parts)
    return Combination(
        name=name or BASELINE,
        policies=tuple(member for member in members if not isinstance(member, IndexFunction)),
        index=indices[0] if indices else None,
    )


def combinations(text: str) -> list[Combination]:
    """Return the combinations in a text that lists them with commas.

    >>> [one.name for one in combinations("none,mrpb:drain=longest,entries=16,swl:best+pd")]
    ['none', 'mrpb:drain=longest,entries=16', 'swl:best+pd']
    """
    return [combination(part) for part in COMMA.split(text)]


def _parse(text: str) -> list[Policy | IndexFunction]:
    members: list[Policy | IndexFunction] = []
    for part in PLUS.split(text):
        kind, _, name = part.partition(":")
        if kind == INDEX:
            members.append(index_function(name))
        elif kind in INDEX_FUNCTIONS:
            raise ConfigError(f"unknown policy {kind!r}: it is an index function, {INDEX}:{kind}")
        elif part in COMBINATIONS:
            members += _parse(COMBINATIONS[part]) if COMBINATIONS[part] else []
        elif part and kind not in POLICIES and (hint := suggestion(kind, [*POLICIES, *COMBINATIONS, f"{INDEX}:"])):
            raise ConfigError(f"unknown policy {kind!r}{hint}")
        else:
            members.append(parse_policy(part))
    return members


def policy_text(member: Policy | IndexFunction) -> str:
    """Return a policy or an index function as its text, with the options that are not its defaults.

    >>> policy_text(parse_policy("mrpb:entries=inf,latency=5"))
    'mrpb:entries=none'
    """
    if not isinstance(member, Policy | IndexFunction):
        raise ConfigError(f"policies: {member!r} is neither a text, nor a policy, nor an index function")
    defaults = {f.name: f.default for f in fields(member)}  # type: ignore[arg-type]
    given = {name: getattr(member, name) for name in defaults if getattr(member, name) != defaults[name]}
    words = ",".join(f"{name}={str(value).lower()}" for name, value in given.items())
    head = f"{INDEX}:{member.name}" if isinstance(member, IndexFunction) else member.name
    return f"{head}:{words}" if words else head
