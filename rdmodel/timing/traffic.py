"""Describe the traffic of a launch behind its SMs, for estimates of time, and take it from a prediction."""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.results.origins import OriginCounts
from rdmodel.results.prediction import Prediction


class LoadShares(NamedTuple):
    """Shares of the loads of the instruction `pc` that are `missing` and `fetching`, as in `LaunchTraffic`."""

    pc: int
    missing: float
    fetching: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchTraffic:
    """The traffic of all blocks of a launch.

    Parameters
    ----------
    missing_share
        Share of the loads of warps that wait for the L2: at least one of their sectors is not in the L1.
    fetching_share
        Share of the loads of warps that fetch data from the L2: without those whose data are in flight already.
    l2_read_bytes, l2_write_bytes
        Bytes that all SMs together read from the L2, and write to it.
    dram_read_share
        Share of the reads of the L2 that miss, without those of spilled registers (`rdmodel.timing.spills`).
    dram_wait_share
        Share of the reads of the L2 that wait for DRAM: those that miss, and those of data that another SM waits for.
    dram_bytes
        Bytes that are read from DRAM and written to it, those included that are in the L2 when the launch ends: who
        takes their place, such as the next launch, waits for them.
    dram_written_bytes
        Those of `dram_bytes` that are written.
    l2_merged_bytes
        Those of `l2_read_bytes` that the L2 does not serve, since reads of several SMs are merged (`timing.merging`).
    load_shares
        The first two shares for each instruction that loads; empty if they are not known apart.
    """

    missing_share: float
    fetching_share: float
    l2_read_bytes: float
    l2_write_bytes: float
    dram_read_share: float
    dram_wait_share: float
    dram_bytes: float
    dram_written_bytes: float = 0.0
    l2_merged_bytes: float = 0.0
    load_shares: tuple[LoadShares, ...] = ()

    def to_dict(self) -> dict[str, float]:
        """Return the traffic of all loads together as plain numbers."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "load_shares"}

    @property
    def dram_written_share(self) -> float:
        """Share of the bytes of the DRAM that are written; 0 without any."""
        return self.dram_written_bytes / self.dram_bytes if self.dram_bytes else 0.0

    @property
    def l2_bytes(self) -> float:
        """Bytes that the L2 reads and writes for all SMs."""
        return self.l2_read_bytes - self.l2_merged_bytes + self.l2_write_bytes


def traffic_of(prediction: Prediction) -> LaunchTraffic:
    """Return the traffic of a prediction for a whole grid; raises `ConfigError` if it has no L2."""
    l2 = prediction.l2
    if l2 is None:
        raise ConfigError("prediction: has no L2, whose traffic a time needs; predict with l2=True")
    return LaunchTraffic(
        missing_share=missing_share(prediction),
        fetching_share=fetching_share(prediction),
        l2_read_bytes=l2.reads * l2.sector,
        l2_write_bytes=l2.writes * l2.sector,
        dram_read_share=l2.miss_rate,
        dram_wait_share=l2.miss_rate,
        dram_bytes=l2.dram_bytes + l2.dirty * l2.sector,
        dram_written_bytes=(l2.write_backs + l2.dirty) * l2.sector,
    )


def missing_share(counts: Prediction | OriginCounts) -> float:
    """Return the share of loads that wait for the L2: a load waits for the slowest of its transactions."""
    sectors = counts.sectors / counts.transactions if counts.transactions else 1.0
    return _share_of_loads(counts, counts.latency_misses / max(1.0, sectors))


def fetching_share(counts: Prediction | OriginCounts) -> float:
    """Return the share of loads that fetch data from the L2."""
    return _share_of_loads(counts, 0.0)


def load_shares(prediction: Prediction) -> tuple[LoadShares, ...]:
    """Return the shares for each instruction that loads, from a prediction with origins."""
    rows = [(row.pc, row.counts) for row in prediction.by("instruction").rows if row.pc is not None]
    return tuple(
        LoadShares(pc, missing_share(counts), fetching_share(counts))
        for pc, counts in sorted(rows, key=lambda row: row[0])
        if counts.requests or counts.bypassed_requests
    )


def _share_of_loads(counts: Prediction | OriginCounts, waiting: float) -> float:
    """Return the share of loads that miss, with some more that wait for data in flight."""
    requests = counts.requests + counts.bypassed_requests
    if not requests:
        return 0.0
    missing = counts.tag_misses + counts.sector_misses + waiting
    return min(1.0, (missing + counts.bypassed_requests) / requests)
