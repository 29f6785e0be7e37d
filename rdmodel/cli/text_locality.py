"""Who uses a kernel's lines again, as text."""

from __future__ import annotations

from rdmodel.cli.text import blocks_of_grid, count, percent, subject, table
from rdmodel.cli.text_simulation import policies
from rdmodel.locality_analysis.values import LINE_TYPES, LoadLocality, Locality
from rdmodel.policies import IndexFunction

CLASSES = {
    "intra_thread": "  intra-thread",
    "inter_thread": "  inter-thread, same warp",
    "intra_block": "  intra-block",
    "intra_core": "  intra-core",
    "inter_core": "  inter-core",
}
"""Classes of re-references, as they are printed."""

NAMES = dict(zip(LINE_TYPES, ("streaming", "inter-warp", "intra-warp", "inter+intra-warp"), strict=True))
"""Types of lines, as they are printed."""


def locality(found: Locality, index: IndexFunction | None = None) -> str:
    """Return a locality: re-references, types of lines, distances, accesses per line, loads, and what they say."""
    parts = [_classes(found), _types(found), _distances(found), _accesses(found), _loads(found), _evictions(found)]
    return "\n\n".join([_heading(found, index), *parts, _summary(found)])


def _heading(found: Locality, index: IndexFunction | None) -> str:
    run, options = found.simulation, found.simulation.config["options"]
    blocks = blocks_of_grid(sum(sm.blocks for sm in run.per_sm), run.config)
    sms = "1 SM" if run.sms == 1 else f"{run.sms} SMs"
    return (
        f"{subject(run.kernel, run.config)} on {run.gpu}, locality of its loads as simulated\n"
        f"{sms}: {blocks}, scheduler {options['sched']}{policies(run, index)}"
    )


def _classes(found: Locality) -> str:
    unbounded, bounded, whole = found.unbounded.to_dict(), found.bounded.to_dict(), found.accesses
    rows = [("  L1 loads", "transactions", "of all", "hits", "of all"), ("    all", count(whole), "100.00 %", "", "")]
    rows.append(("    first touches", count(found.first_touches), percent(found.first_touches, whole), "", ""))
    pairs = [("re-references", found.unbounded.total, found.bounded.total)]
    pairs += [(text, unbounded[name], bounded[name]) for name, text in CLASSES.items()]
    rows += [(f"    {text}", count(n), percent(n, whole), count(hits), percent(hits, whole)) for text, n, hits in pairs]
    return table(rows, right=(1, 2, 3, 4))


def _types(found: Locality) -> str:
    rows = [("  lines", "brought", "of all", "used again", "mean distance")]
    rows.append(("    all", count(found.lines.total), "100.00 %", "", ""))
    for name, n in found.lines.to_dict().items():
        reuse = found.reuse_distances[name]
        distance = f"{reuse.mean:,.1f}" if reuse.total else ""
        share = percent(n, found.lines.total)
        rows.append((f"    {NAMES[name]}", count(n), share, count(reuse.total), distance))
    return table(rows, right=(1, 2, 3, 4))


def _distances(found: Locality) -> str:
    """Return how the distances of each type of line that is used again are spread; empty without any."""
    parts = {name: reuse for name, reuse in found.reuse_distances.items() if reuse.total}
    if not parts:
        return "  no line is used again on its SM"
    spread = {name: reuse.by_power() for name, reuse in parts.items()}
    rows: list[tuple[str, ...]] = [("  reuse distance", *(NAMES[name] for name in parts))]
    for limits in max(spread.values(), key=len):
        shares = (percent(spread[name].get(limits, 0), reuse.total) for name, reuse in parts.items())
        rows.append((f"    {limits}", *shares))
    return table(rows, right=range(1, len(rows[0])))


def _accesses(found: Locality) -> str:
    """Return how many accesses lines have: in all, and until they miss again."""
    parts = (found.accesses_per_line, found.accesses_per_stay)
    spread = [part.by_power() for part in parts]
    rows: list[tuple[str, ...]] = [("  accesses", "per line", "per stay in the L1")]
    for limits in max(spread, key=len):
        shares = (percent(some.get(limits, 0), sum(some.values())) for some in spread)
        rows.append((f"    {limits}", *shares))
    rows.append(("    mean", *(f"{part.mean:,.2f}" for part in parts)))
    return table(rows, right=(1, 2))


def _loads(found: Locality) -> str:
    rows = [("  load at pc", "transactions", "hits", "lines", "mostly", "of them", "concentration")]
    return table([*rows, *map(_load, found.loads)], right=(1, 2, 3, 5, 6))


def _load(load: LoadLocality) -> tuple[str, ...]:
    hits, lines = percent(load.hits, load.accesses), load.lines.to_dict()
    named = (
        ("-", "") if load.dominant is None else (NAMES[load.dominant], percent(lines[load.dominant], load.lines.total))
    )
    return (f"    {load.pc}", count(load.accesses), hits, count(load.lines.total), *named, f"{load.concentration:.2f}")


def _evictions(found: Locality) -> str:
    evicted = found.simulation.contention
    pairs = (
        ("intra-warp", evicted.intra_warp),
        ("cross-warp, same block", evicted.cross_warp_intra_block),
        ("cross-block", evicted.cross_block),
    )
    whole = sum(n for _, n in pairs)
    rows = [("  L1 evictions", "lines", "of all"), ("    all", count(whole), percent(whole, whole))]
    return table([*rows, *((f"    {text}", count(n), percent(n, whole)) for text, n in pairs)], right=(1, 2))


def _summary(found: Locality) -> str:
    run = found.simulation
    here = found.unbounded.total - found.unbounded.inter_core
    return (
        f"access pattern similarity {found.similarity:.2f}, balance over the sets {found.balance:.2f}, "
        f"L1 miss rate {100 * run.miss_rate:.2f} %\n"
        f"an L1 that forgets nothing would serve {percent(here, found.accesses)} of the load transactions, "
        f"this one serves {percent(found.bounded.total, found.accesses)}"
    )
