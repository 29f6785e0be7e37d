"""Check the claims of Koo, Oh, Ro and Annavaram (ISCA 2017) about the reuse of lines by loads."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from validation.common.claims import Claim, values
from validation.policies.claims import Counters
from validation.policies.measure import group
from validation.policies.patterns import FEW_ACCESSES, NEAR_LINES, Pattern

KOO = "Koo et al., ISCA 2017"
MACHINE = "koo"
CS, CM, CI = "koo_sensitive", "koo_moderate", "koo_insensitive"
GROUPS = (CS, CM, CI)
WHO = {
    CS: "the cache-sensitive kernels (CS)",
    CM: "the cache-moderate kernels (CM)",
    CI: "the insensitive kernels (CI)",
}

SENSITIVE, INSENSITIVE = 1.5, 1.1
"""Section 3: least speedup with 128 KB of a sensitive kernel, and largest speedup of an insensitive one."""


def shares(pattern: Pattern) -> str:
    """Return the lines of each type in percent, in words."""
    counts = (pattern.streaming, pattern.inter_warp, pattern.intra_warp, pattern.inter_intra_warp)
    return f"{pattern.kernel} " + "/".join(f"{100 * count / pattern.lines:.0f}" for count in counts)


def classes(counters: Counters) -> Claim:
    """Section 3: sensitivity of the groups to the size of the L1."""
    faster: dict[str, list[float]] = {}
    for of in GROUPS:
        small, large = (counters.of(machine, of) for machine in ("koo-32k", "koo-128k"))
        faster[of] = [one.cycles / other.cycles for one, other in zip(small, large, strict=True)]
    return Claim(
        f"{KOO}, section 3",
        f"with 128 KB for 32, CS kernels are more than {SENSITIVE} times as fast, CI kernels less than {INSENSITIVE} "
        "times, CM kernels between",
        "times as fast: " + "; ".join(values(group(of), faster[of]) for of in GROUPS),
        min(faster[CS]) > SENSITIVE
        and max(faster[CI]) < INSENSITIVE
        and all(INSENSITIVE <= times <= SENSITIVE for times in faster[CM]),
    )


def types(counters: Counters, of: str) -> Claim:
    """Figure 3: types of the lines of a group."""
    found = counters.patterns(MACHINE, of)
    says, holds = {
        CS: ("have mostly intra-warp lines", all(2 * one.intra_warp > one.lines for one in found)),
        CM: (
            "have a mix of streaming and intra-warp lines (here at least 10 % of each)",
            all(10 * min(one.streaming, one.intra_warp) >= one.lines for one in found),
        ),
        CI: (
            "have streaming and some inter-warp lines (here most are one or the other)",
            all(2 * (one.streaming + one.inter_warp) > one.lines for one in found),
        ),
    }[of]
    return Claim(
        f"{KOO}, section 3.1, figure 3",
        f"{WHO[of]} {says}",
        "percent of lines streaming/inter-warp/intra-warp/both: " + ", ".join(map(shares, found)),
        holds,
    )


def few_uses(counters: Counters) -> Claim:
    """Figure 4: the L1 of 16 KB."""
    found = [one for of in GROUPS for one in counters.patterns(MACHINE, of)]
    few = {one.kernel: 100 * one.few_stays / one.stays for one in found}
    return Claim(
        f"{KOO}, section 3.2, figure 4",
        f"in 16 KB, most lines are accessed only a few times before they are evicted (here: {FEW_ACCESSES} at most)",
        "percent of stays: " + values(few, few.values(), ".0f"),
        min(few.values()) > 50,
    )


def many_uses(counters: Counters) -> Claim:
    """Figure 4: the infinite L1."""
    found = counters.patterns(MACHINE, CS)
    small, endless = (
        {one.kernel: 100 * number for one, number in zip(found, numbers, strict=True)}
        for numbers in ([one.few_stays / one.stays for one in found], [one.few_lines / one.lines for one in found])
    )
    return Claim(
        f"{KOO}, section 3.2, figure 4",
        "of CS kernels, far fewer lines have so few accesses in an infinite cache (here less than half as many)",
        f"percent of lines: {values(endless, endless.values(), '.0f')}; in 16 KB: "
        f"{values(small, small.values(), '.0f')}",
        all(2 * endless[kernel] < small[kernel] for kernel in small),
    )


def similarity(counters: Counters) -> Claim:
    """Figure 5: one type for each load."""
    found = {one.kernel: one.similarity for of in GROUPS for one in counters.patterns(MACHINE, of)}
    return Claim(
        f"{KOO}, section 3.3, figure 5",
        "each load has one dominant type: the mean APS is 0.90 (here at least 0.85)",
        f"mean {fmean(found.values()):.2f}: " + values(found, found.values()),
        fmean(found.values()) >= 0.85,
    )


def sensitive_similarity(counters: Counters) -> Claim:
    """Figure 5: the groups."""
    found = {of: fmean(one.similarity for one in counters.patterns(MACHINE, of)) for of in GROUPS}
    return Claim(
        f"{KOO}, sections 3.3 and 6.3, figure 5",
        "the CS kernels' APS is close to 1; that of some CI kernels is low",
        f"means: CS {found[CS]:.2f}, CM {found[CM]:.2f}, CI {found[CI]:.2f}",
        found[CS] >= 0.85 and found[CI] < found[CS],
    )


def distances(counters: Counters) -> Claim:
    """Figure 6: SGM and BFS."""
    (gemm,) = (one for one in counters.patterns(MACHINE, CM) if one.kernel == "gemm")
    (bfs,) = (one for one in counters.patterns(MACHINE, CS) if one.kernel == "bfs.1")
    inter, intra = gemm.inter_near / gemm.inter_uses, bfs.intra_near / bfs.intra_uses
    return Claim(
        f"{KOO}, section 4.1, figure 6",
        "inter-warp lines are used again soon (SGM; here gemm), intra-warp lines late (BFS)",
        f"within the {NEAR_LINES} lines of 16 KB: {inter:.0%} of the uses of gemm's inter-warp lines, {intra:.0%} of "
        "those of bfs.1's intra-warp lines",
        inter > 0.9 and intra < inter - 0.1,
    )


CLAIMS: dict[str, Callable[[Counters], Claim]] = {
    "classes": classes,
    "types of lines, CS": lambda counters: types(counters, CS),
    "types of lines, CM": lambda counters: types(counters, CM),
    "types of lines, CI": lambda counters: types(counters, CI),
    "few uses in 16 KB": few_uses,
    "uses in an infinite cache": many_uses,
    "similarity": similarity,
    "similarity, CS and CI": sensitive_similarity,
    "distances": distances,
}
"""The function of each claim by the name of the claim."""
