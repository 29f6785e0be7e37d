"""Results as text that a person likes to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rdmodel.common.intervals import Estimate
from rdmodel.common.text import count as count
from rdmodel.common.text import percent as percent
from rdmodel.common.text import range_text, shape_text
from rdmodel.common.text import size_text as size_text
from rdmodel.gpu.config import GPU
from rdmodel.results.prediction import L2Prediction, Prediction
from rdmodel.reuse.histogram import Histogram, MissRatioCurve, by_powers
from rdmodel.reuse.sampled import SampledCurve, SampledHistogram
from rdmodel.trace.summary import Summary
from tracegen.formats import Listed

WIDTH = 24
"""Characters of the longest bar."""


LONGEST_NAME = 60
"""Characters of a kernel's name in a table; those of C++ may be pages long."""


def table(rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Return rows as aligned columns; the columns in `right` are flush right."""
    cells = [list(row) for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    flush = set(right)
    lines = [
        "  ".join(c.rjust(w) if i in flush else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]
    return "\n".join(line.rstrip() for line in lines)


def prediction(result: Prediction) -> str:
    """Return a prediction: what was modelled, the counts and causes, the rate and what it counts."""
    whole = result.transactions
    rows = [
        ("transactions", whole),
        ("hits", result.hits),
        ("latency misses", result.latency_misses),
        ("misses", result.misses.total),
        ("  compulsory", result.misses.compulsory),
        ("  capacity", result.misses.capacity),
        ("  associativity", result.misses.associativity),
    ]
    counts = table([("  " + name, count(n), percent(n, whole)) for name, n in rows], right=(1, 2))
    parts = [_heading(result), counts, _stalls(result), _rate(result)]
    if result.breakdown is not None:
        parts.insert(2, _breakdown(result))
    if result.ablation:
        parts.insert(2, _ablation(result))
    if result.l2 is not None:
        parts.insert(2, _l2(result.l2, result.config["options"]["sms"]))
    if result.estimates:
        parts.insert(3, _estimates(result.estimates))
    return "\n\n".join(parts)


def _l2(l2: L2Prediction, sms: int) -> str:
    rows = [
        ("  reads of the L2", count(l2.reads), ""),
        ("    hits", count(l2.hits), percent(l2.hits, l2.reads)),
        ("    misses", count(l2.misses), percent(l2.misses, l2.reads)),
        ("  writes", count(l2.writes), ""),
        ("    hits", count(l2.write_hits), percent(l2.write_hits, l2.writes)),
        ("  write-backs", count(l2.write_backs), ""),
        ("  DRAM bytes", count(l2.dram_bytes), ""),
    ]
    counts = table(rows, right=(1, 2))
    if l2.sms_modelled == sms:
        return counts
    alone = "1 SM alone" if l2.sms_modelled == 1 else f"{l2.sms_modelled} SMs alone"
    return f"{counts}\n  for {alone}: what the others fetch and evict is missing (--model-sms all)"


def _heading(result: Prediction) -> str:
    options = result.config["options"]
    blocks = blocks_of_grid(sum(sm.blocks for sm in result.per_sm), result.config)
    sms = "SM 0" if result.sms_modelled == 1 else f"{result.sms_modelled} SMs"
    seeds = f"seed {result.seed}" if not result.runs else f"{len(result.runs)} seeds from {result.seed}"
    return (
        f"{subject(result.kernel, result.config)} on {result.gpu}, definition {result.definition}\n"
        f"{sms} of {options['sms']}: {blocks}, {seeds}"
    )


def subject(kernel: str, config: Mapping[str, Any]) -> str:
    """Return the kernel of a result and its sizes."""
    return " ".join([kernel, *(f"{k}={v}" for k, v in config["trace"]["params"].items())])


def blocks_of_grid(blocks: int, config: Mapping[str, Any]) -> str:
    """Return how many blocks of its grid a result is about, and whether it was told to leave out the others."""
    x, y, z = config["trace"]["grid"]
    first = config["options"]["blocks"]
    return f"{blocks:,} of {x * y * z:,} blocks" + (f", only the first {first:,} of the grid" if first else "")


def _stalls(result: Prediction) -> str:
    text = f"  stalls {count(result.stalls)} (no MSHR {count(result.stalls_mshr)}, no way {count(result.stalls_ways)})"
    if result.bypassed:
        text += f", bypassed {count(result.bypassed)}"
    return f"{text}\n  time: trace {result.trace_seconds:.2f} s, model {result.seconds:.2f} s"


def _rate(result: Prediction) -> str:
    interval = ""
    if result.interval is not None:
        low, high = result.interval
        interval = f" (95 % interval {100 * low:.2f} to {100 * high:.2f} %)"
    rate = result.miss_rate
    if "miss_rate" in result.estimates:
        one = result.estimates["miss_rate"]
        rate = one.value
        interval = f", estimated (95 % interval {100 * one.low:.2f} to {100 * one.high:.2f} %)"
    stores = "" if result.config["options"]["stores"] == "allocate" else " and stores"
    line = result.config["gpu"]["l1"]["line"]
    return (
        f"L1 miss rate {100 * rate:.2f} %{interval}\n"
        f"counts load requests that leave the SM, per coalesced {line}-byte transaction;\n"
        f"leaves out requests to lines already in flight ({100 * result.latency_miss_rate:.2f} %){stores}"
    )


def _estimates(estimates: Mapping[str, Estimate]) -> str:
    """Return what a sample says of the whole, in counts."""
    rows = [("  estimated", "of all", "error", "95 % interval")]
    rows += [
        (f"  {name.replace('_', ' ')}", count(round(one.value)), *(_whole_numbers(one)))
        for name, one in estimates.items()
        if not name.endswith("rate")
    ]
    return f"a sample: {next(iter(estimates.values())).sampled}\n\n" + table(rows, right=(1, 2, 3))


def _whole_numbers(one: Estimate) -> tuple[str, str]:
    return count(round(one.standard_error)), f"{count(round(one.low))} to {count(round(one.high))}"


def _ablation(result: Prediction) -> str:
    rows = [("  without", "misses", "accounts for", "of all")]
    for row in result.ablation:
        share = percent(row.difference, result.transactions)
        rows.append((f"  {row.component}", count(row.misses), f"{row.difference:+,.0f}", share))
    return table(rows, right=(1, 2, 3))


def _breakdown(result: Prediction) -> str:
    assert result.breakdown is not None
    rows = [("  class (by switching components off)", "misses", "of all")]
    rows += [(f"  {name}", f"{n:+,.0f}", percent(n, result.transactions)) for name, n in result.breakdown.items()]
    return table(rows, right=(1, 2))


def reuse(result: Prediction, curve: MissRatioCurve, line: int, order: str) -> str:
    """Return a reuse-distance histogram by powers of two, and a miss-ratio curve."""
    assert result.histogram is not None
    rows = [("  distance", "transactions", "share", "")]
    for name, n in _by_powers(result.histogram):
        rows.append((f"  {name}", count(n), percent(n, result.transactions), _bar(n / result.transactions)))
    points = [("  cache", "lines", "miss ratio", "")]
    points += [(f"  {size_text(n * line)}", f"{n:,}", percent(ratio, 1), _bar(ratio)) for n, ratio in curve]
    return (
        f"{result.kernel}: {count(result.transactions)} transactions in the order {order}, {line}-byte lines\n\n"
        + table(rows, right=(1, 2))
        + "\n\n"
        + table(points, right=(0, 1, 2))
        + "\n\nmiss ratio of one fully associative LRU cache, first touches included"
    )


def sampled_reuse(kernel: str, found: SampledHistogram, curve: SampledCurve, line: int, order: str) -> str:
    """Return what a sample of the lines says of a miss-ratio curve, with the error of each point."""
    rows = [("  cache", "lines", "miss ratio", "error", "95 % interval", "")]
    rows += [
        (
            f"  {size_text(int(size) * line)}",
            f"{size:,}",
            percent(one.value, 1),
            percent(one.standard_error, 1),
            f"{100 * one.low:.2f} to {100 * one.high:.2f} %",
            _bar(one.value),
        )
        for size, one in zip(curve.sizes, curve.estimates(), strict=True)
    ]
    return (
        f"{kernel}: {count(found.total)} transactions in the order {order}, {line}-byte lines\n"
        f"a sample: {found.sampled}, with {count(found.followed)} of the transactions\n\n"
        + table(rows, right=(0, 1, 2, 3, 4))
        + "\n\nestimated miss ratio of one fully associative LRU cache, first touches included;\n"
        f"the sample cannot tell caches of fewer than {-(-2 // found.rate):,.0f} lines from each other"
    )


def plain_error(one: Estimate) -> dict[str, float]:
    """Return the error of an estimate as plain numbers, for the rows of a table."""
    return {"standard_error": one.standard_error, "low": one.low, "high": one.high}


def _bar(share: float) -> str:
    return "#" * round(WIDTH * share)


def _by_powers(histogram: Histogram) -> list[tuple[str, int]]:
    rows = [(range_text(low, high), n) for low, high, n in by_powers(histogram)]
    return [*rows, ("first touch", histogram.infinite)]


def bytes_text(size: int) -> str:
    """Return a number of bytes rounded up to a tenth of the largest unit, as ``--memory`` takes it: 1.5G."""
    for unit, bits in (("G", 30), ("M", 20), ("K", 10)):
        if size >= 1 << bits:
            tenths = -(-10 * size // (1 << bits))
            return f"{tenths // 10}{unit}" if tenths % 10 == 0 else f"{tenths / 10:.1f}{unit}"
    return str(size)


def summary(result: Summary) -> str:
    """Return what a trace holds."""
    rows = [
        ("grid, block", f"{shape_text(result.grid)}, {shape_text(result.block)} threads"),
        ("blocks held", f"{result.blocks_held:,} of {result.blocks:,}"),
        *((f"{name} instructions", f"{n:,}") for name, n in result.instructions.items() if n),
        ("lane accesses", f"{result.lane_accesses:,} ({result.active_lanes:.1f} active lanes an instruction)"),
        ("bytes requested", f"{result.bytes_requested:,}"),
        ("footprint", f"{result.lines:,} lines of {result.line} bytes = {result.footprint:,} bytes"),
        ("load transactions", f"{result.load_transactions:,} ({result.transactions_per_load:.2f} a load)"),
    ]
    parts = [f"{result.kernel}, a trace of warp instructions", table((f"  {name}", text) for name, text in rows)]
    if result.arrays:
        uses = [("  array", "base", "bytes", "lane accesses", "touched")]
        uses += [
            (f"  {a.name}", f"{a.base:#x}", f"{a.bytes:,}", f"{a.accesses:,}", size_text(a.footprint))
            for a in result.arrays
        ]
        parts.append(table(uses, right=(1, 2, 3, 4)))
    return "\n\n".join(parts)


def launches(source: str, form: str, found: Sequence[Listed]) -> str:
    """Return the launches that a file holds as a table."""
    rows = [("  id", "kernel", "grid", "block", "threads")]
    rows += [
        (
            str(one.number),
            _cut(one.launch.kernel),
            shape_text(one.launch.grid),
            shape_text(one.launch.block),
            f"{threads:,}",
        )
        for one in found
        for threads in [one.launch.blocks * one.launch.block_threads]
    ]
    what = f"{len(found):,} launch" + ("es" if len(found) != 1 else "")
    return f"{source}: {what} (format {form})\n\n{table(rows, right=(0, 4))}"


def _cut(name: str) -> str:
    """Return a name that leaves room for what stands beside it."""
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 3] + "..."


def kernels(specs: Iterable[Any]) -> str:
    """Return the list of kernels with sizes and blocks."""
    rows = [("kernel", "sizes", "block", "what it does")]
    for spec in specs:
        files = (f"[{name}=FILE]" for name in spec.inputs)
        sizes = " ".join([*(f"{name}={value}" for name, value in spec.sizes.items()), *files])
        rows.append((spec.name, sizes, shape_text(spec.block), spec.description))
    return table(rows)


def gpus(machines: Iterable[GPU]) -> str:
    """Return the list of GPUs with their L1 caches."""
    rows = [("GPU", "SMs", "L1", "ways", "sets", "line", "index", "MSHRs", "blocks", "threads")]
    for gpu in machines:
        l1 = gpu.l1
        mshrs = "inf" if l1.mshrs is None else str(l1.mshrs)
        numbers = (size_text(l1.size), str(l1.ways), str(l1.sets), str(l1.line))
        rows.append((gpu.name, str(gpu.sms), *numbers, l1.index.name, mshrs, str(gpu.max_blocks), str(gpu.max_threads)))
    return table(rows, right=(1, 2, 3, 4, 5, 7, 8, 9))
