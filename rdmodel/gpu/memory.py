"""Describe the memory system behind the L1s as frozen values: crossbar, L2 and DRAM. Only the simulator reads them."""

from __future__ import annotations

from typing import Literal

from rdmodel.common.checks import check_choice, check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError

L2Index = Literal["linear", "hash"]
Packets = Literal["lines", "coalesced"]

MAX_CLOCK_MHZ = 100_000
"""The highest clock: its products with cycle counts fit into 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossbarConfig:
    """The network between SMs and L2, one crossbar per direction, at `clock` MHz.

    A message takes `latency` crossbar cycles. It occupies the port that it leaves and the port that it enters for
    (its bytes / `width`) cycles, rounded up. Where lines have no sectors, `packets` says what stores, and answers to
    reads past the L1, carry: "lines", or "coalesced": the smallest aligned 32, 64, 128, ... bytes with all bytes that
    the transaction touches.
    """

    clock: int = 1400
    width: int = 32
    latency: int = 8
    packets: Packets = "lines"

    def __post_init__(self) -> None:
        """Reject impossible numbers."""
        check_int("clock", self.clock, 1, MAX_CLOCK_MHZ)
        check_int("width", self.width, 1)
        check_int("latency", self.latency, 0)
        check_choice("packets", self.packets, Packets)


@dataclass(frozen=True, slots=True, kw_only=True)
class L2Config:
    """The L2: `slices` of `size` bytes each, over which lines are interleaved.

    A slice handles one request per cycle of its `clock` (MHz), `latency` SM cycles after the request arrived, and
    holds at most `queue` requests that it has not handled. `mshrs` is per slice (None = unlimited), `mshr_merge` the
    number of requests that may share one. Lines have the size of the L1's.

    `sector` is the number of bytes that a read asks for at least (None: a line), and `fetch` the number that a read
    miss fetches from DRAM (None: a sector). `index` spreads lines over slices and sets: "linear", or a "hash" of all
    upper address bits. The slices form `partitions` of equal size. Each SM belongs to one, and each line has its home
    in one; an SM of another partition keeps a copy in its own. A message from one partition to another takes
    `partition_latency` SM cycles. At most `dirty_ways` lines of a set are dirty (None = all): before one more becomes
    dirty, the least recently used of them is cleaned, that is, written back while it stays in the cache.
    """

    clock: int = 700
    slices: int = 6
    size: int = 131072
    ways: int = 16
    mshrs: int | None = 32
    mshr_merge: int | None = None
    queue: int = 256
    latency: int = 120
    sector: int | None = None
    fetch: int | None = None
    index: L2Index = "linear"
    partitions: int = 1
    partition_latency: int = 0
    dirty_ways: int | None = None

    def __post_init__(self) -> None:
        """Reject impossible numbers; `GPU` checks the geometry, which needs the line size."""
        check_int("clock", self.clock, 1, MAX_CLOCK_MHZ)
        for name in ("slices", "size", "ways", "queue"):
            check_int(name, getattr(self, name), 1)
        for name in ("mshrs", "mshr_merge", "dirty_ways"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1)
        for name in ("latency", "partition_latency"):
            check_int(name, getattr(self, name), 0)
        for name in ("sector", "fetch"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1)
        check_choice("index", self.index, L2Index)
        check_int("partitions", self.partitions, 1)
        if self.slices % self.partitions:
            raise ConfigError(f"partitions={self.partitions}: must divide slices={self.slices}")

    def sets(self, line: int) -> int:
        """Return the number of sets of one slice, for lines of `line` bytes."""
        return self.size // (line * self.ways)


@dataclass(frozen=True, slots=True, kw_only=True)
class DramConfig:
    """One DRAM channel per L2 slice, scheduled first-ready, first-come first-served.

    The timings `tcl`, `trp`, `trc`, `tras`, `trcd`, `trrd` are in cycles of `clock` (MHz). A channel has `banks` with
    one open row of `row` bytes each, moves `width` bytes per cycle and holds `queue` requests. Read data reach the L2
    another `latency` SM cycles later.
    """

    clock: int = 924
    banks: int = 16
    row: int = 4096
    queue: int = 16
    width: int = 32
    latency: int = 100
    tcl: int = 12
    trp: int = 12
    trc: int = 40
    tras: int = 28
    trcd: int = 12
    trrd: int = 6

    def __post_init__(self) -> None:
        """Reject impossible numbers."""
        check_int("clock", self.clock, 1, MAX_CLOCK_MHZ)
        for name in ("banks", "row", "queue", "width"):
            check_int(name, getattr(self, name), 1)
        for name in ("latency", "tcl", "trp", "trc", "tras", "trcd", "trrd"):
            check_int(name, getattr(self, name), 0)
