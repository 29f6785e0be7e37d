"""Check the claims of Koo, Oh, Ro and Annavaram (ISCA 2017) that compare APCM with other policies and settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from validation.common.claims import Claim, values
from validation.policies.claims import HELPS, Counters, mean
from validation.policies.koo import BOTH, BYPASS, CASES, ENDLESS, SHORT, WANTING, by_kernel, gains, names
from validation.policies.koo_patterns import CM, CS, KOO, MACHINE
from validation.policies.measure import Measurement, group, settings

DISTANCES = (8, 16, 32, 64)

KOO_PD = "counts=cache,since=allocation"
"""Options of `pd` with which it protects lines as Koo et al. say, and not as Duong et al. do."""


def swept(counters: Counters, policy: str, machine: str = MACHINE) -> list[float]:
    """Return the speedups of CS and CM kernels with the best of the simulated parameters of a policy."""
    runs = [one["policies"] for one in settings()["run"] if machine in one["machines"] and CM in one["groups"]]
    tried = [name for found in runs for name in found if name.startswith(f"{policy}:")]
    return [max(times) for times in zip(*(gains(counters, n, WANTING, machine) for n in tried), strict=True)]


# ---- throttling


def throttling(counters: Counters, policies: str, over: str, machine: str = MACHINE) -> Claim:
    """Figure 15: four comparisons."""
    mine = gains(counters, policies, WANTING, machine)
    others = swept(counters, "pcal", machine) if over == "PCAL" else gains(counters, "swl:best", WANTING, machine)
    ratios = [one / other for one, other in zip(mine, others, strict=True)]
    return Claim(
        f"{KOO}, section 6.4, figure 15",
        f"{'APCM alone' if policies == BOTH else 'APCM-SWL'} is faster than "
        f"{'PCAL (fixed numbers, here the best of 12 pairs)' if over == 'PCAL' else 'CCWS-SWL (swl:best)'}"
        f"{CASES.get(machine, '')}",
        f"times as fast as no policies: {mean(mine):.2f} and {mean(others):.2f}; kernel by kernel, one by the other: "
        + values(names(WANTING), ratios),
        mean(mine) > mean(others),
    )


def more_warps(counters: Counters) -> Claim:
    """Figure 15: the limits."""
    limits = [[counters.get(MACHINE, of, kernel, name).found for of in WANTING for kernel in group(of)]
              for name in ("swl:best", "apcm-swl")]  # fmt: skip
    return Claim(
        f"{KOO}, section 6.4",
        "more warps are allowed with APCM-SWL than with CCWS-SWL: on no kernel fewer, on some more",
        f"limits: {values(names(WANTING), limits[0], '.0f')}; with APCM {values(names(WANTING), limits[1], '.0f')}",
        all(one <= other for one, other in zip(*limits, strict=True)) and limits[0] != limits[1],
    )


def throttled_misses(counters: Counters) -> Claim:
    """Figure 16: the miss rate."""
    rates = [
        [one.misses / one.loads for of in WANTING for one in counters.of(MACHINE, of, name)]
        for name in ("swl:best", "apcm-swl")
    ]
    lower = sum(after <= before for before, after in zip(*rates, strict=True))
    return Claim(
        f"{KOO}, section 6.4, figure 16",
        "for most kernels the L1 miss rate is lower with APCM-SWL than with CCWS-SWL (here lower or equal)",
        f"{lower} of {len(rates[0])}: {values(names(WANTING), rates[1])}; "
        f"without APCM {values(names(WANTING), rates[0])}",
        2 * lower > len(rates[0]),
    )


# ---- other policies


def adaptive(counters: Counters, policies: str) -> Claim:
    """Figure 17: ABYP."""
    mine, other = (mean(gains(counters, name)) for name in (policies, "abyp"))
    more = "11" if policies == BYPASS else "28"
    return Claim(
        f"{KOO}, section 6.5, figure 17",
        f"{'APCM that only bypasses' if policies == BYPASS else 'APCM'} is faster than ABYP, by {more} %: by more "
        "than 0",
        f"times as fast: {mine:.3f} and {other:.3f}; ABYP: {by_kernel(counters, 'abyp')}",
        mine > other,
    )


def distance(counters: Counters, machine: str = MACHINE) -> Claim:
    """Figure 18: protection distances."""
    mine = mean(gains(counters, BOTH, machine=machine))
    others = {f"PD{n}": mean(gains(counters, f"pd:distance={n},{KOO_PD}", machine=machine)) for n in DISTANCES}
    return Claim(
        f"{KOO}, section 6.5, figure 18",
        f"APCM is faster than a static protection distance of 8 to 64{CASES.get(machine, '')}",
        f"times as fast: APCM {mine:.3f}, {values(others, others.values(), '.3f')}",
        mine > max(others.values()),
    )


# ---- sensitivity


def greedy(counters: Counters) -> Claim:
    """Figure 19: the scheduler."""
    lrr, gto = ([one for of in WANTING for one in counters.of(machine, of)] for machine in (MACHINE, "koo-gto"))
    faster = mean([one.cycles / other.cycles for one, other in zip(lrr, gto, strict=True)])
    return Claim(
        f"{KOO}, section 6.6, figure 19",
        "gto is faster than lrr, by 9 % over CS and CM: by more than 0",
        f"times as fast: {faster:.2f}",
        faster > 1,
    )


def helps_on(counters: Counters, machine: str, percent: int, groups: tuple[str, ...] = WANTING) -> Claim:
    """Figures 19 and 20: other schedulers and sizes."""
    what, figure = {
        "koo-gto": ("with gto", 19),
        "koo-32k": ("with an L1 of 32 KB", 20),
        "koo-48k": ("with an L1 of 48 KB", 20),
    }[machine]
    found = mean(gains(counters, BOTH, groups, machine))
    return Claim(
        f"{KOO}, section 6.6, figure {figure}",
        f"{what}, APCM makes CS and CM kernels faster, by {percent} % (here by at least {HELPS - 1:.0%})"
        f"{CASES.get(groups[0], '')}",
        f"times as fast: {found:.3f}; {by_kernel(counters, BOTH, groups, machine)}",
        found >= HELPS,
    )


def larger(counters: Counters) -> Claim:
    """Figure 20: without APCM."""
    base, *others = (_cycles(counters.of(machine, CS)) for machine in (MACHINE, "koo-32k", "koo-48k"))
    faster = [mean([one / other for one, other in zip(base, cycles, strict=True)]) for cycles in others]
    return Claim(
        f"{KOO}, section 6.6, figure 20",
        f"a larger L1 makes CS kernels significantly faster (here at least {HELPS} times, and 48 KB more than 32)",
        f"times as fast: 32 KB {faster[0]:.2f}, 48 KB {faster[1]:.2f}",
        HELPS <= faster[0] < faster[1],
    )


def _cycles(found: Iterable[Measurement]) -> list[int]:
    return [one.cycles for one in found]


def tags(counters: Counters) -> Claim:
    """Figure 21: the size of the MTA; ours is direct-mapped."""
    groups = (*WANTING, SHORT)
    sizes = {f"{n} tags": mean(gains(counters, f"apcm:tags={n}", groups)) for n in (8, 16, 64, 128)}
    base = mean(gains(counters, BOTH, groups))
    relative = {title: times / base for title, times in sizes.items()}
    return Claim(
        f"{KOO}, section 6.6, figure 21",
        "the size of the MTA changes the speed by 5 % at most (here also where what a thread reads fits in a line)",
        f"speed by that with 32 tags: {values(relative, relative.values(), '.3f')}",
        all(abs(times - 1) <= 0.05 for times in relative.values()),
    )


def depth(counters: Counters, grows: bool) -> Claim:
    """Figure 22: LAT and CAIT."""
    loads = {n: mean(gains(counters, f"apcm:loads={n}" if n != 16 else BOTH, WANTING)) for n in (1, 2, 4, 8, 16, 32)}
    relative = {f"{n} loads": times / loads[16] for n, times in loads.items()}
    return Claim(
        f"{KOO}, section 6.6, figure 22",
        "the speed grows with the number of loads that are managed, up to 16"
        if grows
        else "more than 16 managed loads make nothing faster",
        f"speed by that with 16: {values(relative, relative.values(), '.3f')}",
        loads[1] < loads[4] <= loads[16] if grows else loads[32] <= loads[16],
    )


CLAIMS: dict[str, Callable[[Counters], Claim]] = {
    "APCM and SWL": lambda counters: throttling(counters, BOTH, "SWL"),
    "APCM and SWL, endless bandwidth": lambda counters: throttling(counters, BOTH, "SWL", ENDLESS),
    "APCM and PCAL": lambda counters: throttling(counters, BOTH, "PCAL"),
    "APCM and PCAL, endless bandwidth": lambda counters: throttling(counters, BOTH, "PCAL", ENDLESS),
    "APCM-SWL and SWL": lambda counters: throttling(counters, "apcm-swl", "SWL"),
    "APCM-SWL and SWL, endless bandwidth": lambda counters: throttling(counters, "apcm-swl", "SWL", ENDLESS),
    "APCM-SWL and PCAL": lambda counters: throttling(counters, "apcm-swl", "PCAL"),
    "APCM-SWL and PCAL, endless bandwidth": lambda counters: throttling(counters, "apcm-swl", "PCAL", ENDLESS),
    "APCM-SWL, warps": more_warps,
    "APCM-SWL, misses": throttled_misses,
    "APCM's bypassing and ABYP": lambda counters: adaptive(counters, BYPASS),
    "APCM and ABYP": lambda counters: adaptive(counters, BOTH),
    "APCM and PD": distance,
    "APCM and PD, endless bandwidth": lambda counters: distance(counters, ENDLESS),
    "gto": greedy,
    "APCM with gto": lambda counters: helps_on(counters, "koo-gto", 27),
    "APCM with gto, short rows": lambda counters: helps_on(counters, "koo-gto", 27, (SHORT,)),
    "APCM, 32 KB": lambda counters: helps_on(counters, "koo-32k", 21),
    "APCM, 48 KB": lambda counters: helps_on(counters, "koo-48k", 18),
    "larger L1": larger,
    "MTA": tags,
    "LAT and CAIT, growth": lambda counters: depth(counters, grows=True),
    "LAT and CAIT, saturation": lambda counters: depth(counters, grows=False),
}
"""The function of each claim by the name of the claim."""
