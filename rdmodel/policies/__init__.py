"""Policies of caches as frozen value objects.

Index functions (`rdmodel.policies.index`) say which set a line belongs to, and are part of a GPU, as ``l1.index``. The
others are options of the simulated machine, at most one of each kind: which warps may load
(`rdmodel.policies.throttling`), which loads may use the L1 (`rdmodel.policies.admission`), and in which order
(`rdmodel.policies.reordering`).
"""

from rdmodel.policies.admission import ABYP, APCM, PD, BypassAll, BypassOnStall, StreamingBypass
from rdmodel.policies.base import Policy
from rdmodel.policies.index import (
    ADDRESS_BITS,
    INDEX_FUNCTIONS,
    KIND_DISPLACEMENT,
    KIND_LINEAR,
    KIND_MODULO,
    BXor,
    Fermi,
    Fup,
    IndexCode,
    IndexFunction,
    Linear,
    Masks,
    PDisp,
    PMod,
    Pric,
    evaluate,
    index_function,
    largest_prime,
)
from rdmodel.policies.registry import POLICIES, check_policies, parse_policy, policy_of_kind
from rdmodel.policies.relaunch import remember
from rdmodel.policies.reordering import MRPB
from rdmodel.policies.throttling import CCWS, DWTCS, PCAL, SWL

__all__ = [
    "ABYP",
    "ADDRESS_BITS",
    "APCM",
    "CCWS",
    "DWTCS",
    "INDEX_FUNCTIONS",
    "KIND_DISPLACEMENT",
    "KIND_LINEAR",
    "KIND_MODULO",
    "MRPB",
    "PCAL",
    "PD",
    "POLICIES",
    "SWL",
    "BXor",
    "BypassAll",
    "BypassOnStall",
    "Fermi",
    "Fup",
    "IndexCode",
    "IndexFunction",
    "Linear",
    "Masks",
    "PDisp",
    "PMod",
    "Policy",
    "Pric",
    "StreamingBypass",
    "check_policies",
    "evaluate",
    "index_function",
    "largest_prime",
    "parse_policy",
    "policy_of_kind",
    "remember",
]
