"""Check the claims of Khairy, Zahran and Wassal (GPGPU-8 2015) about DWT-PRIC beside CCWS and MRPB."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from validation.common.claims import Claim, values
from validation.policies.claims import Counters, harmonic, mean
from validation.policies.khairy import KHAIRY, MACHINE, PART
from validation.policies.measure import Measurement, group

CONFLICT, THRASHING, BOTH, SEARCH = "conflict", "thrashing", "both", "search"
FRONT = "khairy-front"
CONTENDED = (CONFLICT, THRASHING, BOTH)
PARTS = {CONFLICT: (CONFLICT,), THRASHING: (THRASHING, SEARCH), BOTH: (BOTH,)}
"""Groups of ``scenarios.toml`` by a group of the paper: BFS thrashes, too, but is a program of several launches."""
WHO = {CONFLICT: "the conflict group", THRASHING: "the thrashing group", BOTH: "SYRK and GESUMMV"}
OURS, CCWS, MRPB = "dwt-pric", "ccws", "mrpb:entries=32"
OPEN = "dwt-cs+index:pric"
TITLES = {CCWS: "CCWS", MRPB: "MRPB"}

THROTTLES = {1: "ccws:throttle=1", 2: "ccws:throttle=2", 4: "ccws:throttle=4", 8: CCWS, 16: "ccws:throttle=16",
             32: "ccws:throttle=32"}  # fmt: skip
"""The policies of the sweep by throttle. The paper tunes it to the machine, and finds 8 for its own (section 5)."""

WITHOUT = {OURS: "", OPEN: "; DWT-CS and PRIC without the bypassing of streams"}


def faster(counters: Counters, of: str, over: str = "none", policies: str = OURS) -> dict[str, float]:
    """Return the speedups of the kernels of a group under policies, by kernel; CCWS has its best throttle."""
    if over == CCWS:
        over = THROTTLES[best_throttle(counters)]
    return {
        kernel: times
        for part in PARTS[of]
        for kernel, times in zip(group(part), counters.faster(machine_of(part), part, policies, over), strict=True)
    }


def machine_of(part: str) -> str:
    """Return the machine on which a group is run."""
    return PART if part == BOTH else MACHINE


def together(counters: Counters, over: str = "none", policies: str = OURS) -> dict[str, float]:
    """Return the speedups of all kernels with contention, by kernel."""
    return {kernel: times for of in CONTENDED for kernel, times in faster(counters, of, over, policies).items()}


def throttled(counters: Counters) -> dict[int, float]:
    """Return the speedup of CCWS over the baseline by throttle: harmonic means over all kernels with contention."""
    return {n: harmonic(list(together(counters, policies=name).values())) for n, name in THROTTLES.items()}


def best_throttle(counters: Counters) -> int:
    """Return the throttle with the largest speedup."""
    found = throttled(counters)
    return max(found, key=found.__getitem__)


def tuned(counters: Counters, other: str = CCWS) -> str:
    """Return which throttle CCWS has, as the end of a sentence; nothing if the other policy is not CCWS."""
    return f"; CCWS with throttle={best_throttle(counters)}" if other == CCWS else ""


def sweep(counters: Counters) -> str:
    """Return the table of the throttles of CCWS."""
    rows = [f"| {throttle} | {times:.2f} |" for throttle, times in throttled(counters).items()]
    head = "CCWS by its throttle: times as fast as the baseline, harmonic mean over all kernels with contention.\n"
    return "\n".join([head, "| throttle | times as fast |", "|---:|---:|", *rows])


def second_opinion(counters: Counters) -> str:
    """Return the table of policies on a machine whose load/store unit has the front of GPGPU-Sim 3."""
    policies = (CCWS, MRPB, OURS)
    lines = [
        "Speed with the front of the load/store unit of GPGPU-Sim 3 (`core.ldst_queue=5`, `core.store_acks=true`),\n"
        "and in brackets that of the preset: times as fast as the baseline of the same machine.\n",
        f"| kernel | {' | '.join(policies)} |",
        "|---|" + "---:|" * len(policies),
    ]
    for of in (CONFLICT, THRASHING, SEARCH):
        columns = [zip(*(counters.faster(m, of, name) for m in (FRONT, MACHINE)), strict=True) for name in policies]
        for kernel, *pairs in zip(group(of), *columns, strict=True):
            cells = " | ".join(f"{front:.2f} [{plain:.2f}]" for front, plain in pairs)
            lines.append(f"| {kernel} | {cells} |")
    return "\n".join(lines)


def against(counters: Counters, other: str, of: str, times: str, policies: str = OURS) -> Claim:
    """Figure 9: a group."""
    found = faster(counters, of, other, policies)
    return Claim(
        f"{KHAIRY}, section 5, figure 9",
        f"on {WHO[of]}, DWT-PRIC is {times} times as fast as {TITLES[other]}: more than 1{WITHOUT[policies]}",
        f"harmonic mean {harmonic(list(found.values())):.2f}: {values(found, found.values(), '.3f')}"
        + tuned(counters, other),
        harmonic(list(found.values())) > 1,
    )


def against_all(counters: Counters, other: str, times: str) -> Claim:
    """Figure 9: all kernels with contention."""
    found = list(together(counters, other).values())
    return Claim(
        f"{KHAIRY}, section 5, figure 9",
        f"on all applications with contention, DWT-PRIC is {times} times as fast as {TITLES[other]}: more than 1",
        f"harmonic mean {harmonic(found):.2f}{tuned(counters, other)}",
        harmonic(found) > 1,
    )


def contended(counters: Counters) -> Claim:
    """Figures 8 and 9: over the baseline."""
    found = together(counters)
    return Claim(
        f"{KHAIRY}, section 5, figures 8, 9",
        "DWT-PRIC makes applications with contention 2.3 times as fast, SYRK up to 21 and GESUMMV up to 16.8 times: "
        "more than 1, more than 10",
        f"harmonic mean {harmonic(list(found.values())):.2f}: {values(found, found.values())}",
        harmonic(list(found.values())) > 1 and min(found["syrk"], found["gesummv"]) > 10,
    )


def unsteady(counters: Counters, policies: str) -> Claim:
    """Section 5: kernels for which CCWS is better."""
    thrashing = faster(counters, THRASHING, CCWS, policies)
    found = {kernel: thrashing[kernel] for kernel in ("spmv", "bfs.1")}
    return Claim(
        f"{KHAIRY}, section 5, figure 9",
        f"CCWS is slightly better than DWT-PRIC on SPMV and BFS (here by up to a third){WITHOUT[policies]}",
        f"DWT-PRIC is {values(found, found.values())} times as fast{tuned(counters)}",
        all(0.75 <= times < 1 for times in found.values()),
    )


def steady(counters: Counters) -> Claim:
    """Section 5: kernels for which DWT-PRIC is better."""
    thrashing = faster(counters, THRASHING, CCWS)
    found = {kernel: thrashing[kernel] for kernel in ("kmeans.row", "iix")}
    return Claim(
        f"{KHAIRY}, section 5, figure 9",
        "DWT-PRIC is better than CCWS on IIX and K-means, which thrash steadily",
        f"times as fast: {values(found, found.values(), '.3f')}{tuned(counters)}",
        min(found.values()) > 1,
    )


def throttling(counters: Counters, policies: str) -> Claim:
    """Section 4.2: throttling alone."""
    found = faster(counters, THRASHING, CCWS, policies)
    title = {"dwt-cs": "DWT-CS", "swl:best": "SWT"}[policies]
    return Claim(
        f"{KHAIRY}, section 4.2",
        f"over thrashing applications, {title} outperforms CCWS on average",
        f"times as fast: mean {mean(list(found.values())):.2f}; {values(found, found.values())}{tuned(counters)}",
        mean(list(found.values())) > 1,
    )


def contended_runs(counters: Counters) -> list[tuple[Measurement, Measurement]]:
    """Return the runs of all kernels with contention, without policies and under DWT-PRIC."""
    return [
        pair
        for of in CONTENDED
        for part in PARTS[of]
        for pair in zip(*(counters.of(machine_of(part), part, name) for name in ("none", OURS)), strict=True)
    ]


def misses_left(counters: Counters) -> dict[str, float]:
    """Return the L1 miss rate under DWT-PRIC by that without policies, by kernel."""
    return {before.kernel: misses_ratio(before, after) for before, after in contended_runs(counters)}


def misses_ratio(before: Measurement, after: Measurement) -> float:
    """Return the L1 miss rate of a run by that of another."""
    return after.misses * before.loads / (after.loads * before.misses)


def failures_left(counters: Counters) -> dict[str, float]:
    """Return the reservation failures per cycle under DWT-PRIC by those without policies, by kernel."""
    return {before.kernel: failures_ratio(before, after) for before, after in contended_runs(counters)}


def failures_ratio(before: Measurement, after: Measurement) -> float:
    """Return the reservation failures per cycle of a run by those of another."""
    return (after.total_failures / after.cycles) / (before.total_failures / before.cycles)


def misses(counters: Counters) -> Claim:
    """Figure 10: the miss rate."""
    left = misses_left(counters)
    less = {kernel: 100 * (1 - left[kernel]) for kernel in ("stencil3d", "kmeans.row", "syrk", "gesummv")}
    return Claim(
        f"{KHAIRY}, section 5, figure 10",
        "DWT-PRIC reduces the L1 miss rate by more than 80 % for 3DS, KMN, SYRK and GESUMMV",
        "percent less: " + values(less, less.values(), ".0f"),
        min(less.values()) > 80,
    )


def reservation_failures(counters: Counters) -> Claim:
    """Figure 11: reservation fails."""
    left = failures_left(counters)
    return Claim(
        f"{KHAIRY}, section 5, figure 11",
        "DWT-PRIC reduces L1 reservation fails per cycle, by 20 % on average: by more than 0",
        f"left: {fmean(left.values()):.2f} on average; {values(left, left.values())}",
        fmean(left.values()) < 1,
    )


CLAIMS: dict[str, Callable[[Counters], Claim]] = {
    "DWT-PRIC": contended,
    "DWT-PRIC and CCWS": lambda counters: against_all(counters, CCWS, "1.7"),
    "DWT-PRIC and CCWS, conflict": lambda counters: against(counters, CCWS, CONFLICT, "2.1"),
    "DWT-PRIC and CCWS, thrashing": lambda counters: against(counters, CCWS, THRASHING, "1.02"),
    "DWT-PRIC and CCWS, both": lambda counters: against(counters, CCWS, BOTH, "18"),
    "DWT-CS with PRIC and CCWS, thrashing": lambda counters: against(counters, CCWS, THRASHING, "1.02", OPEN),
    "CCWS, unsteady kernels": lambda counters: unsteady(counters, OURS),
    "CCWS, unsteady kernels, no bypassing": lambda counters: unsteady(counters, OPEN),
    "CCWS, steady kernels": steady,
    "DWT-CS and CCWS": lambda counters: throttling(counters, "dwt-cs"),
    "SWT and CCWS": lambda counters: throttling(counters, "swl:best"),
    "DWT-PRIC and MRPB": lambda counters: against_all(counters, MRPB, "1.5"),
    "DWT-PRIC and MRPB, conflict": lambda counters: against(counters, MRPB, CONFLICT, "1.37"),
    "DWT-PRIC and MRPB, thrashing": lambda counters: against(counters, MRPB, THRASHING, "1.25"),
    "DWT-PRIC and MRPB, both": lambda counters: against(counters, MRPB, BOTH, "4"),
    "DWT-PRIC, misses": misses,
    "DWT-PRIC, reservation fails": reservation_failures,
}
"""The function of each claim by the name of the claim."""
