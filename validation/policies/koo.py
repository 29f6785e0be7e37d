"""Check the claims of Koo, Oh, Ro and Annavaram (ISCA 2017) about APCM on a part of koo-fermi; one function each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from validation.common.claims import Claim, values
from validation.policies.claims import HARMS, HELPS, Counters, mean
from validation.policies.koo_patterns import CI, CM, CS, GROUPS, KOO, MACHINE
from validation.policies.measure import group

BYPASS, PROTECT, BOTH = "apcm:mode=bypass", "apcm:mode=protect", "apcm"
WANTING = (CS, CM)
SHORT, LARGE = "koo_short", "koo_large"
ENDLESS = "koo-endless"
TITLES = {CS: "CS", CM: "CM", CI: "CI", SHORT: "CS"}
CASES = {
    SHORT: ", where what a thread reads fits in a line",
    ENDLESS: ", with a memory of endless bandwidth",
}


def gains(counters: Counters, policies: str, groups: Iterable[str] = GROUPS, machine: str = MACHINE) -> list[float]:
    """Return the speedups of the kernels of groups under policies."""
    return [times for of in groups for times in counters.faster(machine, of, policies)]


def names(groups: Iterable[str] = GROUPS) -> list[str]:
    """Return the kernels of groups."""
    return [kernel for of in groups for kernel in group(of)]


def by_kernel(counters: Counters, policies: str, groups: Iterable[str] = GROUPS, machine: str = MACHINE) -> str:
    """Return the speedups of kernels in words."""
    return values(names(groups), gains(counters, policies, groups, machine))


def by_mode(counters: Counters, groups: Iterable[str], machine: str = MACHINE) -> dict[str, float]:
    """Return the mean speedup of kernels with each mode of APCM."""
    modes = {"bypass": BYPASS, "protection": PROTECT, "both": BOTH}
    return {title: mean(gains(counters, name, groups, machine)) for title, name in modes.items()}


# ---- performance


def protection(counters: Counters, of: str = CS, machine: str = MACHINE) -> Claim:
    """Figure 12: protection and bypassing for CS."""
    found = by_mode(counters, [of], machine)
    return Claim(
        f"{KOO}, section 6.2, figure 12",
        f"protection alone works well for CS kernels, and better than bypassing{CASES.get(of, '')}"
        f"{CASES.get(machine, '')}",
        f"times as fast: {values(found, found.values())}; protection: {by_kernel(counters, PROTECT, [of], machine)}",
        found["protection"] >= max(HELPS, found["bypass"]),
    )


def bypassing(counters: Counters) -> Claim:
    """Figure 12: protection and bypassing for CM."""
    found = by_mode(counters, [CM])
    return Claim(
        f"{KOO}, section 6.2, figure 12",
        "for CM kernels protection alone is not effective, and bypassing helps",
        f"times as fast: {values(found, found.values(), '.3f')}; bypass: {by_kernel(counters, BYPASS, [CM])}",
        found["protection"] < HELPS <= found["bypass"],
    )


def both(counters: Counters, machine: str = MACHINE) -> Claim:
    """Figure 12: both together."""
    found = by_mode(counters, GROUPS, machine)
    return Claim(
        f"{KOO}, section 6.2, figure 12",
        f"both together are at least as fast as either alone{CASES.get(machine, '')} (here within 1 %)",
        f"times as fast: {values(found, found.values(), '.3f')}",
        found["both"] >= HARMS * max(found.values()),
    )


def gain(counters: Counters, of: str, percent: int, machine: str = MACHINE) -> Claim:
    """Figure 12: speedup of a group."""
    found = mean(gains(counters, BOTH, [of], machine))
    least = 1.0 if of == CI else HELPS
    return Claim(
        f"{KOO}, section 6.2, figure 12",
        f"APCM makes {TITLES[of]} kernels faster, by {percent} % on average (here by more than {least - 1:.0%})"
        f"{CASES.get(of, '')}{CASES.get(machine, '')}",
        f"times as fast: {found:.3f}; {by_kernel(counters, BOTH, [of], machine)}",
        found > least,
    )


def no_harm(counters: Counters) -> Claim:
    """Figure 12: the insensitive kernels."""
    return Claim(
        f"{KOO}, section 6.2, figure 12",
        f"APCM makes no CI kernel slower (here by more than {1 - HARMS:.0%})",
        f"times as fast: {by_kernel(counters, BOTH, [CI])}",
        min(gains(counters, BOTH, [CI])) >= HARMS,
    )


def kepler(counters: Counters, groups: tuple[str, ...]) -> Claim:
    """Figure 14: the other configuration."""
    ours, other = (mean(gains(counters, BOTH, groups, machine)) for machine in (MACHINE, "koo-kepler"))
    return Claim(
        f"{KOO}, section 6.2, figure 14",
        "on configuration 2 (Kepler) APCM gains more than on configuration 1 (42 % and 33 % over CS and CM)"
        + CASES.get(groups[0], ""),
        f"times as fast: {other:.3f} and {ours:.3f}; {by_kernel(counters, BOTH, groups, 'koo-kepler')}",
        other > max(1, ours),
    )


def miss_rate(counters: Counters, of: str, policies: str, percent: int) -> Claim:
    """Figure 13: miss rate of the loads that use the L1."""
    before, after = (counters.of(MACHINE, of, name) for name in ("none", policies))
    rates = [[one.misses / one.loads for one in found] for found in (before, after)]
    left = [sum(found) / len(found) for found in rates]
    title = "bypassing" if policies == BYPASS else "APCM"
    return Claim(
        f"{KOO}, section 6.3, figure 13",
        f"{title} lowers the L1 miss rate of {TITLES[of]} kernels, by {percent} % on average (here by at least 5 %)",
        f"mean {left[0]:.2f}, then {left[1]:.2f}: {values(group(of), rates[1])}",
        left[1] <= 0.95 * left[0],
    )


def large(counters: Counters) -> str:
    """Return the table of SPMV and CCL with as many rows and edges as for all SMs of the GPU."""
    policies = (BYPASS, PROTECT, BOTH, "abyp")
    lines = [
        "SPMV and CCL with 65,536 rows and vertices, and in brackets with 8,192, in proportion to two of 15 SMs:\n"
        "times as fast as the baseline.\n",
        f"| kernel | {' | '.join(policies)} |",
        "|---|" + "---:|" * len(policies),
    ]
    for kernel in group(LARGE):
        cells = []
        for name in policies:
            cycles = [[counters.get(MACHINE, of, kernel, one).cycles for one in ("none", name)] for of in (LARGE, CM)]
            cells.append("{:.2f} [{:.2f}]".format(*(before / after for before, after in cycles)))
        lines.append(f"| {kernel} | {' | '.join(cells)} |")
    return "\n".join(lines)


CLAIMS: dict[str, Callable[[Counters], Claim]] = {
    "protection, CS": protection,
    "protection, CS, endless bandwidth": lambda counters: protection(counters, machine=ENDLESS),
    "protection, CS, short rows": lambda counters: protection(counters, SHORT),
    "bypassing, CM": bypassing,
    "protection and bypassing": both,
    "protection and bypassing, endless bandwidth": lambda counters: both(counters, ENDLESS),
    "APCM, CS": lambda counters: gain(counters, CS, 34),
    "APCM, CS, endless bandwidth": lambda counters: gain(counters, CS, 34, ENDLESS),
    "APCM, CS, short rows": lambda counters: gain(counters, SHORT, 34),
    "APCM, CM": lambda counters: gain(counters, CM, 32),
    "APCM, CM, endless bandwidth": lambda counters: gain(counters, CM, 32, ENDLESS),
    "APCM, CI": lambda counters: gain(counters, CI, 4),
    "APCM, CI, endless bandwidth": lambda counters: gain(counters, CI, 4, ENDLESS),
    "APCM, no harm": no_harm,
    "misses, CS": lambda counters: miss_rate(counters, CS, BOTH, 15),
    "misses, CM": lambda counters: miss_rate(counters, CM, BYPASS, 22),
    "APCM on Kepler": lambda counters: kepler(counters, WANTING),
    "APCM on Kepler, short rows": lambda counters: kepler(counters, (SHORT,)),
}
"""The function of each claim by the name of the claim."""
