"""Check the claims of Jia, Shaw and Martonosi (HPCA 2014) about MRPB on a part of c2050-base-s; one function each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from validation.common.claims import Claim, values
from validation.policies.claims import HARMS, HELPS, Counters, mean
from validation.policies.measure import Measurement, group

JIA = "Jia et al., HPCA 2014"
MACHINE = "jia-part"
IW, XW, CI = "intra_warp", "cross_warp", "insensitive"
SHORT, LONG = "intra_warp_short", "intra_warp_long"
GROUPS = (CI, IW, XW)

QUEUES = {1: MACHINE, 2: "jia-queue-2", 4: "jia-queue-4", 6: "jia-queue-6", 16: "jia-queue-16"}
"""Machines by the number of instructions that fit into the load/store unit."""

DRAINS = ("fixed", "round-robin", "longest", "greedy-fixed", "greedy-round-robin", "greedy-longest")
FINAL = "mrpb"
REORDERING = "mrpb:bypass=none"
BYPASSING = "bypass-on-stall"


def unlimited(signature: str = "warp", drain: str = "fixed") -> str:
    """Return the reordering without bypassing that figures 8 and 9 explore."""
    return f"mrpb:signature={signature},drain={drain},entries=none,flush=false,latency=3,bypass=none"


def means(counters: Counters, policies: str, groups: Iterable[str] = GROUPS) -> list[float]:
    """Return the mean speedup of each group under policies."""
    return [mean(counters.faster(MACHINE, of, policies)) for of in groups]


def overall(counters: Counters, policies: str) -> float:
    """Return the mean speedup of all twelve kernels."""
    return mean([times for of in GROUPS for times in counters.faster(MACHINE, of, policies)])


# ---- reordering


def signature(counters: Counters, name: str, of: str, helps: bool) -> Claim:
    """Figure 8: one signature and one group."""
    faster = counters.faster(MACHINE, of, unlimited(signature=name))
    title = {"warp": "warp ID", "block": "block ID", "warp-in-block": "in-block warp ID"}[name]
    who = {IW: "the intra-warp (IW) group", XW: "the cross-warp (XW) group", SHORT: "ATAX and BICG with rows of 128"}[
        of
    ]
    return Claim(
        f"{JIA}, section 5.1, figure 8",
        f"{title} as the signature {'improves' if helps else 'does not improve'} {who}",
        f"times as fast: {values(group(of), faster)}; mean {mean(faster):.2f}",
        (mean(faster) >= HELPS) == helps,
    )


def warp_is_best(counters: Counters) -> Claim:
    """Figure 8: over all."""
    speeds = {name: overall(counters, unlimited(signature=name)) for name in ("warp", "block", "warp-in-block")}
    return Claim(
        f"{JIA}, section 5.1, figure 8",
        "over all kernels, warp ID is the best signature",
        "times as fast: " + values(speeds, speeds.values(), ".3f"),
        speeds["warp"] >= max(speeds.values()),
    )


def drain(counters: Counters) -> Claim:
    """Figure 9: the six policies."""
    speeds = {name: overall(counters, unlimited(drain=name)) for name in DRAINS}
    return Claim(
        f"{JIA}, section 5.2, figure 9",
        "the fixed order is the best drain policy on average",
        "times as fast: " + values(speeds, speeds.values(), ".3f"),
        speeds["fixed"] >= max(speeds.values()),
    )


def longest(counters: Counters) -> Claim:
    """Figure 9: longest first."""
    speeds = {name: means(counters, unlimited(drain=name), [XW])[0] for name in DRAINS}
    return Claim(
        f"{JIA}, section 5.2, figure 9",
        "with unlimited queues, longest-first does very well on the cross-warp group",
        "times as fast: " + values(speeds, speeds.values()),
        max(speeds["longest"], speeds["greedy-longest"]) >= max(HELPS, 0.95 * max(speeds.values())),
    )


def longest_limited(counters: Counters) -> Claim:
    """Section 5.2: longest first with queues of 8."""
    free, limited = (
        mean(counters.faster(MACHINE, XW, one, over=other))
        for one, other in (
            (unlimited(drain="longest"), unlimited()),
            (REORDERING + ",drain=longest", REORDERING),
        )
    )
    return Claim(
        f"{JIA}, section 5.2",
        "with 8 entries, longest-first has less of an advantage on the cross-warp group",
        f"times as fast as the fixed order: {free:.2f} without limit, {limited:.2f} with 8",
        limited < free,
    )


def latency(counters: Counters) -> Claim:
    """Figure 12: latencies of 3 and 18 cycles."""
    ratios = [
        fast.cycles / slow.cycles
        for of in GROUPS
        for fast, slow in zip(
            counters.of(MACHINE, of, "mrpb:latency=3"), counters.of(MACHINE, of, "mrpb:latency=18"), strict=True
        )
    ]
    kernels = [kernel for of in GROUPS for kernel in group(of)]
    return Claim(
        f"{JIA}, section 5.3, figure 12",
        "latencies of the buffer of 3 to 18 cycles make little difference (here at most 5 % on average)",
        f"speed with 18 by that with 3: mean {mean(ratios):.3f}, {values(kernels, ratios)}",
        mean(ratios) >= 0.95,
    )


# ---- bypassing, and both


def bypassing(counters: Counters, of: str, helps: bool) -> Claim:
    """Figure 13: bypass-on-stall for associativity."""
    faster = counters.faster(MACHINE, of, BYPASSING)
    says = {
        IW: "bypassing on associativity stalls works well for the intra-warp group",
        XW: "it is ineffective for the cross-warp group",
    }[of]
    return Claim(
        f"{JIA}, section 5.4, figure 13",
        says,
        f"times as fast: {values(group(of), faster)}",
        min(faster) >= HELPS if helps else mean(faster) < HELPS,
    )


def less_aggressive(counters: Counters) -> Claim:
    """Figure 13: the two options on the insensitive kernels."""
    some, every = (means(counters, name, [CI])[0] for name in (BYPASSING, "bypass-on-stall:on=all"))
    return Claim(
        f"{JIA}, section 5.4, figure 13",
        "on cache-insensitive kernels bypassing on associativity stalls does less harm than on all stalls",
        f"times as fast: {some:.3f} and {every:.3f}",
        some >= every,
    )


def reordering(counters: Counters, entries: int) -> Claim:
    """Section 5.5: reordering handles cross-warp contention."""
    faster = counters.faster(MACHINE, XW, REORDERING + (f",entries={entries}" if entries != 8 else ""))
    return Claim(
        f"{JIA}, section 5.5",
        f"reordering alone ({entries} entries, flush) helps the cross-warp group",
        f"times as fast: {values(group(XW), faster)}",
        mean(faster) >= HELPS,
    )


def combined(counters: Counters, groups: tuple[str, ...], who: str) -> Claim:
    """Section 5.5: both together."""
    names = (REORDERING, BYPASSING, FINAL)
    one, other, both = (
        mean([t for of in groups for t in counters.faster(MACHINE, of, policies)]) for policies in names
    )
    return Claim(
        f"{JIA}, section 5.5",
        f"reordering and bypassing together are faster than either alone ({who})",
        f"times as fast: {one:.3f}, {other:.3f}, together {both:.3f}",
        both > max(one, other),
    )


def no_harm(counters: Counters) -> Claim:
    """Figure 14: no kernel below the baseline."""
    slower = {
        f"{kernel} ({of.replace('_', '-')})": times
        for of in GROUPS
        for kernel, times in zip(group(of), counters.faster(MACHINE, of, FINAL), strict=True)
        if times < HARMS
    }
    return Claim(
        f"{JIA}, section 5.5, figure 14",
        f"MRPB makes no kernel slower than the baseline (here by more than {1 - HARMS:.0%})",
        f"below {HARMS}: {values(slower, slower.values(), '.3f') or 'none'}",
        not slower,
    )


def answers(counters: Counters) -> Claim:
    """Section 5.5: traffic, which GPGPU-Sim 3 counts in flits, although it calls them packets."""
    pairs = [
        pair for of in GROUPS for pair in zip(counters.of(MACHINE, of), counters.of(MACHINE, of, FINAL), strict=True)
    ]
    left = [flits(after) / flits(before) for before, after in pairs]
    messages = mean([after.answers / before.answers for before, after in pairs])
    kernels = [kernel for of in GROUPS for kernel in group(of)]
    return Claim(
        f"{JIA}, section 5.5",
        "MRPB reduces the traffic from the L2 to the L1, by 26.7 % on average",
        f"flits left: {mean(left):.2f} on average; {values(kernels, left)}; messages left: {messages:.2f}",
        mean(left) < 1,
    )


def queue_sweep(counters: Counters) -> str:
    """Return the table of the numbers of instructions that fit into the load/store unit."""
    policies = (BYPASSING, FINAL)
    lines = [
        "Speed by the number of instructions that fit into the load/store unit (`core.ldst_queue`): times as fast as\n"
        "the baseline with the same unit, geometric means over the intra-warp and the cross-warp group.\n",
        f"| instructions | {' | '.join(f'{name}, {of}' for name in policies for of in ('IW', 'XW'))} |",
        "|---:|" + "---:|" * 2 * len(policies),
    ]
    for number, machine in QUEUES.items():
        speeds = [mean(counters.faster(machine, of, name)) for name in policies for of in (IW, XW)]
        lines.append(f"| {number} | {' | '.join(f'{times:.2f}' for times in speeds)} |")
    return "\n".join(lines)


def row_lengths(counters: Counters) -> str:
    """Return the table of the intra-warp group with rows of 1,024 elements and with those of the paper's figure 2."""
    policies = {"warp ID": unlimited(), BYPASSING: BYPASSING, FINAL: FINAL}
    lines = [
        "The intra-warp group with rows of 2,048 elements, as in the paper's figure 2, and in brackets with rows of\n"
        "1,024: times as fast as the baseline, with warp ID as the signature, with bypassing, and with both.\n",
        f"| kernel | {' | '.join(policies)} |",
        "|---|" + "---:|" * len(policies),
    ]
    columns = [zip(*(counters.faster(MACHINE, of, n) for of in (LONG, IW)), strict=True) for n in policies.values()]
    for kernel, *pairs in zip(group(IW), *columns, strict=True):
        lines.append(f"| {kernel} | {' | '.join(f'{long:.2f} [{short:.2f}]' for long, short in pairs)} |")
    return "\n".join(lines)


def flits(run: Measurement) -> int:
    """Return the flits of 32 bytes of all answers: one for the header, which has 8 bytes, and those of the data."""
    return run.answers + (run.answer_bytes - 8 * run.answers) // 32


def static_limit(counters: Counters) -> Claim:
    """Figure 14: CCWS-SWL."""
    mrpb, swl = (mean([t for of in (IW, XW) for t in counters.faster(MACHINE, of, n)]) for n in (FINAL, "swl:best"))
    return Claim(
        f"{JIA}, section 5.5, figure 14",
        "MRPB is faster than the best static warp limit (CCWS-SWL) on average (here over the contended groups)",
        f"times as fast as the baseline: {mrpb:.2f} and {swl:.2f}",
        mrpb > swl,
    )


CLAIMS: dict[str, Callable[[Counters], Claim]] = {
    "warp ID, IW": lambda counters: signature(counters, "warp", IW, True),
    "warp ID, XW": lambda counters: signature(counters, "warp", XW, True),
    "block ID, IW": lambda counters: signature(counters, "block", IW, False),
    "block ID, XW": lambda counters: signature(counters, "block", XW, True),
    "in-block warp ID, IW": lambda counters: signature(counters, "warp-in-block", IW, True),
    "in-block warp ID, XW": lambda counters: signature(counters, "warp-in-block", XW, False),
    "warp ID, IW, short rows": lambda counters: signature(counters, "warp", SHORT, True),
    "block ID, IW, short rows": lambda counters: signature(counters, "block", SHORT, False),
    "in-block warp ID, IW, short rows": lambda counters: signature(counters, "warp-in-block", SHORT, True),
    "best signature": warp_is_best,
    "best drain": drain,
    "longest first": longest,
    "longest first, 8 entries": longest_limited,
    "latency of the buffer": latency,
    "bypassing, IW": lambda counters: bypassing(counters, IW, True),
    "bypassing, XW": lambda counters: bypassing(counters, XW, False),
    "bypassing, insensitive": less_aggressive,
    "reordering, XW": lambda counters: reordering(counters, 8),
    "reordering, XW, 32 entries": lambda counters: reordering(counters, 32),
    "together": lambda counters: combined(counters, GROUPS, "all twelve kernels"),
    "together, contended": lambda counters: combined(counters, (IW, XW), "the intra-warp and cross-warp groups"),
    "no harm": no_harm,
    "traffic": answers,
    "MRPB and SWL": static_limit,
}
"""The function of each claim by the name of the claim."""
