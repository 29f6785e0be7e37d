"""Check the claims of Wang, Liu, Wang and Yu (DATE 2015) on a part of wang-32k; one function per claim."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from validation.common.claims import MAX_SHARE_LEFT, Claim, values
from validation.policies.claims import Counters, mean, rank_correlation
from validation.policies.measure import group

WANG = "Wang et al., DATE 2015"
MACHINE = "wang-part"
STRIDED = "strided"

TITLES = ("CONV", "BXOR", "pDisp", "FUP")
INDICES = ("none", "index:bxor", "index:pdisp", "index:fup")


def speed(counters: Counters) -> Claim:
    """Figure 6: the mean over the six."""
    bxor, pdisp, fup = (mean(counters.faster(MACHINE, STRIDED, f"index:{n}")) for n in ("bxor", "pdisp", "fup"))
    return Claim(
        f"{WANG}, section IV.B.1, figure 6",
        "over the six kernels sensitive to associativity, BXOR, pDisp and FUP are 3.21, 3.70 and 4.36 times as fast "
        "as the plain index: in this order",
        f"geometric means {bxor:.2f}, {pdisp:.2f}, {fup:.2f}",
        1 < bxor < pdisp < fup,
    )


def against(counters: Counters, other: str) -> Claim:
    """Figure 6: FUP against another, kernel by kernel."""
    faster = counters.faster(MACHINE, STRIDED, "index:fup", f"index:{other}")
    title = {"bxor": "BXOR", "pdisp": "pDisp"}[other]
    return Claim(
        f"{WANG}, section IV.B.1, figure 6",
        f"FUP is at least as fast as {title} on each of the six",
        f"times as fast as {title}: " + values(group(STRIDED), faster, ".3f"),
        min(faster) > 0.995,
    )


def large_strides(counters: Counters) -> Claim:
    """Section IV.B.2: conflict misses that are left with each function."""
    kernels = group(STRIDED)[:4]
    left = {
        name: [
            100
            * counters.get(MACHINE, STRIDED, k, f"index:{name}").associativity
            / counters.get(MACHINE, STRIDED, k).associativity
            for k in kernels
        ]
        for name in ("bxor", "pdisp", "fup")
    }
    return Claim(
        f"{WANG}, section IV.B.2, figure 7",
        "BXOR reduces the conflict misses of ATAX, BICG, MVT and GES; pDisp and FUP eliminate them",
        "percent left: " + "; ".join(f"{name} {values(kernels, left[name], '.1f')}" for name in left),
        max(left["bxor"]) < 100 and max(*left["pdisp"], *left["fup"]) < 100 * MAX_SHARE_LEFT,
    )


def capacity(counters: Counters) -> Claim:
    """Section IV.B.2: FUP uses all sets, pDisp 31 of 32."""
    fup, pdisp = (counters.of(MACHINE, STRIDED, f"index:{name}") for name in ("fup", "pdisp"))
    ratios = [one.misses / other.misses for one, other in zip(fup, pdisp, strict=True)]
    return Claim(
        f"{WANG}, section IV.B.2, figure 7",
        "FUP keeps more locality than pDisp, as it uses all sets: it has fewer misses, and on none of the six more",
        "misses by those of pDisp: " + values(group(STRIDED), ratios, ".3f"),
        max(ratios) <= 1 and min(ratios) < 1,
    )


def even(counters: Counters) -> Claim:
    """Figure 8: the balance over the sets."""
    means = {
        title: fmean(one.balance for one in counters.patterns(MACHINE, STRIDED, name))
        for title, name in zip(TITLES, INDICES, strict=True)
    }
    return Claim(
        f"{WANG}, section IV.B.3, figure 8",
        "all functions but pDisp spread the accesses evenly in the end (balance 1); pDisp, with 31 of 32 sets, is "
        "3.2 % off",
        "mean balance: " + values(means, means.values(), ".3f"),
        all(abs(found - (1.032 if title == "pDisp" else 1)) < 0.005 for title, found in means.items()),
    )


def concentrations(counters: Counters) -> Claim:
    """Figure 9: the numbers that section IV.B.4 prints."""
    plain, bxor, pdisp, fup = (
        [one.concentration for one in counters.patterns(MACHINE, STRIDED, name)] for name in INDICES
    )
    return Claim(
        f"{WANG}, section IV.B.4, figure 9",
        "CONV concentrates ATAX, BICG, MVT and GES in one set (32) and SYRK and SYR2K in 2 and 4; BXOR is ideal for "
        "the last two and high for the others; pDisp has 1.09 on average, FUP 1",
        "; ".join(
            f"{title} {values(group(STRIDED), found)}"
            for title, found in zip(TITLES, (plain, bxor, pdisp, fup), strict=True)
        ),
        min(plain[:4]) > 30
        and abs(plain[4] - 16) < 1
        and abs(plain[5] - 8) < 1
        and max(bxor[4:]) < 1.05
        and min(bxor[:4]) > 1.5
        and mean(pdisp) < 1.15
        and max(fup) < 1.05,
    )


def predicts(counters: Counters, metric: str) -> Claim:
    """Sections IV.B.3 and IV.B.4: correlation of a metric with the speed."""
    faster = [times for name in INDICES for times in counters.faster(MACHINE, STRIDED, name)]
    better = [
        getattr(before, metric) / getattr(after, metric)
        for name in INDICES
        for before, after in zip(
            counters.patterns(MACHINE, STRIDED), counters.patterns(MACHINE, STRIDED, name), strict=True
        )
    ]
    found = rank_correlation(faster, better)
    says = {
        "balance": "the balance over the sets is disconnected from the speed (here: rank correlation less than 0.5)",
        "concentration": "the intra-warp concentration goes closely with the speed (here: at least 0.8)",
    }[metric]
    return Claim(
        f"{WANG}, section IV.B.{3 if metric == 'balance' else 4}, figures 6, {8 if metric == 'balance' else 9}",
        says,
        f"rank correlation, over six kernels and four index functions, of times as fast as CONV with how many times "
        f"lower the {metric} is: {found:.2f}",
        found < 0.5 if metric == "balance" else found >= 0.8,
    )


CLAIMS: dict[str, Callable[[Counters], Claim]] = {
    "index functions": speed,
    "FUP and BXOR": lambda counters: against(counters, "bxor"),
    "FUP and pDisp": lambda counters: against(counters, "pdisp"),
    "large strides": large_strides,
    "all sets": capacity,
    "balance": even,
    "concentration": concentrations,
    "balance and speed": lambda counters: predicts(counters, "balance"),
    "concentration and speed": lambda counters: predicts(counters, "concentration"),
}
"""The function of each claim by the name of the claim."""
