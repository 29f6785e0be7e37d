"""Find the arrays that each access may address, so that a load needs the stores to its own array only.

An address is the sum of a pointer and an offset: it stays within the array that its pointer, an argument of the launch
or the address of a variable, points to. A pointer that was loaded from memory may point anywhere; so may one that was
put together from parts that were loaded, and an address without any known pointer. But a number from memory that holds
no addresses is an index: neither does the array contain any at launch, nor does the kernel store any there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from tracegen.ptx.lowering.program import NO_SLOT, LoweredKernel, Step
from tracegen.ptx.lowering.slicing import (
    ANYWHERE,
    PARAMETER,
    PRIVATE,
    READS,
    REGISTER_SPACES,
    WRITES,
    spaces_moved,
    spaces_read,
    spaces_written,
)
from tracegen.ptx.lowering.tensor_maps import replaced_addresses

_PARTS = 32
"""Bits of half a pointer."""

_WHOLE = 64
"""Bits of a pointer."""


class _Loaded(NamedTuple):
    """Mark of a number from a place in memory: an array, or a space other than global memory.

    `whole` tells whether it has the size of a pointer; a smaller one may be a part of a pointer.
    """

    place: str
    whole: bool


_Mark = str | _Loaded
"""A possible content of a slot: an address in an array, by its name; an address `ANYWHERE`; or a number from memory."""

_HOLDERS = frozenset({ANYWHERE, "CONST"})
"""Places in memory whose contents may be addresses in any case."""


def global_targets(
    program: LoweredKernel,
    constants: Mapping[int, str],
    mapped: Mapping[str, str],
    holds_addresses: Callable[[str], bool] = lambda array: True,
) -> Callable[[Step], frozenset[str]]:
    """Return the function that tells the arrays which a step may access in global memory.

    `constants` has the array at the address that a constant slot holds, and `mapped` the one that a tensor map
    describes, by the name of the map. `holds_addresses` tells whether an array contains a number at launch that may be
    an address. The function returns names of arrays, or `ANYWHERE` alone.
    """
    small = {
        slot
        for slot, value in enumerate(program.constants, program.variables)
        if isinstance(value, int) and value < _PARTS
    }
    return _PointerFlow(program.steps, constants, mapped, small, holds_addresses).targets


def _arrays(marks: Iterable[_Mark]) -> frozenset[str]:
    """Return the arrays that an address may lie in."""
    found = frozenset(mark for mark in marks if isinstance(mark, str))
    return frozenset({ANYWHERE}) if not found or ANYWHERE in found else found


class _PointerFlow:
    """The marks of all slots, passed on to the slots that are computed from them, and through memory.

    Places that may hold addresses follow from the marks and in turn add to them, until both stop growing.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        constants: Mapping[int, str],
        mapped: Mapping[str, str],
        small: Collection[int],
        holds_addresses: Callable[[str], bool],
    ) -> None:
        self._steps, self._constants, self._mapped, self._small = steps, constants, mapped, small
        self._holds_addresses = holds_addresses
        self._marks: dict[int, set[_Mark]] = {}
        self._replaced = replaced_addresses(steps)
        self._holders: set[str] = set(_HOLDERS)
        self._readers: dict[int, list[Step]] = {}
        for step in steps:
            if step.op in READS:
                self._readers.setdefault(step.src[0], []).append(step)
            elif step.op not in WRITES:
                for slot in step.src:
                    self._readers.setdefault(slot, []).append(step)
        while True:
            self._follow()
            found = self._find_holders()
            if found <= self._holders:
                break
            self._holders |= found

    def targets(self, step: Step) -> frozenset[str]:
        """Return the arrays that a step may access in global memory, or `ANYWHERE` alone."""
        found = _arrays(self._marks.get(step.src[0], ()))
        if step.op != "MOVE_BULK" or not step.count:
            return found
        described = {name for array in found for name in self._described(array)}  # the address is that of a tensor map
        return frozenset({ANYWHERE} if ANYWHERE in described else described)

    def _described(self, array: str) -> Iterable[str]:
        """Return the arrays that a tensor map in an array may describe."""
        if not array.startswith(PRIVATE) or not self._replaced:
            return {self._mapped.get(array, ANYWHERE)}
        # The host does not fill what is private to a block, so the kernel has made the map, perhaps from a given one.
        return {*self._mapped.values(), *(n for slot in self._replaced for n in _arrays(self._marks.get(slot, ())))}

    # ---- slots

    def _follow(self) -> None:
        """Find the marks of slots, as far as they follow from the places that are known to hold addresses."""
        self._marks = {slot: {name} for slot, name in self._constants.items()}
        waiting = list(self._marks)
        loads = [step for step in self._steps if step.op in READS]
        for step in loads:
            if "GLOBAL" not in spaces_read(step):
                self._pass(step, self._loaded(step), waiting)
        self._spread(waiting)
        for step in loads:
            if not self._has_pointer(step):
                self._pass(step, self._loaded(step), waiting)
        self._spread(waiting)

    def _has_pointer(self, step: Step) -> bool:
        return any(isinstance(mark, str) for mark in self._marks.get(step.src[0], ()))

    def _spread(self, waiting: list[int]) -> None:
        while waiting:
            slot = waiting.pop()
            for step in self._readers.get(slot, ()):
                passed = self._marks[slot]
                if step.op in READS:
                    passed = self._loaded(step) if self._has_pointer(step) else set()
                elif _joins_parts(step, self._small) and any(not isinstance(m, str) and not m.whole for m in passed):
                    passed = {*passed, ANYWHERE}
                self._pass(step, passed, waiting)

    def _pass(self, step: Step, passed: set[_Mark], waiting: list[int]) -> None:
        for slot in step.dst:
            known = self._marks.setdefault(slot, set())
            if slot != NO_SLOT and not passed <= known:
                known |= passed
                waiting.append(slot)

    def _loaded(self, step: Step) -> set[_Mark]:
        """Return the marks of the number that a step loads."""
        whole = step.width >= _WHOLE
        return {
            ANYWHERE if place == "CONST" or (whole and place in self._holders) else _Loaded(place, whole)
            for place in self._places(step, spaces_read(step))
        }

    # ---- memory

    def _find_holders(self) -> set[str]:
        """Return the places that may hold addresses, of those whose contents matter for an address."""
        stored = self._stored_marks()
        needed = self._used_places()
        sources: dict[str, set[str]] = {}
        for place in needed:  # grows meanwhile
            for mark in {*stored.get(place, ()), *stored.get(ANYWHERE, ())}:
                sources.setdefault(place, set()).add(ANYWHERE if isinstance(mark, str) else mark.place)
                if not isinstance(mark, str) and mark.place not in needed:
                    needed.append(mark.place)
        holders = {*self._holders, *(place for place in needed if self._has_at_launch(place))}
        size = -1
        while size != len(holders):
            size = len(holders)
            holders |= {place for place, origins in sources.items() if not origins.isdisjoint(holders)}
        return holders

    def _has_at_launch(self, place: str) -> bool:
        if place in self._holders:
            return True
        if place in {"SHARED", "LOCAL", *REGISTER_SPACES}:
            return False  # nothing is in there when a block begins
        return place.startswith(PARAMETER) or self._holds_addresses(place)

    def _used_places(self) -> list[str]:
        """Return the places of which a number is used in the address of an access to global memory."""
        used: set[str] = set()
        for step in self._steps:
            if step.op in READS or step.op in WRITES or step.op == "COPY_BULK":
                spaces = spaces_read(step) | (spaces_written(step) if step.op in WRITES else frozenset())
                marks = self._marks.get(step.src[0], ()) if "GLOBAL" in spaces else ()
                used |= {mark.place for mark in marks if not isinstance(mark, str) and mark.whole}
        return sorted(used)

    def _stored_marks(self) -> dict[str, set[_Mark]]:
        """Return the marks of what the kernel stores in each place, without tensor maps, which copies alone read."""
        stored: dict[str, set[_Mark]] = {}
        for step in self._steps:
            if step.op not in WRITES or step.origin.opcode == "tensormap":
                continue
            if step.op == "MOVE_BULK":
                found: set[_Mark] = {_Loaded(place, True) for place in self._places(step, spaces_moved(step))}
            else:
                found = {mark for slot in step.src[1:] for mark in self._marks.get(slot, ())}
            for place in self._places(step, spaces_written(step)) if found else ():
                stored.setdefault(place, set()).update(found)
        return stored

    def _places(self, step: Step, spaces: frozenset[str]) -> set[str]:
        """Return the places that an access may reach in some of its spaces: names of arrays, and other spaces.

        What a generic pointer to an array reaches is this array, and what an unknown one reaches may be anything.
        """
        if step.space == "GENERIC" and step.op != "MOVE_BULK":
            return {*self.targets(step)}
        return {*spaces - {"GLOBAL"}, *(self.targets(step) if "GLOBAL" in spaces else ())}


def _joins_parts(step: Step, small: Collection[int]) -> bool:
    """Return whether a step moves a number to the upper half of a pointer."""
    return step.width >= _WHOLE and (step.op == "BFI" or (step.op == "SHL" and step.src[1] not in small))
