"""Format a prediction as text."""

from __future__ import annotations

from collections.abc import Mapping

from rdmodel.cli.text_tables import (
    format_blocks,
    format_carveout,
    format_gpu,
    format_kernel,
    format_occupancy,
    format_table,
)
from rdmodel.common.intervals import Estimate
from rdmodel.common.text import count, percent
from rdmodel.errors import escape_unprintable
from rdmodel.gpu.occupancy import Occupancy
from rdmodel.results.prediction import L2Prediction, Prediction


def format_prediction(result: Prediction, occupancy: Occupancy) -> str:
    """Return the modelled part of the launch, the requests by outcome, and the miss rate with its definition."""
    heading = f"{_format_heading(result)}\n{format_occupancy(occupancy)}"
    if _samples_grid(result):
        return "\n\n".join([heading, _format_estimates(result.estimates), _format_rates(result)])
    parts = [heading, _format_counts(result), _format_stalls(result), _format_miss_rate(result)]
    if result.breakdown is not None:
        parts.insert(2, _format_breakdown(result))
    if result.ablation:
        parts.insert(2, _format_ablation(result))
    if result.l2 is not None:
        parts.insert(2, _format_l2(result.l2, result.config["options"]["sms"]))
    if result.estimates:
        parts.insert(3, _format_estimates(result.estimates))
    return "\n\n".join(parts)


def _format_counts(result: Prediction) -> str:
    """Return the requests of loads by outcome: transactions, or sectors where lines have several."""
    total = result.sectors
    rows = [
        ("hits", result.hits),
        ("latency misses", result.latency_misses),
        ("misses", result.misses.total),
        ("  compulsory", result.misses.compulsory),
        ("  capacity", result.misses.capacity),
        ("  associativity", result.misses.associativity),
    ]
    cells = [("  " + name, count(n), percent(n, total)) for name, n in rows]
    if result.unit == "transactions":
        cells.insert(0, ("  transactions", count(result.transactions), percent(result.transactions, total)))
    else:
        each = f", {result.sectors_per_transaction:.2f} each" if result.transactions else ""
        cells[:0] = [
            ("  transactions", count(result.transactions), ""),
            ("    line absent", count(result.tag_misses), percent(result.tag_misses, result.transactions)),
            ("    sectors absent", count(result.sector_misses), percent(result.sector_misses, result.transactions)),
            (f"  sectors{each}", count(total), percent(total, total)),
        ]
    if result.stores.transactions:
        cells += [
            ("  stores", count(result.stores.transactions), ""),
            ("    sectors", count(result.stores.sectors), percent(result.stores.sectors, result.stores.sectors)),
            ("    hits", count(result.stores.hits), percent(result.stores.hits, result.stores.sectors)),
        ]
    if result.bypassed_transactions:
        cells += [
            ("  loads past the L1", count(result.bypassed_transactions), ""),
            ("    sectors", count(result.bypassed_sectors), ""),
        ]
    return format_table(cells, right=(1, 2))


def _format_l2(l2: L2Prediction, sms: int) -> str:
    rows = [
        ("  reads of the L2", count(l2.reads), ""),
        ("    hits", count(l2.hits), percent(l2.hits, l2.reads)),
        ("    misses", count(l2.misses), percent(l2.misses, l2.reads)),
        ("  writes", count(l2.writes), ""),
        ("    hits", count(l2.write_hits), percent(l2.write_hits, l2.writes)),
        ("  write-backs", count(l2.write_backs), ""),
        ("  DRAM bytes", count(l2.dram_bytes), ""),
    ]
    if l2.atomic_sectors:
        rows.append(("    atomics", count(l2.atomic_sectors * l2.sector), ""))
    if l2.constant_sectors:
        rows.append(("    constant memory", count(l2.constant_sectors * l2.sector), ""))
    if l2.sector < l2.line:
        rows += [
            (f"  sectors of {l2.sector} bytes", "", ""),
            ("    read from DRAM", count(l2.dram_read_sectors), ""),
            ("    between partitions", count(l2.partition_sectors), ""),
        ]
    counts = format_table(rows, right=(1, 2))
    if l2.sms_modelled == sms:
        return counts
    alone = "1 SM alone" if l2.sms_modelled == 1 else f"{l2.sms_modelled} SMs alone"
    return (
        f"{counts}\n  for {alone}: the requests of the other SMs are missing "
        "(without --model-sms, all SMs are modelled)"
    )


def _format_heading(result: Prediction) -> str:
    options = result.config["options"]
    blocks = sum(sm.blocks for sm in result.per_sm)
    if _samples_grid(result):
        x, y, z = result.config["trace"]["grid"]
        blocks = min(x * y * z, options["blocks"] or x * y * z)
    run = format_blocks(blocks, result.config)
    sms = "SM 0" if result.sms_modelled == 1 else f"{result.sms_modelled} SMs"
    seeds = f"seed {result.seed}" if not result.runs else f"{len(result.runs)} seeds from {result.seed}"
    return (
        f"{format_kernel(result.kernel, result.config)} on {format_gpu(result.gpu)}, definition {result.definition}\n"
        f"{sms} of {options['sms']}: {run}, {seeds}{format_carveout(result.config)}"
    )


def _samples_grid(result: Prediction) -> bool:
    """Return whether the counters are estimates of the whole grid, from windows of it."""
    return bool(result.estimates) and result.l2 is not None


def _format_stalls(result: Prediction) -> str:
    text = f"  stalls {count(result.stalls)} (no MSHR {count(result.stalls_mshr)}, no way {count(result.stalls_ways)})"
    if result.bypassed:
        text += f", bypassed {count(result.bypassed)}"
    return f"{text}\n  time: trace {result.trace_seconds:.2f} s, model {result.seconds:.2f} s"


def _format_miss_rate(result: Prediction) -> str:
    if not result.transactions and result.bypassed_transactions:
        return "L1 miss rate: no loads look into the L1"
    if not result.transactions:
        hint = "; --l2 counts stores at the L2, --stores in the L1"
        uncounted = result.l2 is None and result.config["options"]["stores"] == "free"
        return "L1 miss rate: no loads" + (hint if uncounted else "")
    interval = ""
    if result.interval is not None:
        low, high = result.interval
        interval = f" (95 % interval {100 * low:.2f} to {100 * high:.2f} %)"
    rate = result.miss_rate
    if "miss_rate" in result.estimates:
        estimate = result.estimates["miss_rate"]
        rate = estimate.value
        interval = f", estimated (95 % interval {100 * estimate.low:.2f} to {100 * estimate.high:.2f} %)"
    stores = "" if result.config["options"]["stores"] == "allocate" else " and stores"
    l1 = result.config["gpu"]["l1"]
    unit, part = f"coalesced {l1['line']}-byte transaction", "lines"
    if result.unit == "sectors":
        unit, part = f"{l1['sector']}-byte sector", "sectors"
    return (
        f"L1 miss rate {100 * rate:.2f} %{interval}\n"
        f"counts load requests that leave the SM, per {unit};\n"
        f"leaves out requests to {part} already in flight ({100 * result.latency_miss_rate:.2f} %){stores}"
        f"{_format_expected_error(result)}"
    )


def _format_expected_error(result: Prediction) -> str:
    """Return a line with the error that counters lead one to expect; empty for a GPU of no named architecture."""
    if result.expected_error is not None:
        return f"\n{result.expected_error}"
    name = escape_unprintable(result.architecture)
    return f"\nno L1 counters of {name} to compare with" if name else ""


def _format_rates(result: Prediction) -> str:
    """Return the miss rates of the L1 and of the L2 of a whole grid, estimated."""
    line = ""
    if "l2_miss_rate" in result.estimates:
        l2 = result.estimates["l2_miss_rate"]
        interval = f"95 % interval {100 * l2.low:.2f} to {100 * l2.high:.2f} %"
        line = f"L2 miss rate of reads {100 * l2.value:.2f} % ({interval})\n"
    return f"{line}{_format_miss_rate(result)}\n--work all runs everything"


def _format_estimates(estimates: Mapping[str, Estimate]) -> str:
    """Return the estimated counts for all SMs or blocks, from a sample of them."""
    rows = [("  estimated", "of all", "error", "95 % interval")]
    rows += [
        (f"  {name.replace('_', ' ')}", count(round(estimate.value)), *_error_columns(estimate))
        for name, estimate in estimates.items()
        if not name.endswith("rate")
    ]
    return f"a sample: {next(iter(estimates.values())).sampled}\n\n" + format_table(rows, right=(1, 2, 3))


def _error_columns(estimate: Estimate) -> tuple[str, str]:
    return count(round(estimate.standard_error)), f"{count(round(estimate.low))} to {count(round(estimate.high))}"


def _format_ablation(result: Prediction) -> str:
    rows = [("  without", "misses", "accounts for", "of all")]
    for row in result.ablation:
        share = percent(row.difference, result.sectors)
        rows.append((f"  {row.component}", count(row.misses), f"{row.difference:+,.0f}", share))
    return format_table(rows, right=(1, 2, 3))


def _format_breakdown(result: Prediction) -> str:
    assert result.breakdown is not None
    rows = [("  class (by switching components off)", "misses", "of all")]
    rows += [(f"  {name}", f"{n:+,.0f}", percent(n, result.sectors)) for name, n in result.breakdown.items()]
    return format_table(rows, right=(1, 2))
