"""Policies by name, as people write them: ``swl:warps=4``, ``mrpb:drain=longest,entries=16``."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

from rdmodel.errors import ConfigError, unknown
from rdmodel.policies.admission import ABYP, APCM, PD, BypassAll, BypassOnStall, StreamingBypass
from rdmodel.policies.base import Kind, Policy
from rdmodel.policies.index import INDEX_FUNCTIONS, IndexFunction
from rdmodel.policies.reordering import MRPB
from rdmodel.policies.throttling import CCWS, DWTCS, PCAL, SWL

POLICIES: dict[str, type[Policy]] = {
    cls.name: cls
    for cls in (
        SWL,
        PCAL,
        DWTCS,
        CCWS,
        BypassAll,
        BypassOnStall,
        StreamingBypass,
        PD,
        ABYP,
        APCM,
        MRPB,
    )
}

WORDS: dict[str, Any] = {"true": True, "false": False, "none": None, "inf": math.inf}
"""Texts of values that are neither numbers nor names."""


def parse_policy(text: str) -> Policy:
    """Return the policy that a text means: its name, and after a colon its options, ``name=value`` with commas.

    Values are numbers, ``inf``, ``none``, ``true``, ``false`` and words; ``swl:best`` is ``swl:warps=best``. Raises
    `ConfigError` for an unknown name or option, with the near misses, and for a value that means nothing.

    >>> parse_policy("mrpb:drain=longest,entries=inf")
    MRPB(signature='warp', drain='longest', flush=True, entries=None, latency=5, bypass='associativity')
    """
    name, colon, rest = text.partition(":")
    if name in INDEX_FUNCTIONS:
        raise ConfigError(f"policy {name!r}: is an index function, which belongs to the GPU: l1.index={name}")
    if name not in POLICIES:
        raise ConfigError(unknown("policy", name, POLICIES))
    if name == SWL.name and rest == "best":
        return SWL(warps="best")
    return _make(POLICIES[name], _options(name, rest) if colon else {})


def check_policies(policies: Sequence[Any]) -> None:
    """Raise `ConfigError` unless all of `policies` are policies of the machine, no two of one kind."""
    found: dict[str, Policy] = {}
    for policy in policies:
        if isinstance(policy, IndexFunction):
            raise ConfigError(f"policies: {policy!r} is an index function, which belongs to the GPU's l1.index")
        if not isinstance(policy, Policy):
            raise ConfigError(f"policies: {policy!r} is not a policy (rdmodel.policies), as SWL(warps=4)")
        if policy.kind in found:
            names = f"{found[policy.kind].name!r} and {policy.name!r}"
            raise ConfigError(f"policies: {names} are both of the kind {policy.kind!r}, of which there can be one")
        found[policy.kind] = policy


def policy_of_kind(policies: Sequence[Policy], kind: Kind) -> Policy | None:
    """Return the policy of a kind, or None if there is none."""
    return next((policy for policy in policies if policy.kind == kind), None)


def _options(name: str, text: str) -> dict[str, Any]:
    """Return the options of the policy called `name` that are in `text`."""
    options: dict[str, Any] = {}
    for part in text.split(","):
        option, equals, value = part.partition("=")
        if not (option and equals and value):
            raise ConfigError(f"policy {name!r}: {part!r} must be option=value")
        if option in options:
            raise ConfigError(f"policy {name!r}: {option!r} is given twice")
        options[option] = _value(value)
    return options


def _make(cls: type[Policy], options: dict[str, Any]) -> Policy:
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    for option in options:
        if not known:
            raise ConfigError(f"policy {cls.name!r}: has no options, so no {option!r}")
        if option not in known:
            raise ConfigError(unknown(f"option of policy {cls.name!r}:", option, known))
    for option, f in known.items():
        if option not in options and f.default is MISSING:
            raise ConfigError(f"policy {cls.name!r}: option {option!r} is missing")
    try:
        return cls(**options)
    except ConfigError as error:
        raise ConfigError(f"policy {cls.name!r}: {error}") from None


def _value(text: str) -> Any:
    if text in WORDS:
        return WORDS[text]
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return float(text)
    return text
