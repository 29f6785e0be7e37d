"""Describe an L1 data cache as a frozen value, validated on construction."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Literal, get_args

from rdmodel.common.checks import check_choice, check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.policies import Fermi, IndexCode, IndexFunction, Linear
from rdmodel.policies.index import compile_index
from rdmodel.trace import WARP

Allocate = Literal["miss", "fill"]
StoreBehaviour = Literal["free", "step", "evict", "allocate", "update", "through"]
CarveoutRule = Literal["auto", "fit", "max-l1", "max-shared"]
Load = Literal["global", "local", "nc"]
ALL_LOADS: tuple[Load, ...] = get_args(Load)
"""Kinds of loads that an L1 may serve: of global memory, of local memory, and read-only ones (``ld.global.nc``)."""

DefaultLoad = Literal["ca", "cg", "cs", "cv"]
"""Cache operators that the option ``-dlcm`` of nvcc gives to loads of global memory."""

MAX_SECTORS = 32
"""Limit on the sectors of a line: masks of sectors have 32 bits."""

MAX_TAG_WAYS = 16
"""Limit on the ways of a cache whose data belong to no set."""

MAX_POOLS = 16
"""Limit on the parts in which such data are (`MAX_POOLS` of rdmodel/structures/_pool.pxd)."""

OWN_DATA: Mapping[str, Any] = {"tag_sets": 0, "reserved": 0, "pools": 1, "protected": 0}
"""The fields about data that belong to no set, with their values if each way has data of its own."""

MIN_REQUEST_BYTES = 32
MAX_REQUEST_BYTES = 512
"""Limits of `CacheConfig.request_bytes`: 512 bytes are 16 for each of 32 lanes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """An L1 data cache; the defaults of `sector` and the fields after it describe GPUs from before Maxwell.

    Parameters
    ----------
    size, ways, line, index
        Bytes, ways, bytes per line, index function.
    mshrs, mshr_merge, mshr_per_warp
        Limits on the lines in flight, on the transactions that share an MSHR (the first included), and on the MSHRs of
        one warp (6 measured on Fermi: Nugteren et al., section 5.2). None: unlimited.
    allocate, miss_queue
        When a line gets its way (on a "miss", or when its data "fill" it), and the number of requests that may wait for
        the crossbar. Only the simulator reads them.
    sector
        Bytes of the parts of a line that are fetched on their own; None: the line (`sector_bytes` has the number).
    request_bytes
        Bytes of the largest request. An instruction of s bytes per lane becomes requests of `request_bytes` / s lanes.
    tags_per_step
        Transactions of one instruction that the tag stage looks up at a time.
    stores
        Treatment of stores: the default of the option `stores`. "update": they change lines that are there, and write
        through. "through": they allocate their lines as well.
    unified, carveouts, carveout, bare_factor
        Bytes that the L1 shares with shared memory (0: the L1 has memory of its own), the choices for the bytes of
        shared memory among them (the carve-out), and the selection among these (`rdmodel.gpu.carveout`): "auto",
        "fit", "max-l1", "max-shared", or one of the choices. "auto" gives a launch without shared memory `bare_factor`
        times what the driver reserves for its resident blocks. `size` is what a number leaves, otherwise that of the
        largest L1; `with_carveout` changes both.
    caches
        The loads that the L1 serves, among `ALL_LOADS`; other loads go to the L2 (`rdmodel.gpu.served_loads`).
    dlcm
        The cache operator of loads of global memory that have none, as nvcc's option ``-dlcm`` gives it; None: none.
    tag_sets, reserved, pools, protected
        Number of sets if the ways are tags alone, and the data belong to no set (a power of two); 0: each way has data
        of its own. The lines of all sets then share `size` bytes, of which `reserved` hold no data, in `pools` equal
        parts: each part serves as many consecutive sets. Of the lines of a set that were used again, the `protected`
        most recent leave last (docs/gpus.md, "Data that belong to no set"). A carve-out changes the size, and neither
        ways nor sets.

    Raises
    ------
    ConfigError
        If the geometry cannot exist or a field is out of range.
    """

    size: int
    ways: int
    line: int = 128
    index: IndexFunction = field(default_factory=Fermi)
    mshrs: int | None = 64
    mshr_merge: int | None = None
    mshr_per_warp: int | None = None
    allocate: Allocate = "miss"
    miss_queue: int = 8
    sector: int | None = None
    request_bytes: int = 128
    tags_per_step: int = 1
    stores: StoreBehaviour = "free"
    unified: int = 0
    carveouts: tuple[int, ...] = ()
    carveout: int | CarveoutRule = "auto"
    bare_factor: int = 2
    caches: tuple[Load, ...] = ALL_LOADS
    dlcm: DefaultLoad | None = None
    tag_sets: int = 0
    reserved: int = 0
    pools: int = 1
    protected: int = 0

    def __post_init__(self) -> None:
        """Reject a geometry that cannot exist."""
        for name in ("size", "ways", "line"):
            check_int(name, getattr(self, name), 1)
        if self.line & (self.line - 1):
            raise ConfigError(f"line={self.line}: must be a power of two")
        self._check_geometry()
        for name in ("mshrs", "mshr_merge", "mshr_per_warp"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1)
        check_choice("allocate", self.allocate, Allocate)
        check_int("miss_queue", self.miss_queue, 1)
        self._check_sectors()
        self._check_loads()
        self._check_carveouts()
        if not isinstance(self.index, IndexFunction):
            raise ConfigError(f"index={self.index!r}: must be an index function (rdmodel.policies)")
        self.index_code()

    def _check_geometry(self) -> None:
        check_int("tag_sets", self.tag_sets, 0)
        check_int("reserved", self.reserved, 0)
        check_int("pools", self.pools, 1, MAX_POOLS)
        check_int("protected", self.protected, 0)
        if not self.tag_sets:
            for name, without in OWN_DATA.items():
                if getattr(self, name) != without:
                    raise ConfigError(f"{name}={getattr(self, name)}: needs tag_sets, so that data belong to no set")
            unit = self.line * self.ways
            if self.size % unit:
                raise ConfigError(
                    f"size={self.size}: is not a multiple of line x ways = {self.line} x {self.ways} = {unit}"
                )
            return
        if self.tag_sets & (self.tag_sets - 1):
            raise ConfigError(f"tag_sets={self.tag_sets}: must be a power of two, or 0")
        check_int("ways", self.ways, 1, MAX_TAG_WAYS)
        for name in ("size", "reserved"):
            if getattr(self, name) % self.line:
                raise ConfigError(f"{name}={getattr(self, name)}: is not a multiple of line={self.line}")
        if self.reserved >= self.size:
            raise ConfigError(f"reserved={self.reserved}: must be less than size={self.size}, so that there is data")
        if self.pools & (self.pools - 1) or self.pools > self.tag_sets:
            raise ConfigError(f"pools={self.pools}: must be a power of two, and at most tag_sets={self.tag_sets}")
        if self.lines % self.pools:
            raise ConfigError(f"pools={self.pools}: must divide the {self.lines} lines with data; set l1.size as well")
        if self.protected > self.ways:
            raise ConfigError(f"protected={self.protected}: must be at most ways={self.ways}")

    def _check_sectors(self) -> None:
        if self.sector is not None:
            check_sector("sector", self.sector, self.line)
        check_int("request_bytes", self.request_bytes, MIN_REQUEST_BYTES, MAX_REQUEST_BYTES)
        if self.request_bytes & (self.request_bytes - 1):
            raise ConfigError(f"request_bytes={self.request_bytes}: must be a power of two")
        check_int("tags_per_step", self.tags_per_step, 1, WARP)

    def _check_loads(self) -> None:
        check_choice("stores", self.stores, StoreBehaviour)
        if isinstance(self.caches, str) or not isinstance(self.caches, Iterable):
            raise ConfigError(f"caches={self.caches!r}: must be a list of {', '.join(ALL_LOADS)}")
        for load in self.caches:
            check_choice("caches", load, Load)
        object.__setattr__(self, "caches", tuple(load for load in ALL_LOADS if load in self.caches))
        if self.dlcm is not None:
            check_choice("dlcm", self.dlcm, DefaultLoad)

    def _check_carveouts(self) -> None:
        """Check the memory shared with shared memory: each choice must leave whole sets to the L1."""
        check_int("unified", self.unified, 0)
        check_int("bare_factor", self.bare_factor, 1)
        if isinstance(self.carveouts, str) or not isinstance(self.carveouts, Iterable):
            raise ConfigError(f"carveouts={self.carveouts!r}: must be a list of sizes in bytes")
        for choice in self.carveouts:
            check_int("carveouts", choice, 0)
        object.__setattr__(self, "carveouts", tuple(sorted(set(self.carveouts))))
        if not self.unified:
            if self.carveouts or self.carveout != "auto":
                name, value = ("carveouts", self.carveouts) if self.carveouts else ("carveout", self.carveout)
                raise ConfigError(
                    f"{name}={value!r}: needs unified, the bytes that L1 and shared memory share; it is 0"
                )
            return
        if not self.carveouts:
            raise ConfigError(f"carveouts=(): must hold the choices for shared memory out of unified={self.unified}")
        shared, shared_text = (self.pools, "pools") if self.tag_sets else (self.sets, "sets")
        unit, unit_text = self.line * shared, f"line x {shared_text} = {self.line} x {shared}"
        for choice in self.carveouts:
            if choice >= self.unified - self.reserved:
                rest = f"unified={self.unified}" + (f" less reserved={self.reserved}" if self.reserved else "")
                raise ConfigError(
                    f"carveouts={choice}: must be less than {rest}, so that the L1 has a rest; set both together"
                )
            if (self.unified - choice - self.reserved) % unit:
                raise ConfigError(
                    f"carveouts={choice}: must leave an L1 of a multiple of {unit_text} = "
                    f"{unit} bytes out of unified={self.unified}; set l1.size as well for an L1 with memory of its own"
                )
        if isinstance(self.carveout, bool) or self.carveout not in (*get_args(CarveoutRule), *self.carveouts):
            allowed = ", ".join(map(str, (*get_args(CarveoutRule), *self.carveouts)))
            raise ConfigError(f"carveout={self.carveout!r}: must be one of {allowed}")
        chosen = self.carveouts[0] if isinstance(self.carveout, str) else self.carveout
        if self.size != self.unified - chosen:
            which = "the smallest of carveouts" if isinstance(self.carveout, str) else "carveout"
            raise ConfigError(
                f"size={self.size}: must be unified - {which} = {self.unified} - {chosen} = {self.unified - chosen}; "
                "unified=0 gives the L1 memory of its own"
            )

    def with_carveout(self, carveout: int | CarveoutRule) -> CacheConfig:
        """Return this cache with a carve-out, and with the size that it leaves: as many sets, with more or fewer ways.

        If data belong to no set, the ways stay as they are, too.

        Raises `ConfigError` if it is no choice, or if the L1 has memory of its own; only "auto" fits that as well.
        """
        if carveout == self.carveout:
            return self
        if not self.unified:
            raise ConfigError(
                f"carveout={carveout!r}: the L1 has memory of its own (unified=0), so there is nothing to divide"
            )
        number = isinstance(carveout, int) and carveout in self.carveouts
        size = self.unified - (carveout if number else self.carveouts[0])  # type: ignore[operator]
        ways = self.ways if self.tag_sets else size // (self.line * self.sets)
        return dataclasses.replace(self, carveout=carveout, size=size, ways=ways)

    @property
    def sector_bytes(self) -> int:
        """Bytes of a sector: those of a line if lines have no sectors."""
        return self.line if self.sector is None else self.sector

    @property
    def sectors(self) -> int:
        """Number of sectors of a line."""
        return self.line // self.sector_bytes

    @property
    def sets(self) -> int:
        """Number of sets."""
        return self.tag_sets or self.size // (self.line * self.ways)

    @property
    def lines(self) -> int:
        """Capacity in lines."""
        return (self.size - self.reserved) // self.line

    @property
    def pool(self) -> int:
        """Number of lines whose data belong to no set; 0 if each way has data of its own."""
        return self.lines if self.tag_sets else 0

    def fully_associative(self) -> CacheConfig:
        """Return a cache of this size with a single set, whose ways have data of their own."""
        ways = self.size // self.line
        return dataclasses.replace(self, ways=ways, index=Linear(), **OWN_DATA)

    @property
    def line_bits(self) -> int:
        """log2 of the line size."""
        return self.line.bit_length() - 1

    def index_code(self) -> IndexCode:
        """Return the index function compiled for this geometry."""
        return compile_index(self.index, self.sets, self.line)


def check_sector(name: str, sector: Any, line: int, line_name: str = "line") -> None:
    """Raise `ConfigError` unless `sector` is a power of two, at most a line and at least 1 / `MAX_SECTORS` of it."""
    check_int(name, sector, 1)
    least = max(1, line // MAX_SECTORS)
    if sector & (sector - 1) or not least <= sector <= line:
        raise ConfigError(
            f"{name}={sector}: must be a power of two from {least} to {line}, so that sectors divide {line_name}={line}"
        )
