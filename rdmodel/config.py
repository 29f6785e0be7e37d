"""The machine and the model's options as frozen values, validated once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, Literal, TypeVar, get_args

from rdmodel.errors import ConfigError, unknown
from rdmodel.policies import Fermi, IndexCode, IndexFunction, index_function

Definition = Literal["hardware", "paper"]
Stores = Literal["free", "step", "evict", "allocate"]
Cta = Literal["replace", "waves"]
Effects = Literal["after", "before"]
Sched = Literal["random", "fifo", "lrr", "gto", "oldest"]
Stall = Literal["park", "head"]
FullSet = Literal["stall", "bypass"]
Step = Literal["transaction", "instruction"]
T = TypeVar("T")

MOST = 1 << 40
"""The largest number that a field may hold: far beyond any machine, and sums of it stay within 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """An L1 data cache: `size` bytes, `ways`, bytes per `line`, `index` function, MSHRs (None = unlimited).

    `mshr_merge` is how many transactions may share one MSHR, the first included; `mshr_per_warp` how many MSHRs one
    warp may hold (6 measured on Fermi: Nugteren et al., section 5.2). Raises `ConfigError` for a geometry that
    cannot exist.
    """

    size: int
    ways: int
    line: int = 128
    index: IndexFunction = field(default_factory=Fermi)
    mshrs: int | None = 64
    mshr_merge: int | None = None
    mshr_per_warp: int | None = None

    def __post_init__(self) -> None:
        """Refuse a geometry that cannot exist."""
        for name in ("size", "ways", "line"):
            _check_int(name, getattr(self, name), 1)
        if self.line & (self.line - 1):
            raise ConfigError(f"line={self.line}: must be a power of two")
        unit = self.line * self.ways
        if self.size % unit:
            raise ConfigError(
                f"size={self.size}: is not a multiple of line x ways = {self.line} x {self.ways} = {unit}"
            )
        for name in ("mshrs", "mshr_merge", "mshr_per_warp"):
            if getattr(self, name) is not None:
                _check_int(name, getattr(self, name), 1)
        if not isinstance(self.index, IndexFunction):
            raise ConfigError(f"index={self.index!r}: must be an index function (rdmodel.policies)")
        self.index_code()

    @property
    def sets(self) -> int:
        """Number of sets."""
        return self.size // (self.line * self.ways)

    @property
    def lines(self) -> int:
        """Number of lines that the cache holds."""
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
        """Refuse negative and non-finite latencies."""
        _check_int("lat_min", self.lat_min, 0)
        _check_int("hit_latency", self.hit_latency, 0)
        _check_number("sigma", self.sigma, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GPU:
    """A GPU: its SMs, what limits residency on one, its L1 data cache and latencies.

    `registers` and `shared_memory` (bytes) are per SM; registers are handed to a warp in multiples of
    `register_unit`. `latency` serves the `hardware` definition, `paper_latency` the `paper` one. `sources` maps a
    field to where its number comes from.
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
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Refuse impossible numbers."""
        counts = ("sms", "max_threads", "max_blocks", "max_warps", "registers", "register_unit", "max_block_threads")
        for name in counts:
            _check_int(name, getattr(self, name), 1)
        _check_int("shared_memory", self.shared_memory, 0)
        for name, cls in (("l1", CacheConfig), ("latency", LatencyConfig), ("paper_latency", LatencyConfig)):
            if not isinstance(getattr(self, name), cls):
                raise ConfigError(f"{name}={getattr(self, name)!r}: must be a {cls.__name__}")
        for name, source in self.sources.items():
            if not isinstance(source, str):
                raise ConfigError(f"sources.{name}={source!r}: must be a text")

    def replace(self, **changes: Any) -> GPU:
        """Return a copy with fields changed, checked anew; raise `ConfigError` for an unknown one."""
        changed: GPU = replace(self, **changes)
        return changed

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings and dicts: `gpu_from_dict` reads it back."""
        plain = dataclasses.asdict(dataclasses.replace(self, sources={}))
        plain["l1"]["index"] = index_to_dict(self.l1.index)
        plain["sources"] = dict(self.sources)
        return plain


def index_to_dict(index: IndexFunction) -> dict[str, Any]:
    """Return an index function as a dict with its name and parameters."""
    parameters = {
        f.name: getattr(index, f.name)
        for f in dataclasses.fields(index)  # type: ignore[arg-type]
        if getattr(index, f.name) is not None
    }
    return {"name": index.name, **{k: list(v) if isinstance(v, tuple) else v for k, v in parameters.items()}}


def gpu_from_dict(plain: Mapping[str, Any]) -> GPU:
    """Return the GPU that `GPU.to_dict` wrote; ``inf`` stands for unlimited. Raises `ConfigError`."""
    data = {key: value for key, value in plain.items() if key != "sources"}
    data["l1"] = _cache_from_dict(data.get("l1"))
    for name in ("latency", "paper_latency"):
        if name in data:
            data[name] = _construct(LatencyConfig, data[name], name)
    sources = plain.get("sources", {})
    if not isinstance(sources, Mapping):
        raise ConfigError("sources: must be a table of texts")
    return _construct(GPU, {**data, "sources": dict(sources)}, "gpu")


def _cache_from_dict(plain: Any) -> CacheConfig:
    if not isinstance(plain, Mapping):
        raise ConfigError("l1: is missing or not a table")
    data = dict(plain)
    index = data.get("index", {"name": "fermi"})
    if isinstance(index, str):
        index = {"name": index}
    if not isinstance(index, Mapping) or "name" not in index:
        raise ConfigError("l1.index: must be a name or a table with a name")
    parameters = {k: tuple(v) if isinstance(v, list) else v for k, v in index.items() if k != "name"}
    data["index"] = index_function(str(index["name"]), **parameters)
    for name in ("mshrs", "mshr_merge", "mshr_per_warp"):
        if data.get(name) == float("inf"):
            data[name] = None
    return _construct(CacheConfig, data, "l1")


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
    """`dataclasses.replace` that names unknown fields: raises `ConfigError` with the near misses."""
    known = [f.name for f in dataclasses.fields(value)]
    for name in changes:
        if name not in known:
            raise ConfigError(unknown("field", name, known))
    return dataclasses.replace(value, **changes)


def _check_int(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name}={value!r}: must be a whole number")
    if value < least:
        raise ConfigError(f"{name}={value}: must be at least {least}")
    if value > MOST:
        raise ConfigError(f"{name}={value}: must be at most 2^40")


def _check_number(name: str, value: Any, least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= MOST:
        raise ConfigError(f"{name}={value!r}: must be a finite number of at least {least:g} (and at most 2^40)")


def _check_choice(name: str, value: Any, choices: Any) -> None:
    allowed = get_args(choices)
    if value not in allowed:
        raise ConfigError(unknown(f"value for {name}:", value, map(str, allowed)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How `predict` runs: every option of the model by its name, defaults filled in by `Options.resolve`.

    Which SMs and blocks: `sms` (blocks are dealt over so many; None = the GPU's), `model_sms` (how many of them are
    modelled, or "all"), `threads` (at most so many per modelled SM, cut to whole blocks; None = all), `blocks` (only
    the first so many of the grid), `cta` ("replace": a block that ends gives way at once; "waves": all of a wave end
    first).

    Both definitions: `lat_min`, `sigma`, `hit_latency` (None = the GPU's for the definition), `divergence` (False:
    warps take turns and never wait), `stores` ("free", "step", "evict": `hardware` only; "allocate": as loads).

    `paper`: `effects` ("after", "before": whether an access sees the effects due at its own time), `clip` (a merged
    request arrives with the first one).

    `hardware`: `sched` (warp choice), `stall` ("park", "head"), `full_set` ("stall", "bypass"), `step`
    ("transaction", "instruction"), `stagger`, `gap`, `first_touch_factor`.
    """

    definition: Definition = "hardware"
    sms: int | None = None
    model_sms: int | Literal["all"] = 1
    threads: int | None = 8192
    blocks: int | None = None
    cta: Cta = "replace"
    stores: Stores = "free"
    lat_min: int | None = None
    sigma: float | None = None
    hit_latency: int | None = None
    divergence: bool = True
    effects: Effects = "after"
    clip: bool = True
    sched: Sched = "random"
    stall: Stall = "park"
    full_set: FullSet = "stall"
    step: Step = "transaction"
    stagger: int = 0
    gap: bool = False
    first_touch_factor: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values that mean nothing, and options of the other definition."""
        for name, choices in _CHOICES.items():
            _check_choice(name, getattr(self, name), choices)
        for name in ("sms", "threads", "blocks"):
            if getattr(self, name) is not None:
                _check_int(name, getattr(self, name), 1)
        if self.model_sms != "all":
            _check_int("model_sms", self.model_sms, 1)
        for name in ("lat_min", "hit_latency"):
            if getattr(self, name) is not None:
                _check_int(name, getattr(self, name), 0)
        if self.sigma is not None:
            _check_number("sigma", self.sigma, 0)
        _check_int("stagger", self.stagger, 0)
        _check_number("first_touch_factor", self.first_touch_factor, 0)
        for name in ("divergence", "clip", "gap"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name}={getattr(self, name)!r}: must be True or False")
        foreign = _PAPER_ONLY if self.definition == "hardware" else _HARDWARE_ONLY
        for name in foreign:
            default = Options.__dataclass_fields__[name].default
            if getattr(self, name) != default:
                other = "paper" if self.definition == "hardware" else "hardware"
                raise ConfigError(f"{name}={getattr(self, name)!r}: only the definition {other!r} has this option")
        if self.definition == "paper" and self.stores in ("step", "evict"):
            raise ConfigError(f"stores={self.stores!r}: only the definition 'hardware' has this option")

    def resolve(self, gpu: GPU) -> Options:
        """Return the options with every None that stands for the GPU's number filled in."""
        latency = gpu.latency if self.definition == "hardware" else gpu.paper_latency
        sms = gpu.sms if self.sms is None else self.sms
        if self.model_sms != "all" and self.model_sms > sms:
            raise ConfigError(f"model_sms={self.model_sms}: there are {sms} SMs")
        return dataclasses.replace(
            self,
            sms=sms,
            lat_min=latency.lat_min if self.lat_min is None else self.lat_min,
            sigma=float(latency.sigma if self.sigma is None else self.sigma),
            hit_latency=latency.hit_latency if self.hit_latency is None else self.hit_latency,
        )


_CHOICES = {
    "definition": Definition,
    "cta": Cta,
    "stores": Stores,
    "effects": Effects,
    "sched": Sched,
    "stall": Stall,
    "full_set": FullSet,
    "step": Step,
}
_PAPER_ONLY = ("effects", "clip")
_HARDWARE_ONLY = ("sched", "stall", "full_set", "step", "stagger", "gap", "first_touch_factor")
