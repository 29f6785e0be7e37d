"""Give the counters of predictions and simulations the names that Nsight Compute has for them.

A sector that is in flight counts as a hit: it causes no second request, and counters of GPUs show no more misses than
reads of the L2. Atomics count as stores, and local memory as global memory, because the engines do not separate them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rdmodel.errors import ConfigError
from rdmodel.results.describe import describe_l1
from rdmodel.trace import Work

SECTOR_BYTES = 32
"""Bytes of the sectors that Nsight Compute counts."""

REQUEST_METRIC = "l1tex__t_requests_pipe_lsu_mem_global_op_"
"""Stem of the metrics that count requests of global operations at the L1; the operation follows."""
SECTOR_METRIC = "l1tex__t_sectors_pipe_lsu_mem_global_op_"
"""Stem of the metrics that count sectors of global operations at the L1; the operation follows."""
LOAD_RATE_METRIC = "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct"
"""Hit rate of global loads at the L1, in percent."""
L1_RATE_METRIC = "l1tex__t_sector_hit_rate.pct"
"""Hit rate of all operations at the L1, stores included, in percent."""

L2_METRIC = "lts__t_sectors_srcunit_tex_op_"
"""Stem of the metrics that count sectors that the L1s read from the L2 or write to it; "read" or "write" follows."""
L2_RATE_METRIC = "lts__t_sector_hit_rate.pct"
"""Hit rate of the L2, writes included, in percent."""
DRAM_METRIC = "dram__sectors_"
"""Stem of the metrics that count sectors of the DRAM; "read" or "write" follows."""

STORES_WITH_HITS = ("update", "through")
"""Treatments of stores that count the sectors of stores."""


def l1_metrics(
    loads: Mapping[str, float], stores: Mapping[str, float], config: Mapping[str, Any], behaviour: str | None
) -> dict[str, float]:
    """Return the counters of the L1 by the names of Nsight Compute.

    Parameters
    ----------
    loads, stores : mapping
        Numbers of `sectors` and `hits` and, if they are known, of `requests`; the hits include sectors in flight.
    config : mapping
        Complete configuration of the run.
    behaviour : str, optional
        The treatment of stores.

    Returns
    -------
    dict
        Counters ending in ``.sum``, and rates in percent ending in ``.pct``. If stores do not look up their lines,
        their counters and the rate of all operations are missing.

    Raises
    ------
    ConfigError
        If the L1 does not count sectors of 32 bytes, or if stores act as loads.
    """
    check_countable(describe_l1(config["gpu"])["sector"], behaviour)
    metrics = {**_operation_metrics("ld", loads), LOAD_RATE_METRIC: _percent(loads["hits"], loads["sectors"])}
    if behaviour not in STORES_WITH_HITS:
        return metrics
    hits, sectors = (loads[name] + stores[name] for name in ("hits", "sectors"))
    return {**metrics, **_operation_metrics("st", stores), L1_RATE_METRIC: _percent(hits, sectors)}


def l2_metrics(
    reads: float, hits: float, writes: float, dram_reads: float, dram_writes: float, *, others: float = 0
) -> dict[str, float]:
    """Return counters of the L2 and the DRAM, in sectors of 32 bytes, by the names of Nsight Compute.

    Writes are hits: the L2 takes them without a fetch, and counters of GPUs show no write that misses. Sectors that
    a fetch brings beside those that were read are lookups that miss: on a GV100, such lookups are as many as the
    sectors that the DRAM delivers. They are no reads: an H100 counts those that were asked for (docs/counters.md).
    `others` of the DRAM reads are no such lookups: those for the constant caches, which are another unit than "tex",
    and for atomics, which are another operation.
    """
    counted = reads + max(0, dram_reads - others - (reads - hits))
    return {
        **_lookup_metrics(f"{L2_METRIC}read", counted, hits),
        f"{L2_METRIC}read.sum": reads,
        **_lookup_metrics(f"{L2_METRIC}write", writes, writes),
        L2_RATE_METRIC: _percent(hits + writes, counted + writes),
        f"{DRAM_METRIC}read.sum": dram_reads,
        f"{DRAM_METRIC}write.sum": dram_writes,
    }


def work_metrics(work: Work) -> dict[str, float]:
    """Return what blocks execute by the names of Nsight Compute, as far as the trace tells it.

    Arithmetic of a precision is left out if it has divisions or square roots: machine code computes these with further
    multiply-adds, which the profiler counts.
    """
    metrics: dict[str, float] = {}
    if work.has_arithmetic:
        metrics["smsp__inst_executed.sum"] = work.issued
        for precision, letter in (("fp32", "f"), ("fp64", "d")):
            if not work.operations[f"{precision}_other"]:
                for operation in ("add", "mul", "fma"):
                    name = f"smsp__sass_thread_inst_executed_op_{letter}{operation}_pred_on.sum"
                    metrics[name] = work.operations[f"{precision}_{operation}"]
    if work.has_shared:
        for name, operation in (("load_shared", "ld"), ("store_shared", "st")):
            metrics[f"smsp__inst_executed_op_shared_{operation}.sum"] = work.instructions[name]
        for stem, counts in (
            ("l1tex__data_pipe_lsu_wavefronts_mem_shared", work.shared_wavefronts),
            ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared", work.shared_conflicts),
        ):
            metrics |= {f"{stem}_op_ld.sum": counts["load_shared"], f"{stem}_op_st.sum": counts["store_shared"]}
            metrics[f"{stem}.sum"] = sum(counts.values())
    return metrics


def check_countable(sector: int, stores: str | None) -> None:
    """Raise `ConfigError` if an L1 with sectors of `sector` bytes has no such metrics under a treatment of stores."""
    if sector != SECTOR_BYTES:
        raise ConfigError(
            f"l1.sector={sector}: Nsight Compute counts sectors of {SECTOR_BYTES} bytes, which caches have since "
            f"Maxwell; choose such a GPU, or set l1.sector={SECTOR_BYTES}"
        )
    if stores == "allocate":
        raise ConfigError(
            "stores='allocate': counts stores as loads, which Nsight Compute keeps apart; leave out stores, or choose "
            + " or ".join(STORES_WITH_HITS)
        )


def _operation_metrics(operation: str, counts: Mapping[str, float]) -> dict[str, float]:
    requests = {f"{REQUEST_METRIC}{operation}.sum": counts["requests"]} if "requests" in counts else {}
    return {
        **requests,
        **_lookup_metrics(SECTOR_METRIC + operation, counts["sectors"], counts["hits"]),
    }


def _lookup_metrics(stem: str, sectors: float, hits: float) -> dict[str, float]:
    return {
        f"{stem}.sum": sectors,
        f"{stem}_lookup_hit.sum": hits,
        f"{stem}_lookup_miss.sum": sectors - hits,
    }


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


_NOTHING = {"requests": 0, "sectors": 0, "hits": 0}

L1_METRICS = (
    *_operation_metrics("ld", _NOTHING),
    LOAD_RATE_METRIC,
    *_operation_metrics("st", _NOTHING),
    L1_RATE_METRIC,
)
"""Names of all metrics of the L1 that a prediction may have."""

L2_METRICS = tuple(l2_metrics(0, 0, 0, 0, 0))
"""Names of all metrics of the L2 and of the DRAM that it may have."""
