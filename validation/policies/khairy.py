"""Check the claims of Khairy, Zahran and Wassal (GPGPU-8 2015) on gtx480-khairy; one function per claim."""

from __future__ import annotations

from collections.abc import Callable

from validation.common.claims import Claim, values
from validation.policies.claims import Counters, harmonic
from validation.policies.measure import group

KHAIRY = "Khairy et al., GPGPU-8 2015"
MACHINE = "khairy"
PART = "khairy-part"

LIMITS = {"spmv": 1, "kmeans.row": 1, "iix": 2, "syrk": 2, "gesummv": 1}
"""Table 3 without BFS: warps per scheduler that SWT and DWT-CS find."""

L1_ONLY = "streaming-bypass:caches=l1"

HELPS_ONE = 1.1
"""Least speedup of a single kernel that a policy helps."""

CLOSE = 0.9
"""Least relative speed of a machine that comes close to another."""


# ---- streaming


def streams(counters: Counters) -> Claim:
    """Figure 2: BLK, Sprod and VAdd without caches."""
    kernels = group("streaming")[:3]
    faster = counters.faster(MACHINE, "streaming", "bypass-all")[:3]
    return Claim(
        f"{KHAIRY}, section 3.2, figure 2",
        "BLK, SProd and VAdd are faster if all loads bypass the caches",
        "times as fast with bypass-all (L1 only): " + values(kernels, faster, ".3f"),
        min(faster) > 1,
    )


def long_streams(counters: Counters) -> Claim:
    """Figure 2 and section 4.1: VAdd on vectors that take several periods."""
    ((every,), (some,)) = (
        counters.faster(MACHINE, "streaming_long", name) for name in ("bypass-all", "streaming-bypass")
    )
    (one,) = counters.of(MACHINE, "streaming_long", "streaming-bypass")
    return Claim(
        f"{KHAIRY}, sections 3.2 and 4.1",
        "VAdd is faster if its loads bypass, and is detected (vectors of 500,000 elements, more than two periods)",
        f"times as fast: bypass-all {every:.3f}, streaming-bypass {some:.3f}; "
        f"{100 * one.bypassed / (one.bypassed + one.loads):.0f} % of its loads bypass",
        min(every, some) > 1 and one.bypassed > one.loads,
    )


def streams_of_l2(counters: Counters) -> Claim:
    """Figure 2: HS and CONV without the L1."""
    kernels = group("streaming")[5:]
    faster = counters.faster(MACHINE, "streaming", "bypass-all")[5:]
    return Claim(
        f"{KHAIRY}, section 3.2",
        "for HS and CONV it is better to bypass the L1",
        "times as fast with bypass-all: " + values(kernels, faster),
        min(faster) > 1,
    )


def closed_l2(counters: Counters) -> Claim:
    """Section 3.2: streams in both caches, and streams in the L1 alone."""
    (long,) = counters.faster(MACHINE, "streaming_long", "streaming-bypass", over=L1_ONLY)
    found = dict(
        zip(group("streaming"), counters.faster(MACHINE, "streaming", "streaming-bypass", L1_ONLY), strict=True)
    )
    faster = {"vectoradd (long)": long, **{kernel: found[kernel] for kernel in ("blackscholes", "scalarprod")}}
    others = {kernel: found[kernel] for kernel in group("streaming")[5:]}
    return Claim(
        f"{KHAIRY}, sections 3.2 and 4.1",
        "BLK, SProd and VAdd are faster if the L2 closes to them, too; HS and CONV, which hit in the L2, keep it",
        f"times as fast as with the L1 alone: {values(faster, faster.values(), '.3f')}; "
        f"{values(others, others.values(), '.3f')}",
        min(faster.values()) > 1 and all(abs(times - 1) < 0.01 for times in others.values()),
    )


def detected(counters: Counters) -> Claim:
    """Section 4.1: the L1 is closed to streams."""
    found = counters.of(MACHINE, "streaming", "streaming-bypass")
    shares = [100 * one.bypassed / (one.bypassed + one.loads) for one in found]
    return Claim(
        f"{KHAIRY}, section 4.1",
        "streaming kernels are detected and their loads bypass",
        "percent of loads that bypass: " + values(group("streaming"), shares, ".0f"),
        min(shares) > 50,
    )


def streaming_bypass(counters: Counters) -> Claim:
    """Section 4.1: speedups of streaming kernels."""
    faster = counters.faster(MACHINE, "streaming", "streaming-bypass")
    return Claim(
        f"{KHAIRY}, sections 4.1 and 5, figure 8",
        "streaming kernels become 1.2 times as fast on average: more than 1, and none slower",
        f"harmonic mean {harmonic(faster):.2f}: " + values(group("streaming"), faster),
        harmonic(faster) > 1 and min(faster) > 0.995,
    )


def friendly_cache(counters: Counters) -> Claim:
    """Section 3.2: the cache-friendly kernels without the L1."""
    faster = counters.faster(MACHINE, "friendly", "bypass-all")
    return Claim(
        f"{KHAIRY}, section 3.2",
        "PEst, B+tree and BP are much better with caches than bypassing",
        "times as fast with bypass-all (L1 only): " + values(group("friendly"), faster),
        max(faster) < 1,
    )


def friendly(counters: Counters) -> Claim:
    """Section 5: no harm."""
    faster = counters.faster(MACHINE, "friendly", "dwt-pric")
    return Claim(
        f"{KHAIRY}, section 5, figure 8",
        "DWT-PRIC makes no cache-friendly kernel slower",
        "times as fast: " + values(group("friendly"), faster, ".3f"),
        min(faster) > 0.995,
    )


# ---- conflicts


def conflict_misses(counters: Counters) -> Claim:
    """Section 4.3: PRIC and conflict misses, for kernels that have some."""
    before, after = (counters.of(MACHINE, "conflict", name) for name in ("none", "index:pric"))
    left = {
        one.kernel: 100 * other.associativity / one.associativity
        for one, other in zip(before, after, strict=True)
        if one.associativity > 0.01 * one.loads
    }
    return Claim(
        f"{KHAIRY}, section 4.3",
        "PRIC removes most conflict misses of the conflict group (kernels where at least 1 % of loads are such)",
        "percent left: " + values(left, left.values(), ".0f"),
        max(left.values()) < 50,
    )


def stalls(counters: Counters) -> Claim:
    """Section 4.3: PRIC and associativity stalls."""
    before, after = (counters.of(MACHINE, "conflict", name) for name in ("none", "index:pric"))
    pairs = {one.kernel: (one, other) for one, other in zip(before, after, strict=True) if one.line_alloc}
    left = [100 * other.line_alloc / one.line_alloc for one, other in pairs.values()]
    return Claim(
        f"{KHAIRY}, section 4.3",
        "PRIC removes the associativity stalls of the conflict group (kernels that have any)",
        "percent of `line_alloc` failures left: " + values(pairs, left, ".1f"),
        max(left) < 10,
    )


def fully_associative(counters: Counters, every: bool) -> Claim:
    """Figure 12: PRIC against a fully associative L1."""
    pairs = zip(counters.of("khairy-full", "conflict"), counters.of(MACHINE, "conflict", "index:pric"), strict=True)
    speeds = [full.cycles / pric.cycles for full, pric in pairs]
    number = min(speeds) if every else harmonic(speeds)
    return Claim(
        f"{KHAIRY}, section 5, figure 12",
        f"PRIC comes close to a fully associative L1 of the same size (97 % of its speed; here at least {CLOSE:.0%}"
        + (", each kernel)" if every else ", on average)"),
        f"harmonic mean {harmonic(speeds):.2f}: " + values(group("conflict"), speeds),
        number >= CLOSE,
    )


# ---- thrashing


def limits(counters: Counters, policies: str, index: str = "") -> dict[str, int]:
    """Return the limits that a throttling policy found for the kernels of table 3; -1 without a limit."""
    thrashing = counters.of(MACHINE, "thrashing", policies)
    both = counters.of(PART, "both", policies + index)
    return {one.kernel: one.found for one in (*thrashing, *both)}


def static_limits(counters: Counters, index: str) -> Claim:
    """Table 3, column SWT."""
    found = limits(counters, "swl:best", index)
    by = ", SYRK and GESUMMV with PRIC" if index else ""
    return Claim(
        f"{KHAIRY}, table 3",
        "the best limits: " + ", ".join(f"{kernel} {limit}" for kernel, limit in LIMITS.items()) + by,
        "swl:best: " + ", ".join(f"{kernel} {limit}" for kernel, limit in found.items()),
        found == LIMITS,
    )


def dynamic_limits(counters: Counters, index: str) -> Claim:
    """Table 3: both columns."""
    best, found = limits(counters, "swl:best", index), limits(counters, "dwt-cs", index)
    by = ", SYRK and GESUMMV with PRIC" if index else ""
    pairs = [f"{k} {best[k]} and {'no limit' if found[k] < 0 else found[k]}" for k in best]
    return Claim(
        f"{KHAIRY}, section 4.2, table 3",
        "DWT-CS finds the limit of SWT" + by,
        "swl:best and dwt-cs: " + ", ".join(pairs),
        best == found,
    )


def search(counters: Counters) -> Claim:
    """Table 3, BFS."""
    static, dynamic = (counters.get(MACHINE, "search", "bfs.1", name).found for name in ("swl:best", "dwt-cs"))
    return Claim(
        f"{KHAIRY}, section 4.2, table 3",
        "BFS is the exception: SWT finds 5, DWT-CS 7 (here: they differ)",
        f"swl:best {static}, dwt-cs {dynamic}",
        static != dynamic,
    )


def k_means(counters: Counters) -> Claim:
    """Table 3, K-means, with a scheduler that lets all warps take turns."""
    found = [counters.get("khairy-lrr", "points", "kmeans.row", name) for name in ("swl:best", "dwt-cs")]
    none = counters.get("khairy-lrr", "points", "kmeans.row")
    return Claim(
        f"{KHAIRY}, section 4.2, table 3",
        "K-means alone, with the scheduler lrr instead of gto: DWT-CS finds the limit of SWT, 1",
        f"swl:best {found[0].found}, dwt-cs {found[1].found}; MPKI without policies {none.mpki:.0f}",
        all(one.found == LIMITS["kmeans.row"] for one in found),
    )


def together(counters: Counters) -> Claim:
    """Section 5: SYRK and GESUMMV."""
    names = ("dwt-cs", "index:pric", "dwt-cs+index:pric")
    alone, pric, both = (counters.faster(PART, "both", name) for name in names)
    return Claim(
        f"{KHAIRY}, section 5",
        "SYRK and GESUMMV: neither DWT-CS alone nor PRIC alone improves them, both together do",
        f"times as fast: DWT-CS {values(group('both'), alone)}; PRIC {values(group('both'), pric)}; "
        f"both {values(group('both'), both)}",
        max(*alone, *pric) < HELPS_ONE <= min(both),
    )


def together_is_best(counters: Counters) -> Claim:
    """Section 5: the claim about both policies, without the word "alone"."""
    names = ("dwt-cs", "index:pric", "dwt-cs+index:pric")
    alone, pric, both = (counters.faster(PART, "both", name) for name in names)
    more = [two / max(one, other) for one, other, two in zip(alone, pric, both, strict=True)]
    return Claim(
        f"{KHAIRY}, section 5",
        "SYRK and GESUMMV are faster with both than with the better of the two",
        "times as fast: " + values(group("both"), more),
        min(more) > 1,
    )


CLAIMS: dict[str, Callable[[Counters], Claim]] = {
    "streams": streams,
    "streams, long": long_streams,
    "streams, hits in the L2": streams_of_l2,
    "streams, L2": closed_l2,
    "streams are detected": detected,
    "streaming bypass": streaming_bypass,
    "friendly kernels want the L1": friendly_cache,
    "friendly kernels": friendly,
    "PRIC, conflict misses": conflict_misses,
    "PRIC, stalls": stalls,
    "PRIC, full associativity": lambda counters: fully_associative(counters, every=False),
    "PRIC, full associativity, each": lambda counters: fully_associative(counters, every=True),
    "SWT": lambda counters: static_limits(counters, ""),
    "SWT, with PRIC": lambda counters: static_limits(counters, "+index:pric"),
    "DWT-CS": lambda counters: dynamic_limits(counters, ""),
    "DWT-CS, with PRIC": lambda counters: dynamic_limits(counters, "+index:pric"),
    "DWT-CS, BFS": search,
    "DWT-CS, K-means": k_means,
    "both": together,
    "both, together": together_is_best,
}
"""The function of each claim by the name of the claim."""
