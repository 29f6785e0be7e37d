"""Run compiled policies of users in the reference machine, through ctypes (``rdmodel_policy.h``).

The compiled machine calls the same functions in `rdmodel.simulator._plugins`.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from ctypes import Array, byref, c_double, c_int64, c_uint64, c_void_p
from typing import Any, NamedTuple

from rdmodel.errors import SimulationError
from rdmodel.gpu.config import GPU
from rdmodel.plugins.table import PERIOD_OPTION, AccessStruct, CountersStruct, LineStruct, MachineStruct, WarpStruct
from rdmodel.policies.base import Policy
from rdmodel.policies.compiled import CompiledPolicy
from rdmodel.reference.machine.admission import Admission
from rdmodel.reference.machine.instruction import MachineInstruction
from rdmodel.reference.machine.l1 import L1, L1Failure, L1Outcome
from rdmodel.reference.machine.messages import Transaction
from rdmodel.reference.machine.record import Counters
from rdmodel.reference.machine.throttling import Permit, Throttle
from rdmodel.reference.machine.warps import Warp
from rdmodel.reference.machine.ways import Way

USE, USE_PRESENT, BYPASS = range(3)
"""Answers of ``admit``."""

PERMITS = (Permit.WAIT, Permit.PASS, Permit.ALLOCATE)
"""Answers of ``permit``, in their order."""

ABSENT, VALID, IN_FLIGHT = range(3)
"""Values of ``rdmodel_access.present``."""

OUTCOMES: dict[str, int] = {"hit": 0, "pending": 1, "miss": 2, "bypassed": 3}
"""Outcomes of a load, as ``loaded`` gets them."""

NO_LOAD = -1
"""The pc of a store."""


class Claim(NamedTuple):
    """An access that may look for a way."""

    line: int
    pc: int
    warp: Warp
    present: int
    store: bool


class Plugin:
    """A compiled policy with the states of all SMs, and with its data about lines by SM and line."""

    def __init__(self, policy: CompiledPolicy, machine: MachineStruct) -> None:
        values = policy.settings()["options"]
        assert isinstance(values, tuple)
        self.kind = policy.table.kind
        self.functions: Any = policy.table.functions
        self.data: list[dict[int, int]] = [{} for _ in range(machine.sms)]
        self._name = policy.name
        self._period = getattr(policy, PERIOD_OPTION) if self.functions.period_ended else None
        self._options = (c_double * max(1, len(values)))(*values)
        self._states = (c_void_p * machine.sms)()
        weakref.finalize(self, _destroy, self.functions, self._states)
        for sm in range(machine.sms):
            if self.functions.create:
                self._states[sm] = self.functions.create(byref(machine), sm, self._options)

    def state(self, sm: int) -> Any:
        """Return the state of an SM."""
        return self._states[sm]

    def check(self, function: str, answer: int, least: int, most: int) -> int:
        """Return an answer; raise `SimulationError` unless it is allowed."""
        if not least <= answer <= most:
            raise SimulationError(
                f"policy {self._name!r}: {function} returned {answer}; must be from {least} to {most}"
            )
        return answer

    def end_cycle(self, now: int, sms: Sequence[Counters]) -> None:
        """Report the end of a period, with the counters of all SMs."""
        if self._period is None or (now + 1) % self._period:
            return
        counters = (CountersStruct * len(sms))()
        for counts, out in zip(sms, counters, strict=True):
            for name in ("warp_instructions", "thread_instructions", "hits", "pending_hits", "bypassed", "writes"):
                setattr(out, name, counts[name])
            out.misses = sum(counts[cause] for cause in ("compulsory", "capacity", "associativity"))
        self.functions.period_ended(self._states, counters, len(sms))


def _destroy(functions: Any, states: Array[c_void_p]) -> None:
    for state in states:
        if functions.destroy and state is not None:
            functions.destroy(state)


def make_plugins(policies: Sequence[Policy], gpu: GPU, sms: int, warps: int) -> list[Plugin]:
    """Return the compiled ones of `policies`, for a machine of `sms` SMs with `warps` warp slots each."""
    machine = MachineStruct(sms, warps, gpu.core.schedulers, gpu.l1.sets, gpu.l1.ways, gpu.l1.line)
    return [Plugin(policy, machine) for policy in policies if isinstance(policy, CompiledPolicy)]


class SmPlugins:
    """The compiled policies on one SM; they choose among the lines of its L1, and are told what happens there."""

    def __init__(self, number: int, l1: L1, plugins: Sequence[Plugin]) -> None:
        self._number = number
        self._l1 = l1
        self._plugins = plugins
        self._claim: Claim | None = None
        if plugins:
            l1.on_evict.append(self._on_evict)
        for plugin in plugins:
            if plugin.functions.replace:
                self._chooser = plugin
                l1.choose = self._choose

    def claim(self, line: int, warp: Warp, pc: int, *, store: bool = False, present: int | None = None) -> None:
        """Remember the access that may look for a way."""
        if present is None:
            present = IN_FLIGHT if self._l1.is_in_flight(line) else ABSENT if self._l1.is_absent(line) else VALID
        self._claim = Claim(line, pc, warp, present, store)

    def admit(self, plugin: Plugin) -> int:
        """Return the answer of ``admit`` about the load that has made the claim."""
        if not plugin.functions.admit:
            return USE
        answer = plugin.functions.admit(plugin.state(self._number), byref(self._access()))
        return plugin.check("admit", answer, USE, BYPASS)

    def on_load(self, outcome: L1Outcome, *, absent: bool) -> None:
        """Report a load that has been served: the one that has made the claim."""
        assert self._claim is not None
        line = self._claim.line
        for plugin in self._plugins:
            data = plugin.data[self._number]
            if absent and outcome == "miss":
                data[line] = 0
            if plugin.functions.loaded:
                value = c_uint64(data.get(line, 0))
                passed = None if absent and outcome == "bypassed" else byref(value)
                state = plugin.state(self._number)
                plugin.functions.loaded(state, byref(self._access()), OUTCOMES[outcome], passed)
                data[line] = value.value

    def store(self, instruction: MachineInstruction, line: int, sectors: int, full: int) -> L1Outcome | L1Failure:
        """Serve a transaction of a store, the one that has made the claim; a line that it brings has no data."""
        assert self._claim is not None
        way = self._l1.find(line)
        had_history = self._claim.present == IN_FLIGHT or (way is not None and not way.ghost)
        outcome = self._l1.store(instruction, self._claim.warp.owner, line, sectors, full)
        if not had_history and self._l1.find(line) is not None:
            for plugin in self._plugins:
                plugin.data[self._number][line] = 0
        return outcome

    def on_warp(self, warp: Warp, *, began: bool) -> None:
        """Report the begin or the end of a warp."""
        for plugin in self._plugins:
            function = plugin.functions.began if began else plugin.functions.ended
            if function:
                function(plugin.state(self._number), byref(warp_struct(warp, 0)))

    def _access(self) -> AccessStruct:
        claim = self._claim
        assert claim is not None
        owner, index = claim.warp.owner, self._l1.set_of(claim.line)
        return AccessStruct(
            claim.line, index, claim.pc, claim.warp.slot, owner.block, owner.warp, claim.present, claim.store
        )

    def _lines(self, plugin: Plugin, candidates: Sequence[Way]) -> Array[LineStruct]:
        lines = (LineStruct * len(candidates))()
        for way, line in zip(candidates, lines, strict=True):
            line.line = way.line
            line.pc = NO_LOAD if way.load is None else way.load.instruction.pc
            line.block, line.warp = way.bringer
            line.uses = way.reuses + (way.load is not None)
            line.data = plugin.data[self._number].get(way.line, 0)
        return lines

    def _choose(self, candidates: Sequence[Way]) -> Way | None:
        plugin = self._chooser
        lines = self._lines(plugin, candidates)
        function, count = plugin.functions.replace, len(candidates)
        answer = function(plugin.state(self._number), byref(self._access()), lines, c_int64(count))
        chosen = plugin.check("replace", answer, -1, count - 1)
        return None if chosen < 0 else candidates[chosen]

    def _on_evict(self, way: Way) -> None:
        candidates = self._l1.candidates(way.line)
        for plugin in self._plugins:
            if not plugin.functions.replaced:
                continue
            lines = self._lines(plugin, candidates)
            state, chosen = plugin.state(self._number), candidates.index(way)
            plugin.functions.replaced(state, byref(self._access()), lines, len(candidates), chosen)
            for line in lines:
                plugin.data[self._number][line.line] = line.data


class PluginAdmission(Admission):
    """Admission by a compiled policy."""

    def __init__(
        self, l1: L1, stalls: frozenset[L1Failure], plugin: Plugin, plugins: SmPlugins, *, allocate_on_miss: bool
    ) -> None:
        super().__init__(l1, stalls)
        self._plugin = plugin
        self._plugins = plugins
        self._allocate_on_miss = allocate_on_miss

    def _load(self, transaction: Transaction) -> L1Outcome | L1Failure:
        answer = self._plugins.admit(self._plugin)
        absent = self._l1.is_absent(transaction.line)
        if answer == BYPASS or (absent and answer == USE_PRESENT):
            return self._l1.bypass(transaction)
        if absent and self._allocate_on_miss and self._is_refused(transaction.line):
            return self._l1.bypass(transaction)
        return super()._load(transaction)

    def fill(self, line: int, sectors: int) -> list[Transaction]:
        """Let a line arrive; if the policy replaces no line for it, only the waiting transactions get the data."""
        if self._l1.may_abandon(line) and self._is_refused(line):
            return self._l1.abandon(line, sectors)
        return super().fill(line, sectors)

    def _is_refused(self, line: int) -> bool:
        """Return whether there are lines that could be replaced, and the policy chooses none."""
        return self._l1.victim_of_load(line) is None and len(self._l1.candidates(line)) > 0


class PluginThrottle(Throttle):
    """Throttling by a compiled policy."""

    def __init__(self, plugin: Plugin) -> None:
        self._plugin = plugin

    def permit(self, sm: int, warp: Warp, rank: int) -> Permit:
        """Return the permission of a warp in this cycle."""
        answer = self._plugin.functions.permit(self._plugin.state(sm), byref(warp_struct(warp, rank)))
        return PERMITS[self._plugin.check("permit", answer, 0, len(PERMITS) - 1)]


def warp_struct(warp: Warp, rank: int) -> WarpStruct:
    """Return a warp as compiled policies see it."""
    return WarpStruct(warp.slot, warp.owner.block, warp.owner.warp, warp.age, rank)
