"""How `predict` and `simulate` run, as frozen values, validated once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rdmodel.checks import check_choice, check_flag, check_int, check_number
from rdmodel.config import GPU, CoreSched
from rdmodel.errors import ConfigError
from rdmodel.policies import Policy, check_policies, parse_policy

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """How `simulate` runs; what the machine is made of is the `GPU`'s.

    `sms` (how many SMs there are; None = the GPU's), `blocks` (only the first so many of the grid), `sched` (None =
    the GPU's ``core.sched``), `memory` (None: crossbar, L2 and DRAM are simulated; N: an ideal memory answers every
    miss N cycles later), `stores` (False: stores keep their place in program order but make no requests), `policies`
    (cache management, at most one of a kind: objects of `rdmodel.policies`, their texts, as ``"swl:warps=4"``, or what
    `policy_fields` returns).
    """

    sms: int | None = None
    blocks: int | None = None
    sched: CoreSched | None = None
    memory: int | None = None
    stores: bool = True
    policies: tuple[Policy, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values that mean nothing; keep the policies as a tuple."""
        for name in ("sms", "blocks"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1)
        if self.sched is not None:
            check_choice("sched", self.sched, CoreSched)
        if self.memory is not None:
            check_int("memory", self.memory, 0)
        check_flag("stores", self.stores)
        if isinstance(self.policies, str) or not isinstance(self.policies, Sequence):
            raise ConfigError(f"policies={self.policies!r}: must be a sequence of policies (rdmodel.policies)")
        policies = tuple(_policy(policy) for policy in self.policies)
        check_policies(policies)
        object.__setattr__(self, "policies", policies)

    def resolve(self, gpu: GPU) -> SimulationOptions:
        """Return the options with every None that stands for the GPU's value filled in."""
        return dataclasses.replace(
            self,
            sms=gpu.sms if self.sms is None else self.sms,
            sched=gpu.core.sched if self.sched is None else self.sched,
        )


def policy_fields(policy: Policy) -> dict[str, Any]:
    """Return a policy's name and options, in plain values."""
    return {"name": policy.name, **dataclasses.asdict(policy)}  # type: ignore[call-overload]


def _policy(given: Any) -> Any:
    """Return the policy that a text or `policy_fields` stands for; anything else as it is."""
    if isinstance(given, str):
        return parse_policy(given)
    if isinstance(given, Mapping):
        options = ",".join(f"{option}={_word(value)}" for option, value in given.items() if option != "name")
        return parse_policy(f"{given.get('name')}:{options}" if options else str(given.get("name")))
    return given


def _word(value: Any) -> str:
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
