"""Describe a GPU as frozen values, validated on construction."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, Literal, TypeVar, get_args

from rdmodel.common.checks import check_choice, check_int, check_number
from rdmodel.errors import ConfigError, unknown
from rdmodel.gpu.memory import MAX_CLOCK_MHZ, CrossbarConfig, DramConfig, L2Config
from rdmodel.policies import Fermi, IndexCode, IndexFunction, index_function
from rdmodel.policies.index import index_to_dict
from rdmodel.trace import WARP

Allocate = Literal["miss", "fill"]
StoreBehaviour = Literal["free", "step", "evict", "allocate", "update", "through"]
CarveoutRule = Literal["auto", "fit", "max-l1", "max-shared"]
Load = Literal["global", "local", "nc"]
ALL_LOADS: tuple[Load, ...] = get_args(Load)
"""Kinds of loads that an L1 may serve: of global memory, of local memory, and read-only ones (``ld.global.nc``)."""

MAX_SECTORS = 32
"""Limit on the sectors of a line: masks of sectors have 32 bits."""

MIN_REQUEST_BYTES = 32
MAX_REQUEST_BYTES = 512
"""Limits of `CacheConfig.request_bytes`: 512 bytes are 16 for each of 32 lanes."""

CoreSched = Literal["lrr", "gto", "two-level", "old"]
T = TypeVar("T")


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
    unified, carveouts, carveout
        Bytes that the L1 shares with shared memory (0: the L1 has memory of its own), the choices for the bytes of
        shared memory among them (the carve-out), and the selection among these (`rdmodel.gpu.carveout`): "auto",
        "fit", "max-l1", "max-shared", or one of the choices. `size` is what a number leaves, otherwise that of the
        largest L1; `with_carveout` changes both.
    caches
        The loads that the L1 serves, among `ALL_LOADS`; other loads go to the L2.

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
    caches: tuple[Load, ...] = ALL_LOADS

    def __post_init__(self) -> None:
        """Reject a geometry that cannot exist."""
        for name in ("size", "ways", "line"):
            check_int(name, getattr(self, name), 1)
        if self.line & (self.line - 1):
            raise ConfigError(f"line={self.line}: must be a power of two")
        unit = self.line * self.ways
        if self.size % unit:
            raise ConfigError(
                f"size={self.size}: is not a multiple of line x ways = {self.line} x {self.ways} = {unit}"
            )
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

    def _check_carveouts(self) -> None:
        """Check the memory shared with shared memory: each choice must leave whole sets to the L1."""
        check_int("unified", self.unified, 0)
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
        unit = self.line * self.sets
        for choice in self.carveouts:
            if choice >= self.unified or (self.unified - choice) % unit:
                raise ConfigError(
                    f"carveouts={choice}: must leave an L1 of a multiple of line x sets = {self.line} x {self.sets} = "
                    f"{unit} bytes out of unified={self.unified}"
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

        Raises `ConfigError` if it is no choice, or if the L1 has memory of its own.
        """
        if not self.unified:
            raise ConfigError(
                f"carveout={carveout!r}: the L1 has memory of its own (unified=0), so there is nothing to divide"
            )
        number = isinstance(carveout, int) and carveout in self.carveouts
        size = self.unified - (carveout if number else self.carveouts[0])  # type: ignore[operator]
        ways = size // (self.line * self.sets)
        resized: CacheConfig = replace(self, carveout=carveout, size=size, ways=ways)
        return resized

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
        return self.size // (self.line * self.ways)

    @property
    def lines(self) -> int:
        """Capacity in lines."""
        return self.size // self.line

    @property
    def line_bits(self) -> int:
        """log2 of the line size."""
        return self.line.bit_length() - 1

    def index_code(self) -> IndexCode:
        """Return the index function compiled for this geometry."""
        return self.index.compile(self.sets, self.line)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyConfig:
    """Latencies in model steps: a miss takes `lat_min` + round(|N(0, `sigma`)|), a hit `hit_latency`."""

    lat_min: int = 200
    sigma: float = 40.0
    hit_latency: int = 20

    def __post_init__(self) -> None:
        """Reject negative and non-finite latencies."""
        check_int("lat_min", self.lat_min, 0)
        check_int("hit_latency", self.hit_latency, 0)
        check_number("sigma", self.sigma, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreConfig:
    """The warp schedulers and the load/store unit of an SM; only the simulator reads them.

    `schedulers` share the warps by slot. Each issues one instruction per cycle, from a warp that `sched` selects
    ("lrr": loose round-robin; "gto": greedy, then oldest; "two-level": round-robin within a group of `fetch_group`
    warps; "old": oldest). `ldst_queue` memory instructions fit into the load/store unit. A transaction that hits
    receives its data `hit_latency` cycles later.
    """

    schedulers: int = 2
    sched: CoreSched = "lrr"
    fetch_group: int = 8
    ldst_queue: int = 1
    hit_latency: int = 20

    def __post_init__(self) -> None:
        """Reject impossible numbers."""
        check_int("schedulers", self.schedulers, 1, 4)
        check_choice("sched", self.sched, CoreSched)
        check_int("fetch_group", self.fetch_group, 1)
        check_int("ldst_queue", self.ldst_queue, 1)
        check_int("hit_latency", self.hit_latency, 0)


FIELDS_NOT_SIMULATED = ("name", "architecture", "latency", "paper_latency", "calibrated", "sources")
"""Fields of a `GPU` that the simulator does not read: two GPUs that differ only in them are the same machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GPU:
    """A GPU: its SMs, the limits on their occupancy, its caches, memory and latencies.

    Parameters
    ----------
    name
        Name in results.
    architecture
        Name of the architecture, such as "Ampere"; empty: not given. It has no effect on results.
    sms
        Number of SMs.
    max_threads, max_blocks, max_warps
        Limits on the resident threads, blocks and warps of an SM.
    registers, register_unit
        Registers of an SM, and the unit in which they are allocated to a warp.
    warp_unit
        Unit in which the warps of a block are counted when registers are allocated.
    shared_memory, shared_memory_unit, shared_memory_reserved
        Shared memory of an SM in bytes (the largest carve-out, if the L1 shares it), the unit in which it is allocated
        to a block, and the bytes of each block that the driver reserves.
    max_block_threads
        Limit on the threads of a block.
    l1
        The L1 data cache of each SM.
    latency, paper_latency
        Latencies of the model's definitions `hardware` and `paper`, in steps.
    calibrated
        Latencies that `rdmodel.calibrate` fitted to the simulator, for comparisons with it; None = not fitted.
    clock
        Clock of the SMs in MHz; only the simulator reads it, as it does the following fields.
    core, crossbar, l2, dram
        Warp schedulers and load/store unit, network, L2 and DRAM.
    sources
        The source of each number, by dotted field name.

    Raises
    ------
    ConfigError
        If a number is impossible or a field has the wrong type.
    """

    name: str
    architecture: str = ""
    sms: int
    max_threads: int
    max_blocks: int
    max_warps: int
    registers: int = 32768
    register_unit: int = 64
    warp_unit: int = 1
    shared_memory: int = 49152
    shared_memory_unit: int = 1
    shared_memory_reserved: int = 0
    max_block_threads: int = 1024
    l1: CacheConfig
    latency: LatencyConfig = field(default_factory=lambda: LatencyConfig())
    paper_latency: LatencyConfig = field(default_factory=lambda: LatencyConfig(lat_min=100, sigma=5.0, hit_latency=0))
    calibrated: LatencyConfig | None = None
    clock: int = 700
    core: CoreConfig = field(default_factory=lambda: CoreConfig())
    crossbar: CrossbarConfig = field(default_factory=lambda: CrossbarConfig())
    l2: L2Config = field(default_factory=lambda: L2Config())
    dram: DramConfig = field(default_factory=lambda: DramConfig())
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Reject impossible numbers."""
        counts = ("sms", "max_threads", "max_blocks", "max_warps", "registers", "register_unit", "max_block_threads")
        for name in (*counts, "warp_unit", "shared_memory_unit"):
            check_int(name, getattr(self, name), 1)
        if not isinstance(self.architecture, str):
            raise ConfigError(f"architecture={self.architecture!r}: must be a text")
        check_int("shared_memory", self.shared_memory, 0)
        check_int("shared_memory_reserved", self.shared_memory_reserved, 0)
        check_int("clock", self.clock, 1, MAX_CLOCK_MHZ)
        for name, cls in GPU_TABLES.items():
            value = getattr(self, name)
            if not isinstance(value, cls) and not (name == "calibrated" and value is None):
                raise ConfigError(f"{name}={value!r}: must be a {cls.__name__}")
        self._check_memory()
        for name, source in self.sources.items():
            if not isinstance(source, str):
                raise ConfigError(f"sources.{name}={source!r}: must be a text")

    def _check_memory(self) -> None:
        unit = self.l1.line * self.l2.ways
        if self.l2.size % unit:
            raise ConfigError(
                f"l2.size={self.l2.size}: is not a multiple of l1.line x l2.ways = "
                f"{self.l1.line} x {self.l2.ways} = {unit}"
            )
        if self.dram.row % self.l1.line:
            raise ConfigError(f"dram.row={self.dram.row}: is not a multiple of l1.line = {self.l1.line}")
        if self.l2.sector is not None:
            check_sector("l2.sector", self.l2.sector, self.l1.line, "l1.line")
        fetch = self.l2.fetch
        if fetch is not None and (self.l1.line % fetch or fetch % self.l2_sector_bytes):
            raise ConfigError(
                f"l2.fetch={fetch}: must be a multiple of l2.sector={self.l2_sector_bytes} that divides "
                f"l1.line={self.l1.line}"
            )
        if self.l1.unified and self.shared_memory != self.l1.carveouts[-1]:
            raise ConfigError(
                f"shared_memory={self.shared_memory}: must be the largest of l1.carveouts, {self.l1.carveouts[-1]}, "
                f"because the L1 shares its memory with it (l1.unified={self.l1.unified})"
            )

    @property
    def l2_sector_bytes(self) -> int:
        """Bytes of a sector of the L2: those of a line if its lines have no sectors."""
        return self.l1.line if self.l2.sector is None else self.l2.sector

    @property
    def l2_fetch_bytes(self) -> int:
        """Bytes that a read miss in the L2 fetches from DRAM: those of a sector unless `l2.fetch` says otherwise."""
        return self.l2_sector_bytes if self.l2.fetch is None else self.l2.fetch

    @property
    def sectored(self) -> bool:
        """Whether a line of the L1 or of the L2 has several sectors, or a request is smaller than a warp's line."""
        return self.l1.sectors > 1 or self.l2_sector_bytes < self.l1.line or self.l1.request_bytes != 128

    def replace(self, **changes: Any) -> GPU:
        """Return a validated copy with fields changed; raise `ConfigError` for an unknown field.

        `calibrated` was fitted to the unchanged machine. It becomes None if the simulator reads one of the changed
        fields, unless `changes` has a new one.
        """
        changed: GPU = replace(self, **changes)
        return changed if "calibrated" in changes else changed.fitted_to(self)

    def fitted_to(self, other: GPU) -> GPU:
        """Return this GPU; drop `calibrated`, which was fitted to `other`, if the simulator can tell the two apart."""
        simulated = [f.name for f in dataclasses.fields(self) if f.name not in FIELDS_NOT_SIMULATED]
        if self.calibrated is None or all(getattr(self, name) == getattr(other, name) for name in simulated):
            return self
        sources = {name: source for name, source in self.sources.items() if name.partition(".")[0] != "calibrated"}
        fresh: GPU = replace(self, calibrated=None, sources=sources)
        return fresh

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers, texts, lists and dicts, which `gpu_from_dict` reads back.

        Fields in `DEFAULTS_OMITTED` are left out if they have their defaults.
        """
        plain = dataclasses.asdict(dataclasses.replace(self, sources={}))
        plain["l1"]["index"] = index_to_dict(self.l1.index)
        for table, names in DEFAULTS_OMITTED.items():
            value, part = (getattr(self, table), plain[table]) if table else (self, plain)
            defaults = {f.name: f.default for f in dataclasses.fields(value)}
            for name in names:
                if part[name] == defaults[name]:
                    del part[name]
                elif isinstance(part[name], tuple):
                    part[name] = list(part[name])
        if self.calibrated is None:
            del plain["calibrated"]
        plain["sources"] = dict(self.sources)
        return plain


GPU_TABLES: dict[str, Any] = {
    "l1": CacheConfig,
    "latency": LatencyConfig,
    "paper_latency": LatencyConfig,
    "calibrated": LatencyConfig,
    "core": CoreConfig,
    "crossbar": CrossbarConfig,
    "l2": L2Config,
    "dram": DramConfig,
}
"""The fields of a GPU that are nested tables, with their types."""

UNLIMITED_FIELDS = {"l1": ("mshrs", "mshr_merge", "mshr_per_warp"), "l2": ("mshrs", "mshr_merge")}
"""Fields of those tables for which None, written as ``inf``, means unlimited."""

DEFAULTS_OMITTED = {
    "": ("architecture", "warp_unit", "shared_memory_unit", "shared_memory_reserved"),
    "l1": (
        "sector", "request_bytes", "tags_per_step", "stores", "unified", "carveouts", "carveout", "caches",
    ),
    "l2": ("sector", "fetch", "index", "partitions"),
}  # fmt: skip
"""Fields that `GPU.to_dict` omits at their defaults, by table: GPUs from before Maxwell do not need them."""


def gpu_from_dict(plain: Mapping[str, Any]) -> GPU:
    """Return the GPU that `GPU.to_dict` described; ``inf`` means unlimited. Raises `ConfigError`."""
    data = {key: value for key, value in plain.items() if key != "sources"}
    if not isinstance(data.get("l1"), Mapping):
        raise ConfigError("l1: is missing or not a table")
    for name, cls in GPU_TABLES.items():
        if name in data:
            data[name] = _construct_part(cls, _plain_part(name, data[name]), name)
    sources = plain.get("sources", {})
    if not isinstance(sources, Mapping):
        raise ConfigError("sources: must be a table of texts")
    return _construct(GPU, {**data, "sources": dict(sources)}, "gpu")


def _construct_part(cls: Callable[..., T], data: Any, name: str) -> T:
    """Construct the value of a nested table; errors about its fields name the table too."""
    try:
        return _construct(cls, data, name)
    except ConfigError as error:
        message = str(error)
        if message.partition("=")[0] in {f.name for f in dataclasses.fields(cls)}:  # type: ignore[arg-type]
            raise ConfigError(f"{name}.{message}") from None
        raise


def _plain_part(name: str, plain: Any) -> Any:
    """Return a table with its index function constructed and ``inf`` replaced by None."""
    if not isinstance(plain, Mapping):
        return plain
    limits = UNLIMITED_FIELDS.get(name, ())
    data = {key: None if key in limits and value == float("inf") else value for key, value in plain.items()}
    if name == "l1":
        data["index"] = _index_from_plain(data.get("index", {"name": "fermi"}))
    return data


def _index_from_plain(index: Any) -> IndexFunction:
    if isinstance(index, str):
        index = {"name": index}
    if not isinstance(index, Mapping) or "name" not in index:
        raise ConfigError("l1.index: must be a name or a table with a name")
    parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in index.items() if k != "name"}
    return index_function(str(index["name"]), **parameters)


def _construct(cls: Callable[..., T], data: Any, where: str) -> T:
    if not isinstance(data, Mapping):
        raise ConfigError(f"{where}: must be a table")
    known = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in data:
        if name not in known:
            raise ConfigError(unknown(f"field of {where}", name, known))
    for name, f in known.items():
        if name not in data and f.default is MISSING and f.default_factory is MISSING:
            raise ConfigError(f"{where}.{name}: is missing")
    return cls(**data)


def check_sector(name: str, sector: Any, line: int, line_name: str = "line") -> None:
    """Raise `ConfigError` unless `sector` is a power of two, at most a line and at least 1 / `MAX_SECTORS` of it."""
    check_int(name, sector, 1)
    least = max(1, line // MAX_SECTORS)
    if sector & (sector - 1) or not least <= sector <= line:
        raise ConfigError(
            f"{name}={sector}: must be a power of two from {least} to {line}, so that sectors divide {line_name}={line}"
        )


def replace(value: Any, **changes: Any) -> Any:
    """Return a copy of a dataclass with fields changed; raise `ConfigError` with near misses for an unknown field."""
    known = [f.name for f in dataclasses.fields(value)]
    for name in changes:
        if name not in known:
            raise ConfigError(unknown("field", name, known))
    return dataclasses.replace(value, **changes)
