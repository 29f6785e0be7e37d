"""Define the options of `predict`, as frozen values that are validated once."""

from __future__ import annotations

import dataclasses
from typing import Literal

from rdmodel.common.checks import MAX_SMS, MAX_VALUE, check_choice, check_flag, check_int, check_number
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU, StoreBehaviour
from rdmodel.gpu.default import PAPER_GPU

Definition = Literal["hardware", "paper"]
Cta = Literal["replace", "waves"]
Effects = Literal["after", "before"]
Sched = Literal["random", "fifo", "lrr", "gto", "oldest", "gty"]
Stall = Literal["park", "head"]
FullSet = Literal["stall", "bypass"]
Step = Literal["transaction", "instruction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the model, validated; `resolve` fills in the defaults that depend on the GPU.

    An option of the other definition, if it differs from its default, raises `ConfigError`.

    Attributes
    ----------
    definition : "hardware" or "paper"
        The definition of the model.
    sms : int, optional
        Number of SMs to which blocks are dealt; None: the GPU's.
    model_sms : int or "all"
        Number of these SMs that are modelled, from SM 0 on.
    threads : int, optional
        Largest number of threads per modelled SM, rounded down to whole blocks; None: all threads.
    blocks : int, optional
        Number of blocks of the grid that are modelled, from block 0 on; None: all blocks.
    l2 : bool
        Send the requests of the modelled SMs to a shared L2: `Prediction.l2`.
    cta : "replace" or "waves"
        When a new block starts: as soon as a resident block ends, or when all resident blocks have ended.
    stores : "free", "step", "evict", "allocate", "update" or "through", optional
        Treatment of stores; None: the GPU's (`paper`: "free"). "free": they take no step and no line. "allocate": they
        act as loads. The others are those of `hardware`. "step": each takes a step. "evict": they make their lines
        absent. "update": they write in place where their line is, and through to the L2. "through": they allocate
        their lines as well.
    lat_min : int, optional
        Minimum latency of a miss, in steps; None: the GPU's for the definition, as for the next two.
    sigma : float, optional
        Scale of the half-normal part of a miss's latency, in steps.
    hit_latency : int, optional
        Latency of a hit, in steps.
    divergence : bool
        False: warps take turns and never wait for data.
    effects : "after" or "before"
        `paper`: whether an access sees the effects that are due at its own time ("before").
    clip : bool
        `paper`: data of a merged request arrive together with those of the request in flight.
    sched : "random", "fifo", "lrr", "gto", "oldest" or "gty"
        `hardware`: choice of the next warp.
    schedulers : int
        `hardware`: number of schedulers, 1 to 4; a warp's slot determines its scheduler.
    stall : "park" or "head"
        `hardware`: whether a stall sets aside the warp or stops the whole SM.
    full_set : "stall" or "bypass"
        `hardware`: effect of a miss while all ways of its set are in flight.
    step : "transaction" or "instruction"
        `hardware`: unit that one step issues.
    stagger : int
        `hardware`: steps between the starts of the blocks of the initial fill.
    gap : bool
        `hardware`: each instruction that does not access memory takes a step.
    first_touch_factor : float
        `hardware`: factor on the latency of the first miss of a line.
    """

    definition: Definition = "hardware"
    sms: int | None = None
    model_sms: int | Literal["all"] = 1
    threads: int | None = 8192
    blocks: int | None = None
    l2: bool = False
    cta: Cta = "replace"
    stores: StoreBehaviour | None = None
    lat_min: int | None = None
    sigma: float | None = None
    hit_latency: int | None = None
    divergence: bool = True
    effects: Effects = "after"
    clip: bool = True
    sched: Sched = "random"
    schedulers: int = 1
    stall: Stall = "park"
    full_set: FullSet = "stall"
    step: Step = "transaction"
    stagger: int = 0
    gap: bool = False
    first_touch_factor: float = 1.0

    def __post_init__(self) -> None:
        """Raise `ConfigError` for invalid values and for options of the other definition."""
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        if self.stores is not None:
            check_choice("stores", self.stores, StoreBehaviour)
        for name in ("sms", "threads", "blocks"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1, MAX_SMS if name == "sms" else MAX_VALUE)
        if self.model_sms != "all":
            check_int("model_sms", self.model_sms, 1)
        for name in ("lat_min", "hit_latency"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 0)
        if self.sigma is not None:
            check_number("sigma", self.sigma, 0)
        check_int("schedulers", self.schedulers, 1, 4)
        check_int("stagger", self.stagger, 0)
        check_number("first_touch_factor", self.first_touch_factor, 0)
        for name in ("l2", "divergence", "clip", "gap"):
            check_flag(name, getattr(self, name))
        for name in FOREIGN_OPTIONS[self.definition]:
            default = Options.__dataclass_fields__[name].default
            if getattr(self, name) != default:
                other = "paper" if self.definition == "hardware" else "hardware"
                raise ConfigError(f"{name}={getattr(self, name)!r}: only the definition {other!r} has this option")
        if self.definition == "hardware" and self.schedulers > 1 and self.sched == "random":
            raise ConfigError(
                f"schedulers={self.schedulers} cannot be combined with sched='random', which chooses among all warps: "
                "choose another sched"
            )
        if self.definition == "paper" and self.stores not in (None, *PAPER_STORES):
            raise ConfigError(
                f"stores={self.stores!r}: only the definition 'hardware' has this option; 'paper' has "
                f"{' and '.join(map(repr, PAPER_STORES))}"
            )

    def resolve(self, gpu: GPU) -> Options:
        """Return the options with each None that stands for a property of the GPU replaced by that property.

        Raises `ConfigError` for a GPU that the definition cannot model.
        """
        check_known_definition(self.definition, gpu)
        latency = gpu.latency if self.definition == "hardware" else gpu.paper_latency
        sms = gpu.sms if self.sms is None else self.sms
        if self.model_sms != "all" and self.model_sms > sms:
            raise ConfigError(f"model_sms={self.model_sms}: must be at most {sms}, the number of SMs")
        return dataclasses.replace(
            self,
            sms=sms,
            stores=self._resolve_stores(gpu),
            lat_min=latency.lat_min if self.lat_min is None else self.lat_min,
            sigma=float(latency.sigma if self.sigma is None else self.sigma),
            hit_latency=latency.hit_latency if self.hit_latency is None else self.hit_latency,
        )

    def _resolve_stores(self, gpu: GPU) -> StoreBehaviour:
        if self.stores is not None:
            return self.stores
        return gpu.l1.stores if self.definition == "hardware" else "free"


_CHOICES = {
    "definition": Definition,
    "cta": Cta,
    "effects": Effects,
    "sched": Sched,
    "stall": Stall,
    "full_set": FullSet,
    "step": Step,
}
PAPER_STORES: tuple[StoreBehaviour, ...] = ("free", "allocate")
"""Treatments of stores that `paper` has."""

STORES_IN_PLACE: tuple[StoreBehaviour, ...] = ("update", "through")
"""Treatments in which stores look up their lines, as loads do."""

FOREIGN_OPTIONS: dict[Definition, tuple[str, ...]] = {
    "hardware": ("effects", "clip"),
    "paper": ("sched", "schedulers", "stall", "full_set", "step", "stagger", "gap", "first_touch_factor"),
}
"""For each definition, the options that only the other one has."""


def check_known_definition(definition: Definition, gpu: GPU) -> None:
    """Raise `ConfigError` for a GPU that the definition cannot model."""
    if definition == "paper" and gpu.l1.sectors > 1:
        raise ConfigError(
            f"l1.sector={gpu.l1.sector}: the definition 'paper' fetches whole lines; use definition='hardware', or "
            f"a GPU with l1.sector={gpu.l1.line}, such as {PAPER_GPU}"
        )
