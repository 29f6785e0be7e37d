"""Compare counters that Khairy, Zahran and Wassal print (GPGPU-8 2015, section 5) with those of the simulator."""

from __future__ import annotations

from validation.policies.claims import Counters
from validation.policies.khairy import MACHINE
from validation.policies.khairy_others import CCWS, MRPB, OURS, THRASHING, contended_runs, failures_ratio, misses_ratio
from validation.policies.measure import Measurement

POLICIES = ("none", "swl:best", "dwt-cs", CCWS, MRPB, OURS)
"""Policies of the table of K-means."""

FAR, HALF = "less than 20 %", "down to 40 %"

MISSES_LEFT = {
    "2dconv": HALF,
    "2mm.1": HALF,
    "stencil3d": FAR,
    "kmeans.row": FAR,
    "iix": HALF,
    "syrk": FAR,
    "gesummv": FAR,
}
"""Miss rate under DWT-PRIC by that of the baseline, in words (figure 10)."""

FAILURES_LEFT = {
    "2dconv": "down to 10 %",
    "2mm.1": HALF,
    "kmeans.row": "down to 10 %",
    "iix": HALF,
    "syrk": HALF,
    "gesummv": "down to 10 %",
}
"""Reservation failures per cycle under DWT-PRIC by those of the baseline, in words (figure 11)."""

UNBOUNDED = {"srad.1": "up to 70 %", "srad.2": "up to 70 %", "streamcluster": "up to 50 %"}
"""Miss rate in a cache without bounds, in words (section 5, about figure 11)."""

HEAD = """\
Counters that the paper prints in words (section 5, figures 10 and 11), and here: under DWT-PRIC, the shares of the L1
miss rate and of the reservation failures per cycle that are left of the baseline's; and the miss rate without bounds,
which is here the share of compulsory misses.

| kernel | misses left: paper | here | failures left: paper | here | unbounded misses: paper | here |
|---|---|---:|---|---:|---|---:|
"""


WAITING, K_MEANS = "waiting", "kmeans.row"
"""The group of K-means with a wait in every iteration, and its kernel."""


ARGUMENT = """
What the counters say about the statements that do not hold:

* **Conflicts.** For SYRK, GESUMMV, MM and IIX, misses and failures fall as far as printed or nearly so, and the
  unbounded miss rates of SRAD and SCLUSTER are those of the paper. The caches of both simulators see the same streams.
* **K-means.** Its misses can only fall by more than 80 % if the baseline thrashes. Here, it does not if loops are
  unrolled by 4, as compilers do for GPUs. GPGPU-Sim 3 executes PTX, in which a loop whose bound is an argument may
  stay as it is: a warp waits in every iteration, and meanwhile others replace its lines. With this wait, K-means loses
  as many misses as printed, its best limit is that of table 3, DWT-CS finds it, and both CCWS and DWT-PRIC double the
  speed. So the loop explains "SWT", "DWT-CS", "CCWS, steady kernels" and "DWT-PRIC, misses" as far as K-means is
  concerned.
* **3DS.** Its misses can only fall by more than 80 % if it has conflicts or thrashes. Here, a stencil has compulsory
  misses only, with any index function. The paper prints neither the size nor the blocks of its program.
* **2DCONV.** PRIC leaves more misses here. A quarter of the loads are compulsory misses, so that 40 % can only be left
  of a baseline that misses in more than 60 % of its loads.
* **Time to sample.** DWT-CS takes six periods, as printed: 60,000 cycles. The longest run here has three million
  cycles, the shortest that thrashes 228,000; the paper's run for up to 10^8 instructions. This decides "DWT-PRIC and
  MRPB, conflict", and IIX beside CCWS.
* **The front.** Registers and collectors before the load/store unit, and blocks that wait for their stores, hardly
  change the conflict group; MRPB on 2DCONV loses most. On the thrashing group, DWT-PRIC gains more with them, and more
  than CCWS with the paper's throttle of 8 on every kernel."""


def printed(counters: Counters) -> str:
    """Return the table of the printed counters beside those of the simulator."""
    rows = [_row(before.kernel, before, after) for before, after in contended_runs(counters)]
    before, after = (counters.get(MACHINE, WAITING, K_MEANS, name) for name in ("none", OURS))
    rows.append(_row(f"{K_MEANS}, waiting in every iteration", before, after))
    return HEAD + "\n".join(rows)


def _row(title: str, before: Measurement, after: Measurement) -> str:
    cells = [
        title,
        MISSES_LEFT.get(before.kernel, ""),
        f"{100 * misses_ratio(before, after):.0f} %",
        FAILURES_LEFT.get(before.kernel, ""),
        f"{100 * failures_ratio(before, after):.0f} %",
        UNBOUNDED.get(before.kernel, ""),
        f"{100 * before.compulsory / before.loads:.0f} %",
    ]
    return f"| {' | '.join(cells)} |"


def waiting(counters: Counters) -> str:
    """Return the table of K-means with a wait in every iteration, and what all tables say."""
    lines = [
        "K-means with a wait in every iteration, and in brackets with a loop that is unrolled by 4: times as fast as\n"
        "the baseline, limit, and misses per 1000 instructions.\n",
        "| policies | times as fast | limit | MPKI |",
        "|---|---:|---:|---:|",
    ]
    for name in POLICIES:
        one, other = (_cells(counters, of, name) for of in (WAITING, THRASHING))
        cells = (f"{here} [{there}]" for here, there in zip(one, other, strict=True))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ARGUMENT])


def _cells(counters: Counters, of: str, name: str) -> tuple[str, str, str]:
    """Return speed, limit and MPKI of K-means in a group."""
    before, run = (counters.get(MACHINE, of, K_MEANS, policies) for policies in ("none", name))
    return f"{before.cycles / run.cycles:.2f}", str(run.found) if run.found >= 0 else "none", f"{run.mpki:.0f}"
