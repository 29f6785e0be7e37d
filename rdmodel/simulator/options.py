"""Define and resolve the options of `simulate`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from rdmodel.common.checks import MAX_SMS, MAX_VALUE, check_choice, check_flag, check_int
from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError, unknown
from rdmodel.gpu.config import GPU, CoreSched
from rdmodel.policies import Policy
from rdmodel.policies.combinations import combination
from rdmodel.trace.coalescing import SECTOR

IN_PLACE = ("update", "through")
"""Values of `l1.stores` with which stores write the lines that are in the L1."""

RUN_PARAMETERS = ("seed", "check")
"""Parameters of `simulate` that a misspelt option may mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOptions:
    """The options of `simulate`; the parts of the machine are described by the `GPU`.

    Attributes
    ----------
    sms : int or None
        Number of SMs; None: that of the GPU.
    blocks : int or None
        Number of blocks to run, from the start of the grid; None: the whole grid.
    sched : {"lrr", "gto", "two-level", "old", "gty"} or None
        Warp scheduler; None: ``core.sched`` of the GPU.
    memory : int or None
        None: crossbar, L2 and DRAM are simulated. N: an ideal memory responds to every miss N cycles later.
    stores : bool
        False: stores keep their place in program order but make no requests.
    policies : tuple of Policy
        Cache management, at most one policy of a kind. Anything that `rdmodel.combination` accepts can be given:
        policies of `rdmodel.policies`, texts such as ``"swl:warps=4"``, names of combinations, and dicts of a policy's
        name and options. An index function belongs to the GPU; only `simulate` and `locality` take one here.
    """

    sms: int | None = None
    blocks: int | None = None
    sched: CoreSched | None = None
    memory: int | None = None
    stores: bool = True
    policies: tuple[Policy, ...] = ()

    def __post_init__(self) -> None:
        """Check the options; store the policies as a tuple."""
        for name in ("sms", "blocks"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1, MAX_SMS if name == "sms" else MAX_VALUE)
        if self.sched is not None:
            check_choice("sched", self.sched, CoreSched)
        if self.memory is not None:
            check_int("memory", self.memory, 0)
        check_flag("stores", self.stores)
        chosen = combination(self.policies)
        if chosen.index is not None:
            raise ConfigError(f"policies: {chosen.index!r} is an index function, which belongs to the GPU's l1.index")
        object.__setattr__(self, "policies", chosen.policies)

    def resolve(self, gpu: GPU) -> SimulationOptions:
        """Return the options with every None that stands for the GPU's value filled in."""
        return dataclasses.replace(
            self,
            sms=gpu.sms if self.sms is None else self.sms,
            sched=gpu.core.sched if self.sched is None else self.sched,
        )


def configure(gpu: GPU, options: Mapping[str, Any]) -> tuple[GPU, SimulationOptions]:
    """Return the GPU and the resolved options for the keywords of `simulate`.

    An index function among the policies replaces that of the GPU's L1. Raises `ConfigError` for an unknown option, with
    the near misses, and for a GPU that the simulator cannot run.
    """
    known = [field.name for field in dataclasses.fields(SimulationOptions)]
    for name in options:
        if name not in known:
            raise ConfigError(unknown("option", name, [*known, *RUN_PARAMETERS]))
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
    chosen = combination(plain.pop("policies", ()))
    if chosen.index is not None:
        gpu = gpu.replace(l1=dataclasses.replace(gpu.l1, index=chosen.index))
    check_known_machine(gpu)
    return gpu, SimulationOptions(**plain, policies=chosen.policies).resolve(gpu)


def has_sector_masks(gpu: GPU) -> bool:
    """Return whether the simulator has masks of sectors for a GPU.

    Its lines have several, stores write in place, or the L2 has partitions.
    """
    several = gpu.l1.sectors > 1 or gpu.l2_sector_bytes < gpu.l1.line
    return several or gpu.l1.stores in IN_PLACE or gpu.l2.partitions > 1


def packet_bytes(gpu: GPU) -> int:
    """Return the bytes of the unit in which messages are counted: a sector, a line, or 32 for coalesced packets."""
    return SECTOR if gpu.crossbar.packets == "coalesced" else gpu.l2_sector_bytes


def check_known_machine(gpu: GPU) -> None:
    """Raise `ConfigError` for a GPU that the simulator cannot run."""
    if gpu.l1.stores in ("step", "allocate"):
        raise ConfigError(f"l1.stores={gpu.l1.stores!r}: the simulator knows 'free', 'evict', 'update' and 'through'")
    coalesced = gpu.crossbar.packets == "coalesced"
    if not has_sector_masks(gpu):
        if coalesced and not SECTOR <= gpu.l1.line <= 32 * SECTOR:
            raise ConfigError(
                f"l1.line={gpu.l1.line}: must be from {SECTOR} to {32 * SECTOR} with crossbar.packets='coalesced'"
            )
        return
    if gpu.l1.stores not in IN_PLACE:
        raise ConfigError(
            f"l1.stores={gpu.l1.stores!r}: the simulator knows 'update' and 'through' where lines have sectors "
            "or the L2 has partitions"
        )
    if gpu.l1.sector_bytes != gpu.l2_sector_bytes:
        raise ConfigError(
            f"l2.sector={gpu.l2_sector_bytes}: the simulator needs that of the L1, l1.sector={gpu.l1.sector_bytes}"
        )
    if coalesced:
        raise ConfigError(
            "crossbar.packets='coalesced': messages carry their sectors where lines have sectors, stores write in "
            "place or the L2 has partitions; use 'lines'"
        )
