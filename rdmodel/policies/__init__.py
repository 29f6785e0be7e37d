"""Define the policies of caches as frozen values, one file for each.

Index functions (`rdmodel.policies.index`) map lines to sets. They belong to a GPU, as ``l1.index``. All other policies
are options of the simulated machine, at most one of each kind. *Throttling* decides which warps may issue loads,
*admission* which loads may use the L1, and *reordering* in which order loads access it. `combination` joins policies
and an index function.
"""

from rdmodel.policies.abyp import ABYP
from rdmodel.policies.apcm import APCM
from rdmodel.policies.base import Policy
from rdmodel.policies.bypass_all import BypassAll
from rdmodel.policies.bypass_on_stall import BypassOnStall
from rdmodel.policies.ccws import CCWS
from rdmodel.policies.dwt_cs import DWTCS
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
from rdmodel.policies.mrpb import MRPB
from rdmodel.policies.pcal import PCAL
from rdmodel.policies.pd import PD
from rdmodel.policies.registry import POLICIES, check_policies, parse_policy, policy_of_kind
from rdmodel.policies.relaunch import remember
from rdmodel.policies.streaming_bypass import StreamingBypass
from rdmodel.policies.swl import SWL

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
