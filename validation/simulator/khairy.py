"""Check the claims of Khairy, Zahran and Wassal (GPGPU-8 2015) on gtx480-khairy; one function per claim."""

from __future__ import annotations

from collections.abc import Callable

from validation.common.claims import MAX_SHARE_LEFT, Claim, values
from validation.simulator.claims import Counters, contention, most_failed
from validation.simulator.measure import SUITE, group
from validation.simulator.scenarios import suite

KHAIRY = "Khairy et al., GPGPU-8 2015"
MACHINE = "gtx480-khairy"


def contended(counters: Counters, kind: str) -> list[str]:
    """Return the kernels of the suite that are contended by conflicts ("conflict") or are "thrashing"."""
    return [kernel for kernel in suite() if contention(counters.get(MACHINE, kernel)) == kind]


def named_conflict(counters: Counters, sizes: str) -> Claim:
    """Section 3.2: 2DCONV and MM."""
    found = counters.of(MACHINE, group("conflict"), sizes)
    rows = "" if sizes == SUITE else ", the same with rows of 1024 and 4096 elements"
    return Claim(
        f"{KHAIRY}, section 3.2, figure 4(a)",
        f"2DCONV and MM have many `line_alloc` failures, by conflicts{rows}",
        "most frequent failure: " + most_failed(found),
        all(one.most_failed == "line_alloc" and contention(one) == "conflict" for one in found),
    )


def conflict(counters: Counters) -> Claim:
    """Section 3.2: conflicts, by the rule of `contention`."""
    found = counters.of(MACHINE, contended(counters, "conflict"))
    others = [one for one in found if one.most_failed != "line_alloc"]
    return Claim(
        f"{KHAIRY}, section 3.2",
        "conflicts cause a high level of `line_alloc` failures",
        f"the most frequent failure in {len(found) - len(others)} of {len(found)} conflict kernels"
        + (f"; not in {most_failed(others)}" if others else ""),
        not others,
    )


def thrashing(counters: Counters) -> Claim:
    """Section 3.2: thrashing, by the rule of `contention`, on the sizes of the suite."""
    found = counters.of(MACHINE, contended(counters, "thrashing"))
    return Claim(
        f"{KHAIRY}, section 3.2",
        "thrashing causes a high level of `mshr_entry` failures",
        "most frequent failure: " + most_failed(found),
        all(one.most_failed == "mshr_entry" for one in found),
    )


def thrashing_without_conflicts(counters: Counters) -> Claim:
    """Section 3.2: thrashing "with no conflict contention"."""
    kernels = [*group("intra_warp"), *group("cross_warp")]
    found = counters.of(MACHINE, kernels, "padded")
    rates = [one.failure_rates for one in found]
    return Claim(
        f"{KHAIRY}, section 3.2",
        "the same without conflicts: rows of an odd number of lines",
        "`mshr_entry` and `line_alloc` per 1000 cycles: "
        + ", ".join(
            f"{k} {r['mshr_entry']:.0f} and {r['line_alloc']:.0f}" for k, r in zip(kernels, rates, strict=True)
        ),
        all(one.most_failed == "mshr_entry" and contention(one) == "thrashing" for one in found),
    )


def thrashing_and_mpki(counters: Counters) -> Claim:
    """Figure 4(b)."""
    kernels = contended(counters, "thrashing")
    least = min(one.mpki for one in counters.of(MACHINE, kernels))
    others = counters.of(MACHINE, [kernel for kernel in suite() if kernel not in kernels])
    above = [one.kernel for one in others if one.mpki > least]
    return Claim(
        f"{KHAIRY}, section 3.2, figure 4(b)",
        "thrashing kernels have a higher MPKI than others",
        f"at least {least:.0f}; as much have also {', '.join(above) or 'none'}",
        not above,
    )


def both(counters: Counters) -> Claim:
    """Section 3.2: SYRK and GESUMMV."""
    found = counters.of(MACHINE, group("both"))
    high = values(group("both"), [one.mpki for one in found], ".0f")
    middle = sorted(one.mpki for one in counters.of(MACHINE, suite()))[len(suite()) // 2]
    return Claim(
        f"{KHAIRY}, section 3.2",
        "SYRK and GESUMMV suffer from both: `line_alloc` failures and MPKI are high",
        f"{most_failed(found)}; MPKI {high} (median {middle:.0f})",
        all(one.most_failed == "line_alloc" and one.mpki > middle for one in found),
    )


def associativity_helps(counters: Counters) -> Claim:
    """Section 3.2: the effect of associativity on conflicts."""
    kernels = contended(counters, "conflict")
    faster = counters.speedups(f"{MACHINE}-full", MACHINE, kernels)
    slower = [kernel for kernel, times in zip(kernels, faster, strict=True) if times < 1]
    return Claim(
        f"{KHAIRY}, section 3.2",
        "more associativity alleviates conflict contention",
        f"fully associative, {len(kernels)} conflict kernels are {min(faster):.2f} to {max(faster):.2f} times as fast; "
        f"slower {', '.join(slower) or 'none'}",
        not slower,
    )


def capacity_helps(counters: Counters) -> Claim:
    """Section 3.2: the effect of capacity on thrashing."""
    kernels = contended(counters, "thrashing")
    pairs = zip(counters.of(f"{MACHINE}-vast", kernels), counters.of(f"{MACHINE}-full", kernels), strict=True)
    left = [100 * vast.mpki / full.mpki for vast, full in pairs]
    return Claim(
        f"{KHAIRY}, section 3.2",
        "more capacity alleviates thrashing",
        "percent of MPKI left with 1024 times the capacity, fully associative both: " + values(kernels, left, ".0f"),
        max(left) < 100,
    )


def pric(counters: Counters) -> Claim:
    """Section 4.3: the index function."""
    kernels = [k for k in contended(counters, "conflict") if counters.get(MACHINE, k).most_failed == "line_alloc"]
    before, after = (counters.of(name, kernels) for name in (MACHINE, f"{MACHINE}-pric"))
    left = [100 * b.associativity / a.associativity for a, b in zip(before, after, strict=True)]
    rates = [[one.failure_rates["line_alloc"] for one in found] for found in (before, after)]
    fails = [100 * b / a for a, b in zip(*rates, strict=True)]
    return Claim(
        f"{KHAIRY}, section 4.3",
        "PRIC alleviates associativity stalls and eliminates conflict misses",
        f"at most {max(fails):.0f} % of `line_alloc` failures per cycle are left, {max(left):.0f} % of conflict misses",
        max(left) < 100 * MAX_SHARE_LEFT and max(fails) < 100 * MAX_SHARE_LEFT,
    )


CLAIMS: dict[str, Callable[[Counters], Claim]] = {
    "conflict, as named": lambda counters: named_conflict(counters, SUITE),
    "conflict, as named, long rows": lambda counters: named_conflict(counters, "long"),
    "conflict": conflict,
    "thrashing": thrashing,
    "thrashing without conflicts": thrashing_without_conflicts,
    "thrashing and MPKI": thrashing_and_mpki,
    "both": both,
    "associativity helps": associativity_helps,
    "capacity helps": capacity_helps,
    "PRIC": pric,
}
"""The function of each claim by the name of the claim."""
