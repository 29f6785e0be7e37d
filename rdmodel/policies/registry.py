"""Find policies by name and read them from texts such as ``swl:warps=4`` or ``mrpb:drain=longest,entries=16``."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from os import PathLike
from pathlib import Path
from typing import Any, get_args

from rdmodel.common.numerals import read_integer
from rdmodel.errors import ConfigError, unknown
from rdmodel.plugins.entry_points import Group, installed, load_installed
from rdmodel.policies.abyp import ABYP
from rdmodel.policies.apcm import APCM
from rdmodel.policies.base import Kind, Policy, Settings, check_described
from rdmodel.policies.bypass_all import BypassAll
from rdmodel.policies.bypass_on_stall import BypassOnStall
from rdmodel.policies.cca import CCA
from rdmodel.policies.ccws import CCWS
from rdmodel.policies.compiled import CompiledPolicy, compiled_policy, library_of
from rdmodel.policies.daws import DAWS
from rdmodel.policies.dwt_cs import DWTCS
from rdmodel.policies.dyncta import DYNCTA
from rdmodel.policies.g_cache import GCache
from rdmodel.policies.index import INDEX_FUNCTIONS, IndexFunction
from rdmodel.policies.latency_limit import LatencyLimit
from rdmodel.policies.lazy_cta import LazyCTA
from rdmodel.policies.mrpb import MRPB
from rdmodel.policies.owl import OWL
from rdmodel.policies.pcal import PCAL
from rdmodel.policies.pd import PD
from rdmodel.policies.pdp import PDP
from rdmodel.policies.streaming_bypass import StreamingBypass
from rdmodel.policies.swl import SWL

POLICIES: dict[str, type[Policy]] = {
    cls.name: cls
    for cls in (
        SWL,
        PCAL,
        DWTCS,
        CCWS,
        DYNCTA,
        LatencyLimit,
        LazyCTA,
        OWL,
        CCA,
        DAWS,
        BypassAll,
        BypassOnStall,
        StreamingBypass,
        PD,
        PDP,
        ABYP,
        APCM,
        GCache,
        MRPB,
    )
}
"""The policies of this package by name, in the order of listings."""

BASELINE = "none"
"""The name of the combination without policies. A contest always runs it and compares the others with it."""

COMBINATIONS: Mapping[str, str] = {
    BASELINE: "",
    "dwt-pric": "streaming-bypass:mpki=62.5+dwt-cs+index:pric",
    "apcm-swl": "apcm+swl:best",
    "cbwt": "pdp+latency-limit",
}
"""Combinations that have a name, with the texts that they stand for."""

VALUE_WORDS: dict[str, Any] = {"true": True, "false": False, "none": None, "inf": math.inf}
"""Option values that are written as words."""

LOADED: dict[str, type[CompiledPolicy]] = {}
"""The policies that `load_policy` has loaded in this process, by name; the last one of a name."""

POLICY_GROUP: Group = "rdmodel.policies"
"""The entry points by which packages offer policies: subclasses of `Policy`, or paths of compiled libraries."""


def load_policy(path: str | PathLike[str]) -> type[CompiledPolicy]:
    """Return the policy of a library, a class of its options; `find_policy` then knows its name.

    The code of the library runs in this process: load only what you trust. Raises `ConfigError` if the library has no
    sound table (``rdmodel_policy.h``), and if the policy has a name of this package.
    """
    cls = compiled_policy(Path(path))
    taken: dict[str, Collection[str]] = {
        "a policy": POLICIES,
        "an index function": INDEX_FUNCTIONS,
        "a combination": COMBINATIONS,
    }
    for kind, names in taken.items():
        if cls.name in names:
            raise ConfigError(f"{path}: name={cls.name!r}: is the name of {kind} of rdmodel; choose another")
    LOADED[cls.name] = cls
    return cls


def find_policy(name: str) -> type[Policy]:
    """Return the policy called `name`: one of `POLICIES`, of a loaded library, or of an installed package.

    Raises `ConfigError` for an unknown name, with the near misses, and for a package that cannot give its policy.
    """
    if name in POLICIES:
        return POLICIES[name]
    if name in LOADED:
        return LOADED[name]
    if name in installed(POLICY_GROUP):
        return _installed_policy(name)
    raise ConfigError(unknown("policy", name, policy_names()))


def policy_names() -> list[str]:
    """Return the names of all policies that `find_policy` knows, those of this package first; load none of them."""
    return list(dict.fromkeys([*POLICIES, *LOADED, *installed(POLICY_GROUP)]))


def _installed_policy(name: str) -> type[Policy]:
    found = load_installed(POLICY_GROUP, name)
    made = load_policy(found) if isinstance(found, str | PathLike) else found
    if not isinstance(made, type) or not issubclass(made, Policy):
        raise ConfigError(
            f"{POLICY_GROUP}: {name!r} is {found!r:.60}; must be a subclass of Policy, or the path of a library"
        )
    if getattr(made, "name", None) != name:
        raise ConfigError(
            f"{POLICY_GROUP}: {name!r} leads to a policy called {getattr(made, 'name', None)!r}; must be equal"
        )
    return made


def required_options(cls: type[Policy | IndexFunction]) -> list[str]:
    """Return the options of a policy, or of an index function, that have no default."""
    return [f.name for f in fields(cls) if f.default is MISSING]  # type: ignore[arg-type]


def parse_policy(text: str) -> Policy:
    """Return the policy that a text names, ``NAME`` or ``NAME:OPTION=VALUE,OPTION=VALUE``.

    Values are numbers, ``inf``, ``none``, ``true``, ``false`` and words; ``swl:best`` is ``swl:warps=best``. In the
    place of the name, the path of a compiled library can stand. Raises `ConfigError` for an unknown name or option,
    with the near misses, and for a value that is not allowed.

    >>> parse_policy("mrpb:drain=longest,entries=inf")
    MRPB(signature='warp', drain='longest', flush=True, entries=None, latency=5, bypass='associativity')
    """
    library = library_of(text)
    if library is not None:
        path, options = library
        loaded = load_policy(path)
        return _make_policy(loaded, {} if options is None else _parse_options(loaded.name, options))
    name, colon, rest = text.partition(":")
    if name in INDEX_FUNCTIONS:
        raise ConfigError(f"policy {name!r}: is an index function, which belongs to the GPU: l1.index={name}")
    cls = find_policy(name)
    if name == SWL.name and rest == "best":
        return SWL(warps="best")
    return _make_policy(cls, _parse_options(name, rest) if colon else {})


def policy_fields(policy: Policy) -> dict[str, Any]:
    """Return the name and the options of a policy as plain values, and the digest of its library if it has one."""
    plain = {"name": policy.name, **asdict(policy)}  # type: ignore[call-overload]
    return {**plain, "library": policy.digest} if isinstance(policy, CompiledPolicy) else plain


def policy_from_fields(plain: Mapping[str, Any]) -> Policy:
    """Return the policy that `policy_fields` has described; raise `ConfigError` for any other mapping."""
    name = str(plain.get("name"))
    options = {option: value for option, value in plain.items() if option not in ("name", "library")}
    text = ",".join(f"{option}={_value_text(value)}" for option, value in options.items())
    policy = parse_policy(f"{name}:{text}" if text else name)
    digest = policy.digest if isinstance(policy, CompiledPolicy) else None
    if plain.get("library") != digest:
        raise ConfigError(
            f"policy {name!r}: library={plain.get('library')!r}: this process has {digest!r} by that name"
        )
    return policy


def check_policies(policies: Sequence[Any]) -> None:
    """Raise `ConfigError` unless all of `policies` are policies of the machine, at most one of each kind."""
    by_kind: dict[str, Policy] = {}
    for policy in policies:
        if isinstance(policy, IndexFunction):
            raise ConfigError(f"policies: {policy!r} is an index function, which belongs to the GPU's l1.index")
        if not isinstance(policy, Policy):
            raise ConfigError(f"policies: {policy!r} is not a policy (rdmodel.policies), such as SWL(warps=4)")
        check_described(policy)
        if getattr(policy, "kind", None) not in get_args(Kind):
            raise ConfigError(f"policy {policy.name!r}: must have a class variable 'kind' out of {get_args(Kind)}")
        if policy.kind in by_kind:
            names = f"{by_kind[policy.kind].name!r} and {policy.name!r}"
            raise ConfigError(f"policies: {names} are both of the kind {policy.kind!r}; name at most one of a kind")
        by_kind[policy.kind] = policy


def policy_of_kind(policies: Sequence[Policy], kind: Kind) -> Policy | None:
    """Return the policy of a kind, or None if there is none."""
    return next((policy for policy in policies if policy.kind == kind), None)


def machine_settings(policies: Sequence[Policy]) -> dict[Kind, Settings]:
    """Return the settings of the compiled machine for `policies`, by kind."""
    return {policy.kind: policy.settings() for policy in policies}


def _parse_options(name: str, text: str) -> dict[str, Any]:
    """Return the options in `text`, by name; `name` is the policy's, for errors."""
    options: dict[str, Any] = {}
    for part in text.split(","):
        option, equals, value = part.partition("=")
        if not (option and equals and value):
            raise ConfigError(f"policy {name!r}: {part!r} must be option=value; policies are joined with a plus sign")
        if option in options:
            raise ConfigError(f"policy {name!r}: {option!r} is given twice")
        try:
            options[option] = _parse_value(value)
        except ValueError as error:
            raise ConfigError(f"policy {name!r}: {option}={value!r:.60}: must be {error}") from None
    return options


def _make_policy(cls: type[Policy], options: dict[str, Any]) -> Policy:
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    for option in options:
        if not known:
            raise ConfigError(f"policy {cls.name!r}: has no options; leave out {option!r}")
        if option not in known:
            raise ConfigError(unknown(f"option of policy {cls.name!r}:", option, known))
    for option, f in known.items():
        if option not in options and f.default is MISSING:
            raise ConfigError(f"policy {cls.name!r}: option {option!r} is missing")
    try:
        return cls(**options)
    except ConfigError as error:
        raise ConfigError(f"policy {cls.name!r}: {error}") from None


def _parse_value(text: str) -> Any:
    if text in VALUE_WORDS:
        return VALUE_WORDS[text]
    if re.fullmatch(r"[+-]?[0-9]+", text):
        return read_integer(text)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return float(text)
    return text


def _value_text(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
