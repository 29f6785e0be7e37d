"""Define the policies of caches as frozen values, one file for each.

Index functions (`rdmodel.policies.index`) map lines to sets. They belong to a GPU, as ``l1.index``. All other policies
are options of the simulated machine, at most one of each kind. *Throttling* decides which warps may issue loads,
*admission* which loads may use the L1, and *reordering* in which order loads access it. `combination` joins policies
and an index function.
"""

from rdmodel.common.lazy_names import lazy_names

_HOMES = {
    "rdmodel.policies.abyp": ("ABYP",),
    "rdmodel.policies.apcm": ("APCM",),
    "rdmodel.policies.base": ("Policy",),
    "rdmodel.policies.bypass_all": ("BypassAll",),
    "rdmodel.policies.bypass_on_stall": ("BypassOnStall",),
    "rdmodel.policies.cca": ("CCA",),
    "rdmodel.policies.ccws": ("CCWS",),
    "rdmodel.policies.compiled": ("CompiledPolicy",),
    "rdmodel.policies.daws": ("DAWS",),
    "rdmodel.policies.dwt_cs": ("DWTCS",),
    "rdmodel.policies.dyncta": ("DYNCTA",),
    "rdmodel.policies.g_cache": ("GCache",),
    "rdmodel.policies.index": (
        "ADDRESS_BITS",
        "BXor",
        "Fermi",
        "Function",
        "Fup",
        "INDEX_FUNCTIONS",
        "IndexCode",
        "IndexFunction",
        "KIND_CALL",
        "KIND_DISPLACEMENT",
        "KIND_LINEAR",
        "KIND_MODULO",
        "KIND_TABLE",
        "Linear",
        "Masks",
        "PDisp",
        "PMod",
        "Pric",
        "Table",
        "evaluate",
        "largest_prime",
    ),
    "rdmodel.policies.index_registry": ("find_index_function", "index_function"),
    "rdmodel.policies.latency_limit": ("LatencyLimit",),
    "rdmodel.policies.lazy_cta": ("LazyCTA",),
    "rdmodel.policies.mrpb": ("MRPB",),
    "rdmodel.policies.owl": ("OWL",),
    "rdmodel.policies.pcal": ("PCAL",),
    "rdmodel.policies.pd": ("PD",),
    "rdmodel.policies.pdp": ("PDP",),
    "rdmodel.policies.registry": (
        "POLICIES",
        "check_policies",
        "find_policy",
        "load_policy",
        "parse_policy",
        "policy_of_kind",
    ),
    "rdmodel.policies.relaunch": ("remember",),
    "rdmodel.policies.streaming_bypass": ("StreamingBypass",),
    "rdmodel.policies.swl": ("SWL",),
}
"""The names of this package by the modules that define them, which are imported on first use."""

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
