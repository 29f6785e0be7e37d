"""Format a simulation as text: one table with a section for each part of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rdmodel.cli.text_tables import (
    format_blocks,
    format_carveout,
    format_gpu,
    format_kernel,
    format_occupancy,
    format_sms,
    format_table,
)
from rdmodel.common.text import count, counted, percent
from rdmodel.gpu.occupancy import Occupancy
from rdmodel.policies import IndexFunction, Policy
from rdmodel.policies.combinations import member_text
from rdmodel.results.simulation import DramCounts, L2Counts, MissLatencies, Simulation, Traffic
from rdmodel.simulator.options import SimulationOptions

Row = tuple[str, str, str]
"""A label and two numbers as text."""

STALL_LABELS = {
    "line_alloc": "no way",
    "mshr_entry": "no MSHR",
    "mshr_merge": "full MSHR",
    "miss_queue": "full miss queue",
    "dram_queue": "full DRAM queue",
}
"""Missing resource that makes a request wait, by the name of its counter."""


def format_simulation(result: Simulation, occupancy: Occupancy, index: IndexFunction | None = None) -> str:
    """Return the cycles of a simulation, the counters of L1s, crossbar, L2 and DRAM, and the miss rate.

    `index` is the index function that was given with the policies.
    """
    memory = result.config["options"]["memory"]
    sections = [
        _cycle_rows(result),
        _l1_rows(result),
        _latency_rows(result.miss_latencies),
        _reservation_failure_rows(result),
        _eviction_rows(result),
    ]
    sections.append(_traffic_rows(result.traffic, memory))
    if result.l2 is not None:
        sections.append(_l2_rows(result.l2, "requests" if result.lookups is None else "sectors"))
    if result.dram is not None:
        sections.append(_dram_rows(result.dram, _seconds(result)))
    # One table, so that all sections share their columns.
    rows = [row for section in sections for row in [*section, ("", "", "")]][:-1]
    time = f"  time: trace {result.trace_seconds:.2f} s, simulation {result.seconds:.2f} s"
    heading = f"{_format_heading(result, index)}\n{format_occupancy(occupancy)}"
    return "\n\n".join([heading, format_table(rows, right=(1, 2)), time, _format_miss_rate(result)])


def _format_heading(result: Simulation, index: IndexFunction | None) -> str:
    options = result.config["options"]
    blocks = format_blocks(sum(sm.blocks for sm in result.per_sm), result.config)
    stores = "" if options["stores"] else ", without stores"
    before = result.config.get("earlier_launches", 0)
    warm = f", L2 as {counted(before, 'launch', 'launches')} left it" if before else ""
    schedule = f"scheduler {options['sched']}{stores}, seed {result.seed}{warm}"
    return (
        f"{format_kernel(result.kernel, result.config)} on {format_gpu(result.gpu)}, simulated\n"
        f"{format_sms(result.sms)}: {blocks}, {schedule}{format_carveout(result.config)}"
        f"{format_policies(result, index)}"
    )


def format_together(results: Sequence[Simulation]) -> str:
    """Return a line with the cycles and the IPC of launches that ran one after another."""
    cycles = sum(result.cycles for result in results)
    instructions = sum(result.instructions for result in results)
    ipc = f", IPC {instructions / cycles:.2f}" if cycles else ""
    return f"all {len(results)} launches: {count(cycles)} cycles, {count(instructions)} thread instructions{ipc}"


def format_policies(result: Simulation, index: IndexFunction | None = None) -> str:
    """Return a line break and a line with the policies of a run and the values that they chose; empty without any."""
    members: list[Policy | IndexFunction] = [*SimulationOptions(policies=result.config["options"]["policies"]).policies]
    if index is not None:
        members.append(index)
    if not members:
        return ""
    return f"\npolicies {', '.join(map(member_text, members))}" + (
        f"; found {format_found_values(result)}" if result.found else ""
    )


def format_found_values(result: Simulation) -> str:
    """Return the values that the policies of a run chose by themselves."""
    return ", ".join(f"{name}={value}" for name, value in result.found.items())


def _format_miss_rate(result: Simulation) -> str:
    l1 = result.config["gpu"]["l1"]
    unit, part = f"coalesced {l1['line']}-byte transaction", "lines"
    if result.lookups is not None:
        unit, part = f"{l1.get('sector') or l1['line']}-byte sector", "sectors"
    bypassed = ", loads that bypass the L1" if result.config["options"]["policies"] else ""
    if not result.transactions:
        return "L1 miss rate: no loads"
    return (
        f"L1 miss rate {100 * result.miss_rate:.2f} %, MPKI {result.mpki:,.2f} (misses per 1000 thread instructions)\n"
        f"counts load requests that leave the SM, per {unit};\n"
        f"leaves out requests to {part} already in flight ({100 * result.pending_hit_rate:.2f} %){bypassed} and stores"
    )


def _seconds(result: Simulation) -> float:
    """Return the simulated time in seconds."""
    return float(result.cycles / (result.config["gpu"]["clock"] * 1e6))


# ---- sections


def _cycle_rows(result: Simulation) -> list[Row]:
    warps = result.warp_instructions / result.cycles if result.cycles else 0.0
    return [
        ("  cycles", count(result.cycles), f"{1000 * _seconds(result):,.3f} ms"),
        ("  thread instructions", count(result.instructions), f"IPC {result.ipc:,.2f}"),
        ("  warp instructions", count(result.warp_instructions), f"IPC {warps:,.2f}"),
    ]


def _l1_rows(result: Simulation) -> list[Row]:
    if result.lookups is not None:
        return _sectored_l1_rows(result)
    return _transaction_rows(result, [("loads", result.loads), *_outcomes(result)])


def _sectored_l1_rows(result: Simulation) -> list[Row]:
    lookups = [
        ("loads", result.loads),
        ("  line absent", result.tag_misses),
        ("  sectors absent", result.sector_misses),
    ]
    sectors = [("all", result.sectors), *_outcomes(result)]
    stores = [("all", result.store_lookups.sectors), ("hits", result.store_lookups.hits)]
    rows = [*_transaction_rows(result, lookups), ("", "", "")]
    rows += [("  L1 sectors of loads", "sectors", "of all"), *_share_rows(sectors, result.sectors)]
    return [*rows, ("  L1 sectors of stores", "sectors", "of all"), *_share_rows(stores, result.store_lookups.sectors)]


def _outcomes(result: Simulation) -> list[tuple[str, float]]:
    return [
        ("hits", result.hits),
        ("pending hits", result.pending_hits),
        ("misses", result.misses.total),
        ("  compulsory", result.misses.compulsory),
        ("  capacity", result.misses.capacity),
        ("  associativity", result.misses.associativity),
    ]


def _transaction_rows(result: Simulation, loads: list[tuple[str, float]]) -> list[Row]:
    rows = [("  L1", "transactions", "of loads"), *_share_rows(loads, result.loads)]
    rows.append(("    stores", count(result.stores), ""))
    if result.bypassed or result.config["options"]["policies"]:
        rows.append(("    bypassed", count(result.bypassed), ""))
    return rows


def _latency_rows(latencies: MissLatencies) -> list[Row]:
    names = {"mean": "mean", "median": "median", "p95": "95 % within", "max": "longest"}
    plain = latencies.to_dict()
    rows = [(f"    {text}", count(round(plain[name], 1)), "") for name, text in names.items()]
    return [("  L1 miss latency", "cycles", ""), *rows]


def _reservation_failure_rows(result: Simulation) -> list[Row]:
    fails, rates = result.reservation_fails, result.fails_per_kilocycle
    rows = [
        ("  L1 reservation failures", "cycles", "per 1000"),
        ("    all", count(fails.total), f"{sum(rates.values()):,.2f}"),
    ]
    return rows + [
        (f"      {STALL_LABELS[name]}", count(n), f"{rates[name]:,.2f}") for name, n in fails.to_dict().items()
    ]


def _eviction_rows(result: Simulation) -> list[Row]:
    contention = result.contention.to_dict()
    evicted = sum(contention.values())
    names = ("all", "  intra-warp", "  cross-warp, same block", "  cross-block")
    pairs = zip(names, (evicted, *contention.values()), strict=True)
    return [("  L1 evictions", "lines", "of all"), *_share_rows(pairs, evicted)]


def _traffic_rows(traffic: Traffic, memory: int | None) -> list[Row]:
    where = "crossbar" if memory is None else f"ideal memory, {memory:,} cycles away"
    requests = traffic.read_messages + traffic.write_messages
    return [
        (f"  {where}", "messages", "bytes"),
        ("    requests", count(requests), count(traffic.request_bytes)),
        ("      reads", count(traffic.read_messages), ""),
        ("      writes", count(traffic.write_messages), ""),
        ("    responses", count(traffic.response_messages), count(traffic.response_bytes)),
    ]


def _l2_rows(l2: L2Counts, unit: str) -> list[Row]:
    reads = [("reads", l2.reads), ("  hits", l2.hits), ("  pending hits", l2.pending_hits), ("  misses", l2.misses)]
    if l2.bypassed:
        reads.append(("  bypassed", l2.bypassed))
    writes = [("writes", l2.writes), ("  hits", l2.write_hits)]
    rows = [("  L2", unit, "share"), *_share_rows(reads, l2.reads), *_share_rows(writes, l2.writes)]
    if l2.atomic_sectors:
        rows.append(("    fetched for atomics", count(l2.atomic_sectors), ""))
    if l2.partition_sectors:
        rows.append(("    between partitions", count(l2.partition_sectors), ""))
    rows.append(("    cycles stalled", count(sum(l2.stalls.values())), ""))
    return rows + [(f"      {STALL_LABELS[name]}", count(n), "") for name, n in l2.stalls.items() if n]


def _dram_rows(dram: DramCounts, seconds: float) -> list[Row]:
    requests = dram.reads + dram.writes
    rate = dram.bytes / seconds / 1e9 if seconds else 0.0
    pairs = [("reads", dram.reads), ("writes", dram.writes), ("row hits", requests - dram.activations)]
    rows = [
        ("  DRAM", "requests", "of all"),
        *_share_rows(pairs, requests),
        ("    bytes", count(dram.bytes), f"{rate:,.2f} GB/s"),
    ]
    if dram.constant_sectors:
        rows.append(("      sectors of constant memory", count(dram.constant_sectors), ""))
    return rows


def _share_rows(pairs: Iterable[tuple[str, Any]], whole: float) -> list[Row]:
    return [(f"    {name}", count(n), percent(n, whole)) for name, n in pairs]
