"""What Wang, Liu, Wang and Yu (DATE 2015) say, on a part of wang-32k: a function for each statement."""

from __future__ import annotations

from collections.abc import Callable

from validation.policies.claims import Claim, Counters, mean, values
from validation.policies.measure import group

WANG = "Wang et al., DATE 2015"
MACHINE = "wang-part"
STRIDED = "strided"

GONE = 0.1
"""What is left of something that is gone, at most."""


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
    """Section IV.B.2: what BXOR leaves and pDisp and FUP do not."""
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
        max(left["bxor"]) < 100 and max(*left["pdisp"], *left["fup"]) < 100 * GONE,
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


CLAIMS: dict[str, Callable[[Counters], Claim]] = {
    "index functions": speed,
    "FUP and BXOR": lambda counters: against(counters, "bxor"),
    "FUP and pDisp": lambda counters: against(counters, "pdisp"),
    "large strides": large_strides,
    "all sets": capacity,
}
"""Every claim by a name to refer to it."""
