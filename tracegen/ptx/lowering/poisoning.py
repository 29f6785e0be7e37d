"""Find the steps that values which are not computed may reach, and the way from such a value to a step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tracegen.ptx.isa._code import BULK_COPIES
from tracegen.ptx.lowering.program import NO_SLOT, Step
from tracegen.ptx.lowering.slicing import READS, WRITES, is_memory_step, spaces_read, spaces_written

_MAX_LINKS = 6
"""Maximum number of instructions that a chain names."""


class PoisonFlow:
    """The slots and memory spaces that poison may reach when the steps `executed` compute values.

    `written` has the conditions of branches that poison may skip, with the slots that they decide about.

    Poison starts at steps that compute no value (POISON), and at bulk copies that change values on their way. It passes
    through registers, and through the memory spaces that poisoned values are stored to. O(steps x passes).
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
        if step.op == "MOVE_BULK":
            if _makes_poison(step) or self.spaces & spaces_read(step):
                self.spaces |= spaces_written(step)
        elif step.op in WRITES:
            if self.slots.intersection(step.src[4 if step.op == "SUST" else 1 :]):
                self.spaces |= spaces_written(step)
            if self.spaces & spaces_written(step):
                self.slots.update(step.dst)
        elif step.op in READS:
            if self.spaces & spaces_read(step):
                self.slots.update(step.dst)
        elif step.op == "POISON" or self.slots.intersection((*step.src, step.guard)):
            self.slots.update(step.dst)
        self.slots.discard(NO_SLOT)

    def _touched(self) -> set[int]:
        """Return the steps that read or write a slot or space that may be poisoned."""
        executed = set(self._executed)
        found = set()
        for index, step in enumerate(self._steps):
            accesses = is_memory_step(step) or step.op == "MOVE_BULK"
            decides = accesses or step.op in ("BRA", "BRX", "BAR", "MBAR", "COPY_BULK")
            if index not in executed and not decides:
                continue
            slots = (
                (*step.src, *step.dst, step.guard)
                if index in executed or step.op == "MOVE_BULK"
                else (*step.src[: 4 if step.op in ("TEX", "SULD", "SUST") else 1], step.guard)
            )
            reached = accesses and index in executed and self.spaces & (spaces_read(step) | spaces_written(step))
            if reached or self.slots.intersection(slots) or step.op == "POISON":
                found.add(index)
        return found

    def chain(self, slot: int | None, last: Step, describe: Callable[[Step], str], *, copied: bool = True) -> str:
        """Return the shortest way from an instruction without a value to `slot` (None: a value that `last` stores).

        `copied` tells whether a copy has poisoned elements of a tensor; otherwise, such copies come last.
        """
        wanted: list[int | str] = self._stored(last) if slot is None else [slot]
        way: list[Step] = []
        for copies in (True,) if copied else (False, True):
            if not way:
                stops = slot is None and _makes_poison(last, copies)
                way = [last] if stops else self._shortest(wanted, copies)
        if not way:
            return "a value that is not computed"
        links = [describe(step) for step in way]
        if len(links) > _MAX_LINKS:
            links[_MAX_LINKS // 2 : -_MAX_LINKS // 2] = [f"... {len(links) - _MAX_LINKS} more ..."]
        return " <- ".join(links)

    def _stored(self, step: Step) -> list[int | str]:
        """Return the places that may be poisoned of the values which a step stores."""
        slots = [s for s in step.src[1:] if s in self.slots]
        return [*slots, *sorted(self.spaces & spaces_read(step))] if step.op == "MOVE_BULK" else [*slots]

    def _shortest(self, places: Sequence[int | str], copies: bool) -> list[Step]:
        ways = [self._way(place, copies) for place in places]
        return min((way for way in ways if way), key=len, default=[])

    def _way(self, place: int | str, copies: bool) -> list[Step]:
        """Return the steps from the last writer of a slot or space to a step without a value, breadth first."""
        queue: list[tuple[int | str, list[Step]]] = [(place, [])]
        seen: set[int | str] = {place}
        for place, way in queue:
            for index in self._executed:
                step = self._steps[index]
                if not self._writes(step, place):
                    continue
                here = way if way and way[-1].origin is step.origin else [*way, step]
                if step.op == "POISON" or _makes_poison(step, copies):
                    return here
                for source in self._sources(step):
                    if source not in seen:
                        seen.add(source)
                        queue.append((source, here))
        return []

    def _writes(self, step: Step, place: int | str) -> bool:
        if isinstance(place, int):
            return place in step.dst
        return step.op in WRITES and place in spaces_written(step)

    def _sources(self, step: Step) -> list[int | str]:
        found: list[int | str] = []
        if step.op in READS:
            found += sorted(self.spaces & spaces_read(step))
        if step.op not in ("LOAD", "TEX", "SULD"):
            found += [s for s in (*step.src, step.guard) if s in self.slots]
        return found


def _makes_poison(step: Step, copies: bool = True) -> bool:
    """Return whether a step may poison memory by itself: as an update, or with `copies` as a copy with unknown parts.

    Tensors may change on their way, and other copies may ignore bytes at their ends.
    """
    if step.op != "MOVE_BULK":
        return False
    ignores = step.mode == BULK_COPIES["BULK_LOAD"] and step.src[_IGNORED] != NO_SLOT
    return step.mode in _UPDATES or (copies and (step.count > 0 or ignores))


_IGNORED = 4
"""Place of the source of a copy that tells how many bytes it ignores, if it has no tensor map."""

_UPDATES = BULK_COPIES["BULK_REDUCE"], BULK_COPIES["BULK_UPDATE"]
