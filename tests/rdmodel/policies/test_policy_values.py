"""Policies as values: what is refused, and how they are written as text."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields

import pytest

import rdmodel as rd
from rdmodel.common.checks import MAX_SMS
from rdmodel.errors import ConfigError
from rdmodel.policies import (
    ABYP,
    APCM,
    CCA,
    CCWS,
    DAWS,
    DWTCS,
    DYNCTA,
    MRPB,
    OWL,
    PCAL,
    PD,
    PDP,
    POLICIES,
    SWL,
    BypassAll,
    BypassOnStall,
    GCache,
    LatencyLimit,
    LazyCTA,
    Policy,
    Pric,
    StreamingBypass,
    check_policies,
    parse_policy,
    policy_of_kind,
)
from rdmodel.policies.registry import machine_settings

EXAMPLES = [
    SWL(warps=4),
    PCAL(tokens=2, extra=3),
    DWTCS(),
    CCWS(),
    DYNCTA(),
    LatencyLimit(),
    LazyCTA(),
    OWL(),
    CCA(),
    DAWS(),
    BypassAll(),
    BypassOnStall(),
    StreamingBypass(),
    PD(),
    PDP(),
    ABYP(),
    APCM(),
    GCache(),
    MRPB(),
]


def test_every_policy_has_an_example_here():
    assert [type(policy) for policy in EXAMPLES] == list(POLICIES.values())


@pytest.mark.parametrize("policy", EXAMPLES, ids=lambda policy: policy.name)
def test_a_policy_is_a_frozen_value_found_by_its_name(policy):
    assert isinstance(policy, Policy)
    assert POLICIES[policy.name] is type(policy)
    parameters = {f.name: getattr(policy, f.name) for f in fields(policy)}
    assert type(policy)(**parameters) == policy
    assert hash(type(policy)(**parameters)) == hash(policy)
    assert not {"name", "kind"} & parameters.keys()
    for name in parameters:
        with pytest.raises(FrozenInstanceError):
            setattr(policy, name, None)


def test_the_kinds_are_those_of_the_contract():
    kinds = {policy.name: policy.kind for policy in EXAMPLES}
    throttling = ["swl", "pcal", "dwt-cs", "ccws", "dyncta", "latency-limit", "lazy-cta", "owl", "cca", "daws"]
    assert [name for name, kind in kinds.items() if kind == "throttling"] == throttling
    admission = ["bypass-all", "bypass-on-stall", "streaming-bypass", "pd", "pdp", "abyp", "apcm", "g-cache"]
    assert [name for name, kind in kinds.items() if kind == "admission"] == admission
    assert [name for name, kind in kinds.items() if kind == "reordering"] == ["mrpb"]


def test_defaults_are_those_of_the_papers():
    assert DWTCS() == DWTCS(period=10_000, mpki=10.0, confirm=3, sample=3, limit=None)
    assert BypassOnStall() == BypassOnStall(on="associativity")
    assert StreamingBypass() == StreamingBypass(period=10_000, threshold=0.9, caches="both", mpki=None)
    assert PD() == PD(distance=8)
    assert PCAL() == PCAL(tokens="best", extra=2)
    assert CCWS() == CCWS(base=100, throttle=8, entries=16, ways=8)
    assert DYNCTA() == DYNCTA(period=2048, idle=16, low=128, high=384)
    assert LatencyLimit() == LatencyLimit(period=1000, high=4.0, low=2.0, lost=0.1, step=1)
    assert PDP() == PDP(period=10_000, most=256, every=8)
    assert LazyCTA() == LazyCTA(lcs=True, group=2, baws=False)
    assert OWL() == OWL(group=8, locality=True, blp=True)
    assert CCA() == CCA(period=512, gain=0.0)
    assert DAWS() == DAWS(share=0.6, reuse=0.5, converged=2, loads=64)
    assert GCache() == GCache(period=10_000, sharers=1, heat=3)
    assert APCM() == APCM(mode="both", tags=32, loads=16, most=15)
    mrpb = MRPB(signature="warp", drain="fixed", flush=True, entries=8, latency=5, bypass="associativity")
    assert MRPB() == mrpb


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (SWL, {"warps": 0}, "warps=0: must be at least 1"),
        (SWL, {"warps": 2.0}, "warps=2.0: must be a whole number"),
        (SWL, {"warps": True}, "warps=True: must be a whole number"),
        (SWL, {"warps": "all"}, "warps='all': must be a whole number or 'best'"),
        (PCAL, {"tokens": "all"}, "tokens='all': must be a whole number or 'best'"),
        (PCAL, {"tokens": 1.5}, "tokens=1.5: must be a whole number"),
        (PCAL, {"tokens": -1, "extra": 3}, "tokens=-1: must be at least 0"),
        (PCAL, {"tokens": 1, "extra": None}, "extra=None: must be a whole number"),
        (PCAL, {"tokens": 0, "extra": 0}, "tokens=0, extra=0: some warp must be allowed to load"),
        (DWTCS, {"period": 0}, "period=0: must be at least 1"),
        (DWTCS, {"mpki": -1}, "mpki=-1: must be a finite number of at least 0"),
        (DWTCS, {"mpki": math.nan}, "mpki=nan: must be a finite number"),
        (DWTCS, {"confirm": 0}, "confirm=0: must be at least 1"),
        (DWTCS, {"sample": 0}, "sample=0: must be at least 1"),
        (DWTCS, {"limit": 0}, "limit=0: must be at least 1"),
        (BypassOnStall, {"on": "mshr"}, "unknown value for on: 'mshr'"),
        (BypassOnStall, {"on": None}, "unknown value for on: 'None'"),
        (StreamingBypass, {"period": 0}, "period=0: must be at least 1"),
        (StreamingBypass, {"threshold": 90}, "threshold=90: must be at most 1"),
        (StreamingBypass, {"threshold": -0.1}, "threshold=-0.1: must be a finite number of at least 0"),
        (StreamingBypass, {"caches": "L1"}, "unknown value for caches: 'L1'; did you mean 'l1'"),
        (StreamingBypass, {"caches": None}, "unknown value for caches: 'None'"),
        (StreamingBypass, {"mpki": -1}, "mpki=-1: must be a finite number of at least 0"),
        (StreamingBypass, {"mpki": "many"}, "mpki='many': must be a finite number of at least 0"),
        (PD, {"distance": 0}, "distance=0: must be at least 1"),
        (DYNCTA, {"period": 0}, "period=0: must be at least 1"),
        (DYNCTA, {"idle": -1}, "idle=-1: must be at least 0"),
        (DYNCTA, {"low": 1.5}, "low=1.5: must be a whole number"),
        (DYNCTA, {"high": True}, "high=True: must be a whole number"),
        (DYNCTA, {"low": 400}, "low=400: must be at most high=384"),
        (LatencyLimit, {"period": 0}, "period=0: must be at least 1"),
        (LatencyLimit, {"high": 0.5}, "high=0.5: must be a finite number of at least 1"),
        (LatencyLimit, {"low": True}, "low=True: must be a finite number of at least 1"),
        (LatencyLimit, {"low": 5}, "low=5: must be at most high=4.0"),
        (LatencyLimit, {"lost": 1.5}, "lost=1.5: must be at most 1"),
        (LatencyLimit, {"step": 0}, "step=0: must be at least 1"),
        (PDP, {"period": 0}, "period=0: must be at least 1"),
        (PDP, {"most": 0}, "most=0: must be at least 1"),
        (PDP, {"most": 4097}, "most=4097: must be at most 4096"),
        (PDP, {"every": 0}, "every=0: must be at least 1"),
        (LazyCTA, {"lcs": 1}, "lcs=1: must be True or False"),
        (LazyCTA, {"group": 0}, "group=0: must be at least 1"),
        (LazyCTA, {"group": None}, "group=None: must be a whole number"),
        (LazyCTA, {"baws": None}, "baws=None: must be True or False"),
        (OWL, {"group": 0}, "group=0: must be at least 1"),
        (OWL, {"group": 8.0}, "group=8.0: must be a whole number"),
        (OWL, {"locality": 1}, "locality=1: must be True or False"),
        (OWL, {"blp": "yes"}, "blp='yes': must be True or False"),
        (CCA, {"period": 0}, "period=0: must be at least 1"),
        (CCA, {"period": 2.5}, "period=2.5: must be a whole number"),
        (CCA, {"gain": -0.1}, "gain=-0.1: must be a finite number of at least 0"),
        (CCA, {"gain": "much"}, "gain='much': must be a finite number of at least 0"),
        (DAWS, {"share": -0.1}, "share=-0.1: must be a finite number of at least 0"),
        (DAWS, {"share": 1.5}, "share=1.5: must be at most 1"),
        (DAWS, {"reuse": True}, "reuse=True: must be a finite number of at least 0"),
        (DAWS, {"reuse": 2}, "reuse=2: must be at most 1"),
        (DAWS, {"converged": 0}, "converged=0: must be at least 1"),
        (DAWS, {"loads": 2.5}, "loads=2.5: must be a whole number"),
        (DAWS, {"loads": 65}, "loads=65: must be at most 64"),
        (CCWS, {"base": 0}, "base=0: must be at least 1"),
        (CCWS, {"base": 1.5}, "base=1.5: must be a whole number"),
        (CCWS, {"base": 65_537}, "base=65537: must be at most 65536"),
        (CCWS, {"throttle": 0}, "throttle=0: must be at least 1"),
        (CCWS, {"throttle": 1 << 40}, "throttle=1099511627776: must be at most 65536"),
        (CCWS, {"entries": 0}, "entries=0: must be at least 1"),
        (CCWS, {"entries": 12}, "entries=12: must be a multiple of ways=8"),
        (CCWS, {"entries": 4}, "entries=4: must be a multiple of ways=8"),
        (CCWS, {"entries": 8192}, "entries=8192: must be at most 4096"),
        (CCWS, {"ways": 0}, "ways=0: must be at least 1"),
        (CCWS, {"ways": True}, "ways=True: must be a whole number"),
        (ABYP, {"entries": 0}, "entries=0: must be at least 1"),
        (ABYP, {"entries": 4097}, "entries=4097: must be at most 4096"),
        (ABYP, {"most": 0}, "most=0: must be at least 1"),
        (ABYP, {"threshold": 0}, "threshold=0: must be at least 1"),
        (ABYP, {"threshold": 16}, "threshold=16: must be at most most=15"),
        (ABYP, {"most": 7}, "threshold=8: must be at most most=7"),
        (GCache, {"period": 0}, "period=0: must be at least 1"),
        (GCache, {"period": 1e4}, "period=10000.0: must be a whole number"),
        (GCache, {"sharers": 0}, "sharers=0: must be at least 1"),
        (GCache, {"sharers": MAX_SMS + 1}, f"sharers={MAX_SMS + 1}: must be at most {MAX_SMS}"),
        (GCache, {"heat": 0}, "heat=0: must be at least 1"),
        (GCache, {"heat": True}, "heat=True: must be a whole number"),
        (GCache, {"heat": 65_537}, "heat=65537: must be at most 65536"),
        (APCM, {"mode": "bypassing"}, "unknown value for mode: 'bypassing'; did you mean 'bypass'"),
        (APCM, {"mode": None}, "unknown value for mode: 'None'"),
        (APCM, {"tags": 0}, "tags=0: must be at least 1"),
        (APCM, {"tags": 4097}, "tags=4097: must be at most 4096"),
        (APCM, {"loads": 0}, "loads=0: must be at least 1"),
        (APCM, {"loads": 2.5}, "loads=2.5: must be a whole number"),
        (APCM, {"loads": 4097}, "loads=4097: must be at most 4096"),
        (APCM, {"most": 1}, "most=1: must be at least 2"),
        (MRPB, {"signature": "warps"}, "unknown value for signature: 'warps'; did you mean 'warp'"),
        (MRPB, {"drain": "greedy"}, "unknown value for drain: 'greedy'; did you mean 'greedy-fixed'"),
        (MRPB, {"flush": 1}, "flush=1: must be True or False"),
        (MRPB, {"entries": 0}, "entries=0: must be at least 1"),
        (MRPB, {"latency": -1}, "latency=-1: must be at least 0"),
        (MRPB, {"latency": math.inf}, "latency=inf: must be a whole number"),
        (MRPB, {"bypass": "none"}, "unknown value for bypass: 'none'"),
    ],
)
def test_what_means_nothing_is_refused(cls, options, message):
    with pytest.raises(ConfigError) as error:
        cls(**options)
    assert str(error.value).startswith(message)


def test_options_are_keywords():
    with pytest.raises(TypeError):
        SWL(2)


def test_infinitely_many_entries_are_no_limit():
    assert MRPB(entries=math.inf) == MRPB(entries=None)


# ---- text


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("swl:warps=4", SWL(warps=4)),
        ("swl:best", SWL(warps="best")),
        ("swl:warps=best", SWL(warps="best")),
        ("pcal:extra=3,tokens=2", PCAL(tokens=2, extra=3)),
        ("pcal", PCAL(tokens="best", extra=2)),
        ("pcal:extra=1", PCAL(tokens="best", extra=1)),
        ("pcal:tokens=3", PCAL(tokens=3, extra=2)),
        ("dwt-cs", DWTCS()),
        ("dwt-cs:mpki=2.5,period=100,limit=3", DWTCS(mpki=2.5, period=100, limit=3)),
        ("dwt-cs:mpki=1e1,limit=none", DWTCS()),
        ("bypass-all", BypassAll()),
        ("bypass-on-stall:on=all", BypassOnStall(on="all")),
        ("streaming-bypass:threshold=.5", StreamingBypass(threshold=0.5)),
        ("streaming-bypass:caches=l1", StreamingBypass(caches="l1")),
        ("streaming-bypass:mpki=62.5", StreamingBypass(mpki=62.5)),
        ("pd:distance=+16", PD(distance=16)),
        ("ccws", CCWS()),
        ("dyncta:idle=0,low=100,high=200", DYNCTA(idle=0, low=100, high=200)),
        ("latency-limit:high=6,low=1.5", LatencyLimit(high=6, low=1.5)),
        ("pdp:most=64,every=2", PDP(most=64, every=2)),
        ("lazy-cta:lcs=false,group=4,baws=true", LazyCTA(lcs=False, group=4, baws=True)),
        ("owl:group=16,locality=false,blp=false", OWL(group=16, locality=False, blp=False)),
        ("cca", CCA()),
        ("cca:period=500,gain=0.05", CCA(period=500, gain=0.05)),
        ("daws", DAWS()),
        ("daws:share=1,reuse=0.25,converged=1,loads=8", DAWS(share=1, reuse=0.25, converged=1, loads=8)),
        ("ccws:base=50,throttle=4,entries=32,ways=4", CCWS(base=50, throttle=4, entries=32, ways=4)),
        ("abyp:entries=64,most=3,threshold=2", ABYP(entries=64, most=3, threshold=2)),
        ("g-cache", GCache()),
        ("g-cache:heat=7,period=500,sharers=2", GCache(period=500, sharers=2, heat=7)),
        ("apcm", APCM()),
        ("apcm:mode=protect,tags=64,loads=8", APCM(mode="protect", tags=64, loads=8)),
        (
            "mrpb:signature=warp-in-block,drain=greedy-round-robin,flush=false",
            MRPB(signature="warp-in-block", drain="greedy-round-robin", flush=False),
        ),
        ("mrpb:entries=inf,latency=0,bypass=none,flush=true", MRPB(entries=None, latency=0, bypass=None)),
    ],
)
def test_text_becomes_a_policy(text, policy):
    assert parse_policy(text) == policy


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("swk:warps=4", "unknown policy 'swk'; did you mean 'swl'?"),
        ("streaming", "unknown policy 'streaming'; did you mean 'streaming-bypass'?"),
        ("", "unknown policy ''; known: swl, pcal"),
        ("pric", "policy 'pric': is an index function, which belongs to the GPU: l1.index=pric"),
        ("swl", "policy 'swl': option 'warps' is missing"),
        ("pcal:tokens=0,extra=0", "policy 'pcal': tokens=0, extra=0: some warp must be allowed to load"),
        ("swl:warp=4", "unknown option of policy 'swl': 'warp'; did you mean 'warps'?"),
        ("bypass-all:on=all", "policy 'bypass-all': has no options; leave out 'on'"),
        ("swl:4", "policy 'swl': '4' must be option=value"),
        ("swl:", "policy 'swl': '' must be option=value"),
        ("swl:warps=", "policy 'swl': 'warps=' must be option=value"),
        ("swl:=4", "policy 'swl': '=4' must be option=value"),
        ("pd:distance=1,", "policy 'pd': '' must be option=value"),
        ("pd:distance=1,distance=2", "policy 'pd': 'distance' is given twice"),
        ("pd:distance=10K", "policy 'pd': distance='10K': must be a whole number"),
        ("pd:distance=inf", "policy 'pd': distance=inf: must be a whole number"),
        ("mrpb:drain=shortest", "policy 'mrpb': unknown value for drain: 'shortest'; did you mean 'longest'?"),
        ("dyncta:high=100", "policy 'dyncta': low=128: must be at most high=100"),
        ("latency-limit:high=1.5", "policy 'latency-limit': low=2.0: must be at most high=1.5"),
        ("pdp:distance=8", "unknown option of policy 'pdp': 'distance'"),
        ("lazy-cta:lcs=1", "policy 'lazy-cta': lcs=1: must be True or False"),
        ("owl:warps=8", "unknown option of policy 'owl': 'warps'"),
        ("daws:share=2", "policy 'daws': share=2: must be at most 1"),
        ("ccws:entries=12", "policy 'ccws': entries=12: must be a multiple of ways=8"),
        ("abyp:threshold=16", "policy 'abyp': threshold=16: must be at most most=15"),
        ("g-cache:hot=3", "unknown option of policy 'g-cache': 'hot'"),
        ("g-cache:heat=none", "policy 'g-cache': heat=None: must be a whole number"),
        ("apcm:mode=all", "policy 'apcm': unknown value for mode: 'all'"),
        ("apcm:entries=8", "unknown option of policy 'apcm': 'entries'"),
        ("streaming-bypass:caches=l3", "policy 'streaming-bypass': unknown value for caches: 'l3'"),
        ("swl:warps=worst", "policy 'swl': warps='worst': must be a whole number or 'best'"),
    ],
)
def test_text_that_means_nothing_is_refused(text, message):
    with pytest.raises(ConfigError) as error:
        parse_policy(text)
    assert str(error.value).startswith(message)


# ---- policies together


def test_policies_of_different_kinds_go_together():
    together = (SWL(warps=2), PD(), MRPB())
    check_policies(together)
    assert [policy_of_kind(together, kind) for kind in ("throttling", "admission", "reordering")] == list(together)
    assert policy_of_kind((), "admission") is None


def test_two_policies_of_one_kind_are_refused():
    with pytest.raises(ConfigError, match="'pd' and 'bypass-all' are both of the kind 'admission'"):
        check_policies((PD(), MRPB(), BypassAll()))


def test_the_options_of_a_simulation_keep_policies_as_a_tuple():
    assert rd.SimulationOptions().policies == ()
    assert rd.SimulationOptions(policies=[rd.policies.SWL(warps=2)]).policies == (SWL(warps=2),)
    assert rd.SimulationOptions(policies=PD()).policies == (PD(),)
    assert rd.SimulationOptions(policies="apcm-swl").policies == (APCM(), SWL(warps="best"))
    assert rd.SimulationOptions(policies=[{"name": "pd", "distance": 4}]).policies == (PD(distance=4),)


def test_every_policy_has_settings_for_the_compiled_machine():
    for policy in EXAMPLES:
        if not policy.needs_best_limit:
            assert all(isinstance(value, int | float | str) for value in policy.settings().values())
    assert machine_settings((PD(), MRPB())) == {"admission": PD().settings(), "reordering": MRPB().settings()}


def test_a_policy_without_settings_is_refused_with_its_name():
    class Unknown(Policy):
        name = "unknown"

    with pytest.raises(ConfigError, match="policy 'unknown': the compiled machine has no settings for it"):
        Unknown().settings()


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ((PD(), PD()), "both of the kind 'admission'"),
        ((Pric(),), "belongs to the GPU's l1.index"),
        (("swl",), "policy 'swl': option 'warps' is missing"),
        (("dwt-pric",), "belongs to the GPU's l1.index"),
        ((MRPB,), "is neither a text, nor a policy, nor an index function"),
        (({"name": "pdd"},), "unknown policy 'pdd'; did you mean 'pd'"),
        ("swl", "policy 'swl': option 'warps' is missing"),
        (None, "policies: None is neither a text, nor a policy, nor a sequence of them"),
    ],
)
def test_the_options_of_a_simulation_refuse_what_is_no_policies(policies, message):
    with pytest.raises(ConfigError, match=message):
        rd.SimulationOptions(policies=policies)
