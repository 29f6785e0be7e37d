"""Give the counters of a prediction the names that Nsight Compute has for them.

A sector that is in flight counts as a hit: it causes no second request, and counters of GPUs show no more misses than
reads of the L2. Atomics count as stores, and local memory as global memory, because the model does not separate them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rdmodel.errors import ConfigError
from rdmodel.results.describe import describe_l1

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

STORES_WITH_HITS = ("update", "through")
"""Treatments of stores that count the sectors of stores."""


def profiler_metrics(
    loads: Mapping[str, float], stores: Mapping[str, float], config: Mapping[str, Any]
) -> dict[str, float]:
    """Return the counters of the L1 by the names of Nsight Compute.

    Parameters
    ----------
    loads, stores : mapping
        Numbers of `requests`, `sectors` and `hits`; the hits include sectors in flight.
    config : mapping
        Complete configuration of the run.

    Returns
    -------
    dict
        Counters ending in ``.sum``, and rates in percent ending in ``.pct``. Without modelled stores, their counters
        and the rate of all operations are missing.

    Raises
    ------
    ConfigError
        If the L1 does not count sectors of 32 bytes, or if stores act as loads.
    """
    behaviour = config["options"]["stores"]
    check_countable(describe_l1(config["gpu"])["sector"], behaviour)
    metrics = {**_operation_metrics("ld", loads), LOAD_RATE_METRIC: _percent(loads["hits"], loads["sectors"])}
    if behaviour not in STORES_WITH_HITS:
        return metrics
    hits, sectors = (loads[name] + stores[name] for name in ("hits", "sectors"))
    return {**metrics, **_operation_metrics("st", stores), L1_RATE_METRIC: _percent(hits, sectors)}


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
    stem = SECTOR_METRIC + operation
    return {
        f"{REQUEST_METRIC}{operation}.sum": counts["requests"],
        f"{stem}.sum": counts["sectors"],
        f"{stem}_lookup_hit.sum": counts["hits"],
        f"{stem}_lookup_miss.sum": counts["sectors"] - counts["hits"],
    }


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0
