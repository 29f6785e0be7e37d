"""Format the locality of a kernel as text."""

from __future__ import annotations

from rdmodel.cli.table_folding import fold_prose, terminal_width
from rdmodel.cli.text_simulation import format_policies
from rdmodel.cli.text_tables import (
    format_blocks,
    format_gpu,
    format_kernel,
    format_number_table,
    format_sms,
    format_table,
)
from rdmodel.common.text import count, percent
from rdmodel.locality_analysis.values import LINE_TYPES, LoadLocality, Locality
from rdmodel.policies import IndexFunction

CLASS_LABELS = {
    "intra_thread": "  intra-thread",
    "inter_thread": "  inter-thread, same warp",
    "intra_block": "  intra-block",
    "intra_core": "  intra-core",
    "inter_core": "  inter-core",
}
"""Row labels of the classes of re-references."""

LINE_TYPE_LABELS = dict(zip(LINE_TYPES, ("streaming", "inter-warp", "intra-warp", "inter+intra-warp"), strict=True))
"""Labels of the types of lines."""


def format_locality(result: Locality, index: IndexFunction | None = None) -> str:
    """Return re-references by class, types of lines, reuse distances, accesses per line, loads, and evictions.

    `index` is the index function that was given with the policies.
    """
    parts = [
        _format_classes(result),
        _format_line_types(result),
        _format_distances(result),
        _format_accesses(result),
        _format_loads(result),
        _format_evictions(result),
    ]
    return "\n\n".join([_format_heading(result, index), *parts, _format_summary(result)])


def _format_heading(result: Locality, index: IndexFunction | None) -> str:
    run, options = result.simulation, result.simulation.config["options"]
    blocks = format_blocks(sum(sm.blocks for sm in run.per_sm), run.config)
    return (
        f"{format_kernel(run.kernel, run.config)} on {format_gpu(run.gpu)}, locality of its simulated loads\n"
        f"{format_sms(run.sms)}: {blocks}, scheduler {options['sched']}{format_policies(run, index)}"
    )


def _format_classes(result: Locality) -> str:
    unbounded, bounded, whole = result.unbounded.to_dict(), result.bounded.to_dict(), result.accesses
    rows = [("  L1 loads", "transactions", "of all", "hits", "of all"), ("    all", count(whole), "100.00 %", "", "")]
    rows.append(("    first touches", count(result.first_touches), percent(result.first_touches, whole), "", ""))
    pairs = [("re-references", result.unbounded.total, result.bounded.total)]
    pairs += [(text, unbounded[name], bounded[name]) for name, text in CLASS_LABELS.items()]
    rows += [(f"    {text}", count(n), percent(n, whole), count(hits), percent(hits, whole)) for text, n, hits in pairs]
    return format_table(rows, right=(1, 2, 3, 4))


def _format_line_types(result: Locality) -> str:
    rows = [("  lines", "brought", "of all", "used again", "mean distance")]
    rows.append(("    all", count(result.lines.total), "100.00 %", "", ""))
    for name, n in result.lines.to_dict().items():
        reuse = result.reuse_distances[name]
        distance = f"{reuse.mean:,.1f}" if reuse.total else ""
        share = percent(n, result.lines.total)
        rows.append((f"    {LINE_TYPE_LABELS[name]}", count(n), share, count(reuse.total), distance))
    return format_table(rows, right=(1, 2, 3, 4))


def _format_distances(result: Locality) -> str:
    """Return the distribution of reuse distances for each type of line that is used again."""
    parts = {name: reuse for name, reuse in result.reuse_distances.items() if reuse.total}
    if not parts:
        return "  no line is used again on its SM"
    spread = {name: reuse.by_power() for name, reuse in parts.items()}
    rows: list[tuple[str, ...]] = [("  reuse distance", *(LINE_TYPE_LABELS[name] for name in parts))]
    for limits in max(spread.values(), key=len):
        shares = (percent(spread[name].get(limits, 0), reuse.total) for name, reuse in parts.items())
        rows.append((f"    {limits}", *shares))
    return format_number_table(rows)


def _format_accesses(result: Locality) -> str:
    """Return the distributions of the number of accesses to a line, in all and per stay in the L1."""
    parts = (result.accesses_per_line, result.accesses_per_stay)
    spread = [part.by_power() for part in parts]
    rows: list[tuple[str, ...]] = [("  accesses", "per line", "per stay in the L1")]
    for limits in max(spread, key=len):
        shares = (percent(some.get(limits, 0), sum(some.values())) for some in spread)
        rows.append((f"    {limits}", *shares))
    rows.append(("    mean", *(f"{part.mean:,.2f}" for part in parts)))
    return format_table(rows, right=(1, 2))


def _format_loads(result: Locality) -> str:
    rows = [("  load at pc", "transactions", "hits", "lines", "dominant type", "of lines", "concentration")]
    return format_table([*rows, *map(_load_row, result.loads)], right=(1, 2, 3, 5, 6))


def _load_row(load: LoadLocality) -> tuple[str, ...]:
    hits, lines = percent(load.hits, load.accesses), load.lines.to_dict()
    named = (
        ("-", "")
        if load.dominant is None
        else (LINE_TYPE_LABELS[load.dominant], percent(lines[load.dominant], load.lines.total))
    )
    return (f"    {load.pc}", count(load.accesses), hits, count(load.lines.total), *named, f"{load.concentration:.2f}")


def _format_evictions(result: Locality) -> str:
    evicted = result.simulation.contention
    pairs = (
        ("intra-warp", evicted.intra_warp),
        ("cross-warp, same block", evicted.cross_warp_intra_block),
        ("cross-block", evicted.cross_block),
    )
    whole = sum(n for _, n in pairs)
    rows = [("  L1 evictions", "lines", "of all"), ("    all", count(whole), percent(whole, whole))]
    return format_table([*rows, *((f"    {text}", count(n), percent(n, whole)) for text, n in pairs)], right=(1, 2))


def _format_summary(result: Locality) -> str:
    run = result.simulation
    reused_on_sm = result.unbounded.total - result.unbounded.inter_core
    text = (
        f"access pattern similarity {result.similarity:.2f}, balance over the sets {result.balance:.2f}, "
        f"L1 miss rate {100 * run.miss_rate:.2f} %\n"
        f"an L1 without evictions would serve {percent(reused_on_sm, result.accesses)} of the load transactions, "
        f"this one serves {percent(result.bounded.total, result.accesses)}"
    )
    return fold_prose(text, terminal_width())
