"""Model warps, and the schedulers that choose among them."""

from __future__ import annotations

from dataclasses import dataclass, field

from rdmodel.gpu.config import CoreSched
from rdmodel.reference.machine.instruction import MachineInstruction, Owner
from rdmodel.reference.needs import needs_load
from rdmodel.trace import Op


@dataclass(slots=True, eq=False)
class Warp:
    """A warp of the reference machine, in warp slot `slot`.

    Instruction `position` of its program, `next_instruction`, is next, after `gap_left` non-memory instructions; it is
    None where the program has ended. `age` is the number of warps that began before it on the SM.
    `memory_instructions` counts the memory instructions issued, and so numbers them. `loads` maps the number of each
    incomplete load to the transactions that have not returned. `queued` instructions have transactions that have not
    been served. The latency of its last non-memory instruction is over in cycle `rests_until`.
    """

    slot: int
    age: int
    owner: Owner
    program: list[MachineInstruction]
    position: int = 0
    next_instruction: MachineInstruction | None = field(init=False, default=None)
    gap_left: int = field(init=False, default=0)
    memory_instructions: int = 0
    loads: dict[int, int] = field(default_factory=dict)
    queued: int = 0
    at_barrier: bool = False
    rests_until: int = 0

    def __post_init__(self) -> None:
        self.go_to(0)

    def go_to(self, at: int) -> None:
        """Make instruction `at` the next one."""
        self.position = at
        self.next_instruction = self.program[at] if at < len(self.program) else None
        self.gap_left = self.program[at].gap if at < len(self.program) else 0

    def receive(self, load: int) -> None:
        """Count the return of one transaction of a load."""
        self.loads[load] -= 1
        if not self.loads[load]:
            del self.loads[load]

    @property
    def finished(self) -> bool:
        """Whether the warp has nothing left to issue, to access or to wait for."""
        return self.next_instruction is None and not self.queued and not self.loads and not self.at_barrier

    @property
    def awaits_data(self) -> bool:
        """Whether the warp can do nothing before data of its loads come."""
        if self.gap_left:
            return False
        instruction = self.next_instruction
        return bool(self.loads) if instruction is None else not self._needs_complete(instruction)

    def awaits_memory(self, now: int) -> bool:
        """Return whether the warp awaits data, or holds an access that could enter the load/store unit now."""
        instruction = self.next_instruction
        rests = bool(self.gap_left) or now < self.rests_until
        return self.awaits_data or (instruction is not None and bool(instruction.lines) and not rests)

    @property
    def loads_next(self) -> bool:
        """Whether the warp issues a load with transactions when it issues next."""
        instruction = self.next_instruction
        return not self.gap_left and instruction is not None and bool(instruction.lines) and instruction.op == Op.LOAD

    def can_issue(self, now: int, *, room: bool) -> bool:
        """Return whether the warp could issue in cycle `now` if it may load.

        `room` says whether the load/store queue has room.
        """
        instruction = self.next_instruction
        if instruction is None or self.at_barrier or now < self.rests_until:
            return False
        if self.gap_left:
            return True
        return (room or not instruction.lines) and self._needs_complete(instruction)

    def _needs_complete(self, instruction: MachineInstruction) -> bool:
        return not any(needs_load(instruction.needs, self.memory_instructions - load) for load in self.loads)


class Scheduler:
    """One of the `schedulers` of an SM, which chooses among its own warps.

    Its `slots` warp slots are every `schedulers`-th slot of the SM. Two-level scheduling divides them, in ascending
    order, into groups of `fetch_group`. The last issuer was in `last_slot`; -1: there is none.
    """

    def __init__(self, policy: CoreSched, schedulers: int, slots: int, fetch_group: int) -> None:
        self._policy = policy
        self._schedulers = schedulers
        self._fetch_group = fetch_group
        self._groups = -(-slots // fetch_group)
        self._group = 0
        self.last_slot = -1
        self._last_age = -1

    def choose(self, issuable: list[Warp]) -> Warp:
        """Choose one of `issuable`, which is not empty, and remember it as the last issuer."""
        if self._policy == "lrr":
            chosen = round_robin(issuable, self.last_slot)
        elif self._policy == "two-level":
            chosen = self._two_level(issuable)
        else:
            again = [warp for warp in issuable if (warp.slot, warp.age) == (self.last_slot, self._last_age)]
            first = max if self._policy == "gty" else min
            chosen = again[0] if again and self._policy != "old" else first(issuable, key=lambda warp: warp.age)
        return self.remember(chosen)

    def remember(self, warp: Warp) -> Warp:
        """Make a warp the last issuer, and return it."""
        self.last_slot, self._last_age = warp.slot, warp.age
        return warp

    def _two_level(self, issuable: list[Warp]) -> Warp:
        ahead = min((self._group_of(warp.slot) - self._group) % self._groups for warp in issuable)
        self._group = (self._group + ahead) % self._groups
        members = [warp for warp in issuable if self._group_of(warp.slot) == self._group]
        last_is_member = self.last_slot >= 0 and self._group_of(self.last_slot) == self._group
        return round_robin(members, self.last_slot if last_is_member else -1)

    def _group_of(self, slot: int) -> int:
        return slot // self._schedulers // self._fetch_group


def round_robin(warps: list[Warp], last_slot: int) -> Warp:
    """Return the warp in the first slot after `last_slot`, cyclically."""
    return min(warps, key=lambda warp: (warp.slot <= last_slot, warp.slot))
