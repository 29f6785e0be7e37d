"""Find the steps that values which are not computed may reach, and the way from such a value to a step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tracegen.ptx.lowering.program import NO_SLOT, Step
from tracegen.ptx.lowering.slicing import READS, WRITES, is_memory_step, spaces_of, spaces_written_by_copy

_MAX_LINKS = 6
"""Maximum number of instructions that a chain names."""


class PoisonFlow:
    """The slots and memory spaces that poison may reach when the steps `executed` compute values.

    `written` has the conditions of branches that poison may skip, with the slots that they decide about.

    Poison starts at steps that compute no value (POISON) and at bulk copies. It passes through registers, and through
    the memory spaces that poisoned values are stored to. O(steps x passes).
    """

    def __init__(
        self, steps: Sequence[Step], executed: Collection[int], written: Collection[tuple[int, Collection[int]]] = ()
    ) -> None:
        self._steps = steps
        self._written = written
        self._executed = sorted(executed)
        self.slots: set[int] = set()
        self.spaces: set[str] = set()
        size = -1
        while size != len(self.slots) + len(self.spaces):
            size = len(self.slots) + len(self.spaces)
            for index in self._executed:
                self._pass(steps[index])
            for guard, slots in written:
                self.slots.update(slots if guard in self.slots else ())
        self.steps = self._touched() if self.slots or self.spaces else set()

    def _pass(self, step: Step) -> None:
        if step.op == "COPY_BULK":
            self.spaces |= spaces_written_by_copy(step)
        elif step.op in WRITES:
            if self.slots.intersection(step.src[4 if step.op == "SUST" else 1 :]):
                self.spaces |= spaces_of(step)
            if self.spaces & spaces_of(step):
                self.slots.update(step.dst)
        elif step.op in READS:
            if self.spaces & spaces_of(step):
                self.slots.update(step.dst)
        elif step.op == "POISON" or self.slots.intersection((*step.src, step.guard)):
            self.slots.update(step.dst)
        self.slots.discard(NO_SLOT)

    def _touched(self) -> set[int]:
        """Return the steps that read or write a slot or space that may be poisoned."""
        executed = set(self._executed)
        found = set()
        for index, step in enumerate(self._steps):
            decides = is_memory_step(step) or step.op in ("BRA", "BRX", "BAR", "MBAR", "COPY_BULK")
            if index not in executed and not decides:
                continue
            slots = (
                (*step.src, *step.dst, step.guard)
                if index in executed
                else (*step.src[: 4 if step.op in ("TEX", "SULD", "SUST") else 1], step.guard)
            )
            reached = is_memory_step(step) and index in executed and self.spaces & spaces_of(step)
            if reached or self.slots.intersection(slots) or step.op in ("POISON", "COPY_BULK"):
                found.add(index)
        return found

    def chain(self, slot: int | None, last: Step, describe: Callable[[Step], str]) -> str:
        """Return the shortest way from an instruction without a value to `slot` (None: a value that `last` stores)."""
        wanted = [s for s in last.src[1:] if s in self.slots] if slot is None else [slot]
        ways: list[list[Step]] = [self._way(s) for s in wanted]
        way = min((w for w in ways if w), key=len, default=[])
        if not way:
            return "a value that is not computed"
        links = [describe(step) for step in way]
        if len(links) > _MAX_LINKS:
            links[_MAX_LINKS // 2 : -_MAX_LINKS // 2] = [f"... {len(links) - _MAX_LINKS} more ..."]
        return " <- ".join(links)

    def _way(self, slot: int) -> list[Step]:
        """Return the steps from the last writer of `slot` to a step without a value, breadth first."""
        queue: list[tuple[int | str, list[Step]]] = [(slot, [])]
        seen: set[int | str] = {slot}
        for place, way in queue:
            for index in self._executed:
                step = self._steps[index]
                if not self._writes(step, place):
                    continue
                here = way if way and way[-1].origin is step.origin else [*way, step]
                if step.op in ("POISON", "COPY_BULK"):
                    return here
                for source in self._sources(step):
                    if source not in seen:
                        seen.add(source)
                        queue.append((source, here))
        return []

    def _writes(self, step: Step, place: int | str) -> bool:
        if isinstance(place, int):
            return place in step.dst
        if step.op == "COPY_BULK":
            return place in spaces_written_by_copy(step)
        return step.op in WRITES and place in spaces_of(step)

    def _sources(self, step: Step) -> list[int | str]:
        found: list[int | str] = []
        if step.op in READS:
            found += sorted(self.spaces & spaces_of(step))
        if step.op not in ("LOAD", "TEX", "SULD"):
            found += [s for s in (*step.src, step.guard) if s in self.slots]
        return found
