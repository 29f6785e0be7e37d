"""How `predict` and `simulate` run, as frozen values, validated once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from rdmodel.common.checks import check_choice, check_flag, check_int, check_number
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU

Definition = Literal["hardware", "paper"]
Stores = Literal["free", "step", "evict", "allocate"]
Cta = Literal["replace", "waves"]
Effects = Literal["after", "before"]
Sched = Literal["random", "fifo", "lrr", "gto", "oldest"]
Stall = Literal["park", "head"]
FullSet = Literal["stall", "bypass"]
Step = Literal["transaction", "instruction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How `predict` runs: every option of the model by its name, defaults filled in by `Options.resolve`.

    Which SMs and blocks: `sms` (blocks are dealt over so many; None = the GPU's), `model_sms` (how many of them are
    modelled, or "all"), `threads` (at most so many per modelled SM, cut to whole blocks; None = all), `blocks` (only
    the first so many of the grid), `l2` (what leaves the SMs goes on to a shared L2: `Prediction.l2`), `cta`
    ("replace": a block that ends gives way at once; "waves": all of a wave end first).

    Both definitions: `lat_min`, `sigma`, `hit_latency` (None = the GPU's for the definition), `divergence` (False:
    warps take turns and never wait), `stores` ("free", "step", "evict": `hardware` only; "allocate": as loads).

    `paper`: `effects` ("after", "before": whether an access sees the effects due at its own time), `clip` (a merged
    request arrives with the first one).

    `hardware`: `sched` (warp choice), `schedulers` (1 to 4: warps are shared out to so many by their slot), `stall`
    ("park", "head"), `full_set` ("stall", "bypass"), `step` ("transaction", "instruction"), `stagger`, `gap`,
    `first_touch_factor`.
    """

    definition: Definition = "hardware"
    sms: int | None = None
    model_sms: int | Literal["all"] = 1
    threads: int | None = 8192
    blocks: int | None = None
    l2: bool = False
    cta: Cta = "replace"
    stores: Stores = "free"
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
        """Refuse values that mean nothing, and options of the other definition."""
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        for name in ("sms", "threads", "blocks"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1)
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
        for name in FOREIGN[self.definition]:
            default = Options.__dataclass_fields__[name].default
            if getattr(self, name) != default:
                other = "paper" if self.definition == "hardware" else "hardware"
                raise ConfigError(f"{name}={getattr(self, name)!r}: only the definition {other!r} has this option")
        if self.definition == "hardware" and self.schedulers > 1 and self.sched == "random":
            raise ConfigError(
                f"schedulers={self.schedulers}: sched='random' chooses among all warps; needs another sched"
            )
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
FOREIGN: dict[Definition, tuple[str, ...]] = {
    "hardware": ("effects", "clip"),
    "paper": ("sched", "schedulers", "stall", "full_set", "step", "stagger", "gap", "first_touch_factor"),
}
"""Options that a definition does not have: they are the other one's."""
