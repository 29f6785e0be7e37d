"""Check the claims of Jia, Shaw and Martonosi (HPCA 2014) on c2050-base-s and c2050-base-l; one function per claim."""

from __future__ import annotations

from collections.abc import Callable

from validation.common.claims import MAX_SHARE_LEFT, Claim, values
from validation.simulator.claims import Counters
from validation.simulator.measure import group

JIA = "Jia et al., HPCA 2014"


def insensitive(counters: Counters) -> Claim:
    """Figure 4: the cache-insensitive kernels."""
    low = counters.of("c2050-base-s", group("insensitive"))
    high = counters.of("c2050-base-s", [*group("intra_warp"), *group("cross_warp")])
    most, least = max(one.mpki for one in low), min(one.mpki for one in high)
    return Claim(
        f"{JIA}, section 2.4, figure 4",
        "2dconv, 2mm, 3dconv, 3mm, fdtd and gemm have low MPKI",
        f"at most {most:.0f}; atax, bicg, gesummv, mvt, syr2k and syrk have at least {least:.0f}",
        most < least / 2,
    )


def intra_warp(counters: Counters, machine: str) -> Claim:
    """Figure 4: evictions by the owner of the line."""
    kernels = group("intra_warp")
    found = counters.of(machine, kernels)
    shares = [100 * one.intra_warp / one.evictions for one in found]
    return Claim(
        f"{JIA}, section 2.4, figure 4",
        f"atax, bicg, gesummv and mvt have mostly intra-warp contention ({machine})",
        "percent of evictions by the same warp: " + values(kernels, shares, ".0f"),
        min(shares) > 50,
    )


def intra_warp_long(counters: Counters) -> Claim:
    """Figure 4: the same with longer rows."""
    kernels = group("short")
    shares = [100 * one.intra_warp / one.evictions for one in counters.of("c2050-base-l", kernels, "long")]
    return Claim(
        f"{JIA}, section 2.4, figure 4",
        "the same with rows of 2048 elements (c2050-base-l)",
        "percent of evictions by the same warp: " + values(kernels, shares, ".0f"),
        min(shares) > 50,
    )


def within_the_block(counters: Counters) -> Claim:
    """Figure 4: the weak cross-warp part."""
    found = counters.of("c2050-base-s", group("intra_warp"))
    shares = [100 * one.cross_block / one.evictions for one in found]
    return Claim(
        f"{JIA}, section 2.4, figure 4",
        "what cross-warp contention these have is within a block, as an SM has one at a time",
        "percent of evictions across blocks: " + values(group("intra_warp"), shares, ".1f"),
        max(shares) < 5,
    )


def cross_warp(counters: Counters) -> Claim:
    """Figure 4: syr2k and syrk."""
    found = counters.of("c2050-base-s", group("cross_warp"))
    shares = [100 * (1 - one.intra_warp / one.evictions) for one in found]
    return Claim(
        f"{JIA}, section 2.4, figure 4",
        "more than half of the misses of syr2k and syrk are due to cross-warp contention",
        "percent of evictions: " + values(group("cross_warp"), shares, ".0f"),
        min(shares) > 50,
    )


def full_associativity(counters: Counters, machine: str) -> Claim:
    """Figure 5: the second bar, by evictions."""
    kernels = group("intra_warp")
    before, after = (counters.of(name, kernels) for name in (machine, f"{machine}-full"))
    left = [100 * b.intra_warp / a.intra_warp for a, b in zip(before, after, strict=True)]
    return Claim(
        f"{JIA}, section 2.4, figure 5",
        f"full associativity eliminates the intra-warp contention of atax, bicg, gesummv and mvt ({machine})",
        "percent of intra-warp evictions that are left: " + values(kernels, left, ".1f"),
        max(left) < 100 * MAX_SHARE_LEFT,
    )


def full_associativity_is_faster(counters: Counters) -> Claim:
    """Figure 5: the second bar, by IPC."""
    kernels = group("intra_warp")
    faster = counters.speedups("c2050-base-s-full", "c2050-base-s", kernels)
    return Claim(
        f"{JIA}, section 2.4, figure 5",
        "these four gain substantially in IPC when the cache becomes fully associative (Base-S)",
        "times faster: " + values(kernels, faster, ".1f"),
        min(faster) > 1.25,
    )


def most_for_large(counters: Counters) -> Claim:
    """Figure 5: Base-S against Base-L."""
    kernels = group("intra_warp")
    small, large = (counters.speedups(f"{m}-full", m, kernels) for m in ("c2050-base-s", "c2050-base-l"))
    return Claim(
        f"{JIA}, section 2.4, figure 5",
        "that is particularly true for Base-L",
        f"times faster on Base-L: {values(kernels, large, '.1f')}; on Base-S: {values(kernels, small, '.1f')}",
        all(one > other for one, other in zip(large, small, strict=True)),
    )


def most_for_large_long(counters: Counters) -> Claim:
    """Figure 5: the same with at most one block on an SM."""
    kernels = group("short")
    small, large = (counters.speedups(f"{m}-full", m, kernels, "long") for m in ("c2050-base-s", "c2050-base-l"))
    return Claim(
        f"{JIA}, section 2.4, figure 5",
        "the same with one block at most on an SM, and rows of 2048 elements",
        f"times faster on Base-L: {values(kernels, large, '.1f')}; on Base-S: {values(kernels, small, '.1f')}",
        all(one > other for one, other in zip(large, small, strict=True)),
    )


def capacity_for_cross_warp(counters: Counters) -> Claim:
    """Figure 5: the third bar."""
    kernels = group("cross_warp")
    full, vast = (counters.speedups(f"c2050-base-s-{name}", "c2050-base-s", kernels) for name in ("full", "vast"))
    by = [values(kernels, faster, ".2f") for faster in (full, vast)]
    return Claim(
        f"{JIA}, section 2.4, figure 5",
        "full associativity helps syr2k and syrk, and 1024 times the capacity helps even more (Base-S)",
        f"times faster, fully associative: {by[0]}; larger as well: {by[1]}",
        all(1 < one < other for one, other in zip(full, vast, strict=True)),
    )


def padding_leaves_mshrs(counters: Counters) -> Claim:
    """Section 2.3: padding."""
    kernels = group("intra_warp")
    found = counters.of("c2050-base-s", kernels, "padded")
    conflicts = max(one.failure_rates["line_alloc"] for one in found)
    others = min(one.failure_rates["mshr_entry"] + one.failure_rates["miss_queue"] for one in found)
    return Claim(
        f"{JIA}, section 2.3",
        "with padded rows set conflicts no longer occur, but MSHRs and miss queues limit what is processed",
        f"failures per 1000 cycles: for a way at most {conflicts:.0f}, for an MSHR or the queue at least {others:.0f}",
        conflicts < MAX_SHARE_LEFT * others,
    )


CLAIMS: dict[str, Callable[[Counters], Claim]] = {
    "insensitive": insensitive,
    "intra-warp, Base-S": lambda counters: intra_warp(counters, "c2050-base-s"),
    "intra-warp, Base-L": lambda counters: intra_warp(counters, "c2050-base-l"),
    "intra-warp, Base-L, long rows": intra_warp_long,
    "within the block": within_the_block,
    "cross-warp": cross_warp,
    "full associativity, Base-S": lambda counters: full_associativity(counters, "c2050-base-s"),
    "full associativity, Base-L": lambda counters: full_associativity(counters, "c2050-base-l"),
    "full associativity is faster": full_associativity_is_faster,
    "most for Base-L": most_for_large,
    "most for Base-L, long rows": most_for_large_long,
    "capacity for cross-warp": capacity_for_cross_warp,
    "padding": padding_leaves_mshrs,
}
"""The function of each claim by the name of the claim."""
