"""Describe a GPU as frozen values, validated on construction."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, Literal, TypeVar

from rdmodel.common.checks import check_choice, check_int, check_number
from rdmodel.errors import ConfigError, unknown
from rdmodel.gpu.memory import MAX_CLOCK_MHZ, CrossbarConfig, DramConfig, L2Config
from rdmodel.policies import Fermi, IndexCode, IndexFunction, index_function
from rdmodel.policies.index import compile_index, index_to_dict

Allocate = Literal["miss", "fill"]
CoreSched = Literal["lrr", "gto", "two-level", "old"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """An L1 data cache: `size` in bytes, `ways`, bytes per `line`, `index` function, MSHRs (None = unlimited).

    `mshr_merge` is the number of transactions that may share one MSHR, the first included; `mshr_per_warp` is the
    number of MSHRs that one warp may hold (6 measured on Fermi: Nugteren et al., section 5.2). Only the simulator reads
    `allocate` (a line gets its way on a "miss", or when its data "fill" it) and `miss_queue` (the number of requests
    that may wait for the crossbar). Raises `ConfigError` for a geometry that cannot exist.
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
        if not isinstance(self.index, IndexFunction):
            raise ConfigError(f"index={self.index!r}: must be an index function (rdmodel.policies)")
        self.index_code()

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
        return compile_index(self.index, self.sets, self.line)


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


FIELDS_NOT_SIMULATED = ("name", "latency", "paper_latency", "calibrated", "sources")
"""Fields of a `GPU` that the simulator does not read: two GPUs that differ only in them are the same machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GPU:
    """A GPU: its SMs, the limits on their occupancy, its caches, memory and latencies.

    Parameters
    ----------
    name
        Name in results.
    sms
        Number of SMs.
    max_threads, max_blocks, max_warps
        Limits on the resident threads, blocks and warps of an SM.
    registers, register_unit
        Registers of an SM, and the unit in which they are allocated to a warp.
    shared_memory
        Shared memory of an SM in bytes.
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
    sms: int
    max_threads: int
    max_blocks: int
    max_warps: int
    registers: int = 32768
    register_unit: int = 64
    shared_memory: int = 49152
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
        for name in counts:
            check_int(name, getattr(self, name), 1)
        check_int("shared_memory", self.shared_memory, 0)
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
        """Return all fields as plain numbers, strings and dicts, which `gpu_from_dict` reads back."""
        plain = dataclasses.asdict(dataclasses.replace(self, sources={}))
        plain["l1"]["index"] = index_to_dict(self.l1.index)
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
        if isinstance(data, Mapping) and message.split("=")[0] in data:
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
