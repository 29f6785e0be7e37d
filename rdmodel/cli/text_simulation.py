"""What a simulation says, as text: one table, cut into what happened where."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rdmodel.cli.text import blocks_of_grid, count, percent, subject, table
from rdmodel.policies import IndexFunction, Policy
from rdmodel.policies.combinations import member_text
from rdmodel.results.simulation import DramCounts, L2Counts, MissLatencies, Simulation, Traffic
from rdmodel.simulator.options import SimulationOptions

Row = tuple[str, str, str]

LACKS = {
    "line_alloc": "no way",
    "mshr_entry": "no MSHR",
    "mshr_merge": "full MSHR",
    "miss_queue": "full miss queue",
    "dram_queue": "full DRAM queue",
}
"""What a request had to wait for, by the names of the counters."""


def simulation(result: Simulation, index: IndexFunction | None = None) -> str:
    """Return a simulation: cycles, the L1s and their stalls, the memory behind them, and the rates.

    `index` is the index function that was given with the policies.
    """
    memory = result.config["options"]["memory"]
    sections = [_cycles(result), _l1(result), _latency(result.miss_latencies), _fails(result), _evictions(result)]
    sections.append(_traffic(result.traffic, memory))
    if result.l2 is not None:
        sections.append(_l2(result.l2))
    if result.dram is not None:
        sections.append(_dram(result.dram, _seconds(result)))
    # One table, so that all sections share their columns.
    rows = [row for section in sections for row in [*section, ("", "", "")]][:-1]
    time = f"  time: trace {result.trace_seconds:.2f} s, simulation {result.seconds:.2f} s"
    return "\n\n".join([_heading(result, index), table(rows, right=(1, 2)), time, _rate(result)])


def _heading(result: Simulation, index: IndexFunction | None) -> str:
    options = result.config["options"]
    blocks = blocks_of_grid(sum(sm.blocks for sm in result.per_sm), result.config)
    sms = "1 SM" if result.sms == 1 else f"{result.sms} SMs"
    stores = "" if options["stores"] else ", without stores"
    return (
        f"{subject(result.kernel, result.config)} on {result.gpu}, simulated\n"
        f"{sms}: {blocks}, scheduler {options['sched']}{stores}, seed {result.seed}{policies(result, index)}"
    )


def policies(result: Simulation, index: IndexFunction | None = None) -> str:
    """Return a line break and a line with the policies of a run and the limits they found; empty without policies."""
    used: list[Policy | IndexFunction] = [*SimulationOptions(policies=result.config["options"]["policies"]).policies]
    if index is not None:
        used.append(index)
    if not used:
        return ""
    return f"\npolicies {', '.join(map(member_text, used))}" + (f"; found {found(result)}" if result.found else "")


def found(result: Simulation) -> str:
    """Return what the policies of a run found on their way."""
    return ", ".join(f"{name}={value}" for name, value in result.found.items())


def _rate(result: Simulation) -> str:
    line = result.config["gpu"]["l1"]["line"]
    bypassed = ", loads that bypass the L1" if result.config["options"]["policies"] else ""
    return (
        f"L1 miss rate {100 * result.miss_rate:.2f} %, MPKI {result.mpki:,.2f} (misses per 1000 thread instructions)\n"
        f"counts load requests that leave the SM, per coalesced {line}-byte transaction;\n"
        f"leaves out requests to lines already in flight ({100 * result.pending_hit_rate:.2f} %){bypassed} and stores"
    )


def _seconds(result: Simulation) -> float:
    """Return the time that the machine would have taken."""
    return float(result.cycles / (result.config["gpu"]["clock"] * 1e6))


# ---- sections


def _cycles(result: Simulation) -> list[Row]:
    warps = result.warp_instructions / result.cycles if result.cycles else 0.0
    return [
        ("  cycles", count(result.cycles), f"{1000 * _seconds(result):,.3f} ms"),
        ("  thread instructions", count(result.instructions), f"IPC {result.ipc:,.2f}"),
        ("  warp instructions", count(result.warp_instructions), f"IPC {warps:,.2f}"),
    ]


def _l1(result: Simulation) -> list[Row]:
    of_loads = [
        ("loads", result.loads),
        ("hits", result.hits),
        ("pending hits", result.pending_hits),
        ("misses", result.misses.total),
        ("  compulsory", result.misses.compulsory),
        ("  capacity", result.misses.capacity),
        ("  associativity", result.misses.associativity),
    ]
    rows = [("  L1", "transactions", "of loads"), *_shares(of_loads, result.loads)]
    rows.append(("    stores", count(result.stores), ""))
    if result.bypassed or result.config["options"]["policies"]:
        rows.append(("    bypassed", count(result.bypassed), ""))
    return rows


def _latency(latencies: MissLatencies) -> list[Row]:
    names = {"mean": "mean", "median": "median", "p95": "95 % within", "max": "longest"}
    plain = latencies.to_dict()
    rows = [(f"    {text}", count(round(plain[name], 1)), "") for name, text in names.items()]
    return [("  L1 miss latency", "cycles", ""), *rows]


def _fails(result: Simulation) -> list[Row]:
    fails, rates = result.reservation_fails, result.fails_per_kilocycle
    rows = [
        ("  L1 reservation failures", "cycles", "per 1000"),
        ("    all", count(fails.total), f"{sum(rates.values()):,.2f}"),
    ]
    return rows + [(f"      {LACKS[name]}", count(n), f"{rates[name]:,.2f}") for name, n in fails.to_dict().items()]


def _evictions(result: Simulation) -> list[Row]:
    contention = result.contention.to_dict()
    evicted = sum(contention.values())
    names = ("all", "  intra-warp", "  cross-warp, same block", "  cross-block")
    pairs = zip(names, (evicted, *contention.values()), strict=True)
    return [("  L1 evictions", "lines", "of all"), *_shares(pairs, evicted)]


def _traffic(traffic: Traffic, memory: int | None) -> list[Row]:
    where = "crossbar" if memory is None else f"ideal memory, {memory:,} cycles away"
    requests = traffic.read_messages + traffic.write_messages
    return [
        (f"  {where}", "messages", "bytes"),
        ("    requests", count(requests), count(traffic.request_bytes)),
        ("      reads", count(traffic.read_messages), ""),
        ("      writes", count(traffic.write_messages), ""),
        ("    responses", count(traffic.response_messages), count(traffic.response_bytes)),
    ]


def _l2(l2: L2Counts) -> list[Row]:
    reads = [("reads", l2.reads), ("  hits", l2.hits), ("  pending hits", l2.pending_hits), ("  misses", l2.misses)]
    if l2.bypassed:
        reads.append(("  bypassed", l2.bypassed))
    writes = [("writes", l2.writes), ("  hits", l2.write_hits)]
    rows = [("  L2", "requests", "share"), *_shares(reads, l2.reads), *_shares(writes, l2.writes)]
    rows.append(("    cycles stalled", count(sum(l2.stalls.values())), ""))
    return rows + [(f"      {LACKS[name]}", count(n), "") for name, n in l2.stalls.items() if n]


def _dram(dram: DramCounts, seconds: float) -> list[Row]:
    requests = dram.reads + dram.writes
    rate = dram.bytes / seconds / 1e9 if seconds else 0.0
    pairs = [("reads", dram.reads), ("writes", dram.writes), ("row hits", requests - dram.activations)]
    return [
        ("  DRAM", "requests", "of all"),
        *_shares(pairs, requests),
        ("    bytes", count(dram.bytes), f"{rate:,.2f} GB/s"),
    ]


def _shares(pairs: Iterable[tuple[str, Any]], whole: float) -> list[Row]:
    return [(f"    {name}", count(n), percent(n, whole)) for name, n in pairs]
