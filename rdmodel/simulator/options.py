"""Define the options of `simulate`, as frozen values that are validated once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rdmodel.common.checks import check_choice, check_flag, check_int
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU, CoreSched
from rdmodel.policies import Policy, check_policies, parse_policy


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
