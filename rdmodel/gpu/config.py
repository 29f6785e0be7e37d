"""Describe a GPU as frozen values, validated on construction."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, field
from typing import Any, Literal, TypeVar

from rdmodel.common.checks import check_choice, check_flag, check_int, check_number
from rdmodel.common.late_dataclass import dataclass, field_values
from rdmodel.common.presentation import Presented
from rdmodel.common.text import size_text
from rdmodel.errors import ConfigError, unknown
from rdmodel.gpu.cache import CacheConfig as CacheConfig
from rdmodel.gpu.cache import StoreBehaviour as StoreBehaviour
from rdmodel.gpu.cache import check_sector
from rdmodel.gpu.memory import MAX_CLOCK_MHZ, CrossbarConfig, DramConfig, L2Config
from rdmodel.gpu.rates import RatesConfig
from rdmodel.policies import IndexFunction, index_function
from rdmodel.policies.index import index_to_dict

CoreSched = Literal["lrr", "gto", "two-level", "old", "gty"]
FirstScheduler = Literal["fair", "cycle"]
T = TypeVar("T")


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
    ("lrr": loose round-robin; "gto": greedy, then oldest; "gty": greedy, then youngest; "two-level": round-robin within
    a group of `fetch_group` warps; "old": oldest). `first_scheduler` acts first in a cycle ("fair": the one after that
    which filled the load/store unit last; "cycle": the next one in every cycle). `ldst_queue` memory instructions fit
    into the load/store unit. A transaction that hits receives its data `hit_latency` cycles later. A warp that issues a
    non-memory instruction may issue again `alu_latency` cycles later, as though each of these instructions needed the
    result of the one before it. With `store_acks`, a block keeps its slot until the L2 has acknowledged its stores.
    """

    schedulers: int = 2
    sched: CoreSched = "lrr"
    fetch_group: int = 8
    ldst_queue: int = 1
    hit_latency: int = 20
    alu_latency: int = 1
    store_acks: bool = False
    first_scheduler: FirstScheduler = "fair"

    def __post_init__(self) -> None:
        """Reject impossible numbers."""
        check_int("schedulers", self.schedulers, 1, 4)
        check_choice("sched", self.sched, CoreSched)
        check_int("fetch_group", self.fetch_group, 1)
        check_int("ldst_queue", self.ldst_queue, 1)
        check_int("hit_latency", self.hit_latency, 0)
        check_int("alu_latency", self.alu_latency, 1)
        check_flag("store_acks", self.store_acks)
        check_choice("first_scheduler", self.first_scheduler, FirstScheduler)


FIELDS_NOT_SIMULATED = ("name", "architecture", "latency", "paper_latency", "calibrated", "rates", "sources")
"""Fields of a `GPU` that the simulator does not read: two GPUs that differ only in them are the same machine."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GPU(Presented):
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
    register_files
        Number of equal parts of the registers: a warp takes its registers from one of them, that of its sub-core.
    shared_memory, shared_memory_unit, shared_memory_reserved
        Shared memory of an SM in bytes (the largest carve-out, if the L1 shares it), the unit in which it is allocated
        to a block, and the bytes of each block that the driver reserves.
    max_block_threads
        Limit on the threads of a block.
    constant_line
        Bytes of a line of the constant cache that reads from the L2 (L1.5), a power of two: what a kernel fetches where
        it first reads constant memory; 0 = unknown, constant memory is not counted.
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
    rates
        Rates that differ from those of the compute capability, for estimates of time (`rdmodel.presets.rates_of`).
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
    register_files: int = 1
    shared_memory: int = 49152
    shared_memory_unit: int = 1
    shared_memory_reserved: int = 0
    max_block_threads: int = 1024
    constant_line: int = 0
    l1: CacheConfig
    latency: LatencyConfig = field(default_factory=lambda: LatencyConfig())
    paper_latency: LatencyConfig = field(default_factory=lambda: LatencyConfig(lat_min=100, sigma=5.0, hit_latency=0))
    calibrated: LatencyConfig | None = None
    clock: int = 700
    core: CoreConfig = field(default_factory=lambda: CoreConfig())
    crossbar: CrossbarConfig = field(default_factory=lambda: CrossbarConfig())
    l2: L2Config = field(default_factory=lambda: L2Config())
    dram: DramConfig = field(default_factory=lambda: DramConfig())
    rates: RatesConfig = field(default_factory=lambda: RatesConfig())
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Reject impossible numbers."""
        counts = ("sms", "max_threads", "max_blocks", "max_warps", "registers", "register_unit", "max_block_threads")
        for name in (*counts, "register_files", "shared_memory_unit"):
            check_int(name, getattr(self, name), 1)
        if not isinstance(self.architecture, str):
            raise ConfigError(f"architecture={self.architecture!r}: must be a text")
        check_int("shared_memory", self.shared_memory, 0)
        check_int("shared_memory_reserved", self.shared_memory_reserved, 0)
        check_int("constant_line", self.constant_line, 0)
        if self.constant_line & (self.constant_line - 1):
            raise ConfigError(f"constant_line={self.constant_line}: must be a power of two, or 0")
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
    def constant_fetch_bytes(self) -> int:
        """Bytes that the first read of a line of constant memory fetches from DRAM; 0 if `constant_line` is unknown."""
        return self.constant_line and max(self.constant_line, self.l2_fetch_bytes)

    @property
    def constant_fetch_sectors(self) -> int:
        """Sectors of the L2 in `constant_fetch_bytes`."""
        return self.constant_fetch_bytes // self.l2_sector_bytes

    @property
    def l2_dirty_sectors(self) -> int:
        """Number of sectors of the L2 that may be dirty at a time."""
        ways = self.l2.ways if self.l2.dirty_ways is None else min(self.l2.dirty_ways, self.l2.ways)
        return self.l2.slices * self.l2.sets(self.l1.line) * ways * (self.l1.line // self.l2_sector_bytes)

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

    def __str__(self) -> str:
        """Return name, architecture, SMs and sizes of the caches in one line."""
        name = f"{self.name} ({self.architecture})" if self.architecture else self.name
        l2 = size_text(self.l2.slices * self.l2.size)
        return f"{name}: {self.sms} SMs, L1 {size_text(self.l1.size)}, L2 {l2}"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row for every field, with its dotted name, its value and the source of its number."""
        plain = self.to_dict()
        sources, rows = plain.pop("sources"), []
        for name, value in plain.items():
            nested = isinstance(value, dict)
            fields = {f"{name}.{key}": each for key, each in value.items()} if nested else {name: value}
            rows += [{"field": field, "value": each, "source": sources.get(field)} for field, each in fields.items()]
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain numbers, texts, lists and dicts, which `gpu_from_dict` reads back.

        Fields in `DEFAULTS_OMITTED` are left out if they have their defaults.
        """
        plain = field_values(self)
        plain |= {name: field_values(plain[name]) for name in GPU_TABLES if plain[name] is not None}
        plain["l1"]["index"] = index_to_dict(self.l1.index)
        for table, names in DEFAULTS_OMITTED.items():
            value, part = (getattr(self, table), plain[table]) if table else (self, plain)
            for name in names:
                if part[name] == value.__dataclass_fields__[name].default:
                    del part[name]
                elif isinstance(part[name], tuple):
                    part[name] = list(part[name])
        if self.calibrated is None:
            del plain["calibrated"]
        plain["rates"] = self.rates.given()
        if not plain["rates"]:
            del plain["rates"]
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
    "rates": RatesConfig,
}
"""The fields of a GPU that are nested tables, with their types."""

UNLIMITED_FIELDS = {"l1": ("mshrs", "mshr_merge", "mshr_per_warp"), "l2": ("mshrs", "mshr_merge", "dirty_ways")}
"""Fields of those tables for which None, written as ``inf``, means unlimited."""

DEFAULTS_OMITTED = {
    "": ("architecture", "register_files", "shared_memory_unit", "shared_memory_reserved", "constant_line"),
    "l1": (
        "sector", "request_bytes", "tags_per_step", "stores", "unified", "carveouts", "carveout", "bare_factor",
        "caches", "dlcm", "tag_sets", "reserved", "pools", "protected",
    ),
    "core": ("alu_latency", "store_acks", "first_scheduler"),
    "crossbar": ("packets",),
    "l2": ("sector", "fetch", "index", "partitions", "partition_latency", "dirty_ways"),
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


def replace(value: Any, **changes: Any) -> Any:
    """Return a copy of a dataclass with fields changed; raise `ConfigError` with near misses for an unknown field."""
    known = [f.name for f in dataclasses.fields(value)]
    for name in changes:
        if name not in known:
            raise ConfigError(unknown("field", name, known))
    return dataclasses.replace(value, **changes)
