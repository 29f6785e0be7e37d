"""Merge neighbouring accesses to shared memory into vectors, as the assembler does.

`ptxas` 13.5, for compute capability 7.5 to 12.0, merges words of an aligned unit of 16 or 8 bytes whose alignment it
can prove (`tracegen.ptx.lowering.alignment`): three or four loads of a unit become one load of 16 bytes, and two of its
half one of 8. Stores are merged where they fill a unit or its half. The accesses must lie in one basic block, without
predicates, and without a barrier or an access that may conflict with them in between. Accesses to global memory stay
apart, since nothing is known of the pointers in the parameters. `python -m validation.vectors` records what the
assembler does.

Words of 16 bits have units of 8 bytes: three or four loads become one of 8, and two of a half one of 4. These are words
of registers of 16 bits; a load into a wider register stays, as do accesses to bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.lowering.alignment import MOST, Alignments
from tracegen.ptx.lowering.program import type_bytes
from tracegen.ptx.syntax.ast import Address, Function, Instruction, Name, Operand, Register, Vector
from tracegen.ptx.syntax.operands import registers_in, written

_WORDS = {"b16": 2, "u16": 2, "s16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8}
"""Bytes of the words that are merged, by type."""

_MOST_WORDS = 4
"""Words of the largest unit."""

_VECTORS = {"v2": 2, "v4": 4}

_ELSEWHERE = frozenset({"global", "local", "param", "const"})
"""Spaces of accesses that cannot conflict with those to shared memory."""

_MEMORY = frozenset({"ld", "st", "atom", "red"})
"""Opcodes that accesses are not moved across, unless they access another space, or are merged themselves."""

_ORDERED = frozenset({"volatile", "acquire", "mmio"})
"""Modifiers of loads that other loads are not moved across."""

_ENDS = frozenset(
    {
        "bra", "brx", "call", "ret", "exit", "trap", "brkpt", "bar", "barrier", "mbarrier", "membar", "fence", "cp",
        "ldmatrix", "stmatrix", "wmma", "wgmma", "tcgen05", "multimem",
    }
)  # fmt: skip
"""Opcodes that accesses are not moved across."""


@dataclass(frozen=True, slots=True)
class _Access:
    """A load or store of words in shared memory: its index, and for each word its place and its operand."""

    index: int
    instruction: Instruction
    type: str
    where: Address
    items: tuple[Operand | None, ...]

    @property
    def kind(self) -> tuple[object, ...]:
        """The accesses that can be merged have this in common."""
        one, is_signed = self.instruction, self.type[0] == "s" and self.instruction.opcode == "ld"
        return one.opcode, self.where.base, _WORDS[self.type], is_signed

    @property
    def places(self) -> range:
        """The offsets of its words."""
        size = _WORDS[self.type]
        return range(self.where.offset, self.where.offset + size * len(self.items), size)


def merge_accesses(function: Function, shared: Mapping[str, int]) -> dict[int, Instruction | None]:
    """Return the accesses of a function to shared memory that become vectors, by their indices in the body.

    Each has the vector in its place, or None where it is part of another one. `shared` maps the variables in shared
    memory to the bytes to which they are aligned.
    """
    body = function.body or ()
    accesses = [_read_access(index, instruction, function.registers) for index, instruction in enumerate(body)]
    if sum(access is not None for access in accesses) < 2:
        return {}
    alignments = Alignments(function, shared)
    merged: dict[int, Instruction | None] = {}
    for group in _groups(body, accesses, frozenset(function.labels.values())):
        for vector in _vectors(group, alignments.of(group[0].where.base)):
            merged.update(dict.fromkeys((part.index for part in vector.parts), None))
            merged[vector.place.index] = vector.instruction
    return merged


def _read_access(index: int, instruction: Instruction, registers: Mapping[str, str]) -> _Access | None:
    """Return the access of an instruction, if it may be merged: no volatile one, of words in shared memory."""
    modifiers = instruction.modifiers
    if instruction.opcode not in ("ld", "st") or instruction.guard is not None:
        return None
    if len(modifiers) < 2 or len(instruction.operands) != 2:
        return None
    space, *vector, type = modifiers
    length = _VECTORS.get(vector[0], 0) if len(vector) == 1 else 1 - len(vector)
    where, value = instruction.operands if instruction.opcode == "st" else reversed(instruction.operands)
    if space.split("::")[0] != "shared" or space.endswith("cluster") or type not in _WORDS or length < 1:
        return None
    if not isinstance(where, Address) or not isinstance(where.base, Register | Name):
        return None
    items = value.items if isinstance(value, Vector) else (value,)
    if len(items) != length or length * _WORDS[type] >= MOST or any(item is None for item in items):
        return None
    names = set(written(instruction))
    if set(registers_in([where])) & names:
        return None  # a load that changes its own address
    if _WORDS[type] == 2 and (length > 1 or any(type_bytes(registers.get(name, "b32")) > 2 for name in names)):
        return None
    return _Access(index, instruction, type, where, items)


# ---- accesses between which nothing stands in the way


def _groups(
    body: Sequence[Instruction], accesses: Sequence[_Access | None], labels: frozenset[int]
) -> Iterator[list[_Access]]:
    """Yield the accesses of one kind that can be moved together: loads to the first one, stores to the last one.

    Each group is in the order of the program.
    """
    groups: dict[tuple[object, ...], list[_Access]] = {}
    mentioned: dict[str, int] = {}  # the last instruction with each register
    for index, (instruction, access) in enumerate(zip(body, accesses, strict=True)):
        if index in labels:
            yield from groups.values()
            groups = {}
        for key in [key for key, group in groups.items() if _separates(instruction, access, group)]:
            yield groups.pop(key)
        if access is not None:
            group = groups.get(access.kind, [])
            if group and instruction.opcode == "ld" and not _is_new(access, group, mentioned):
                yield groups.pop(access.kind)
            groups.setdefault(access.kind, []).append(access)
        mentioned.update(dict.fromkeys(registers_in((*instruction.operands, instruction.guard)), index))
    yield from groups.values()


def _is_new(access: _Access, group: Sequence[_Access], mentioned: Mapping[str, int]) -> bool:
    """Return whether a load can move to the first one of a group: nothing between them has its destinations."""
    return all(mentioned.get(name, -1) < group[0].index for name in written(access.instruction))


def _separates(instruction: Instruction, access: _Access | None, group: Sequence[_Access]) -> bool:
    """Return whether the accesses of a group cannot be merged with any behind an instruction."""
    first = group[0].instruction
    if access is None and first.opcode == instruction.opcode == "ld":
        conflicts = not _ORDERED.isdisjoint(instruction.modifiers)
    elif access is None:
        elsewhere = bool(_ELSEWHERE & set(instruction.modifiers))
        conflicts = instruction.opcode in _ENDS or (instruction.opcode in _MEMORY and not elsewhere)
    elif first.opcode == "ld":
        conflicts = instruction.opcode == "st"
    else:
        conflicts = not _is_apart(access, group)
    if conflicts:
        return True
    fixed = set(registers_in([group[0].where]))
    if first.opcode == "st":
        fixed.update(registers_in([item for each in group for item in each.items]))
    return not fixed.isdisjoint(written(instruction))


def _is_apart(access: _Access, group: Sequence[_Access]) -> bool:
    """Return whether an access is known to be to other words than those of a group: the base is the same."""
    if access.where.base != group[0].where.base or _WORDS[access.type] != _WORDS[group[0].type]:
        return False
    return not any(place in each.places for each in group for place in access.places)


# ---- vectors


@dataclass(frozen=True, slots=True)
class _Vector:
    """The accesses, in the order of the program, that become one access to the `words` at an offset from their base."""

    offset: int
    words: tuple[Operand | None, ...]
    parts: Sequence[_Access]

    @property
    def place(self) -> _Access:
        """The access that the vector takes the place of: the first load, or the last store."""
        return self.parts[0 if self.parts[0].instruction.opcode == "ld" else -1]

    @property
    def instruction(self) -> Instruction:
        """The access to all words."""
        one, where, value = self.place.instruction, Address(self.place.where.base, self.offset), Vector(self.words)
        operands: tuple[Operand, ...] = (value, where) if one.opcode == "ld" else (where, value)
        types = {part.type for part in self.parts}
        type = types.pop() if len(types) == 1 else f"b{8 * _WORDS[self.place.type]}"
        modifiers = (one.modifiers[0], f"v{len(self.words)}", type)
        return Instruction(one.opcode, modifiers, operands, line=one.line, source=one.source)


def _vectors(group: Sequence[_Access], alignment: int) -> Iterator[_Vector]:
    """Yield the vectors that the members of a group become. Of several accesses to one word, the first counts."""
    size = _WORDS[group[0].type]
    is_load = group[0].instruction.opcode == "ld"
    largest = min(MOST, _MOST_WORDS * size)
    for unit in (largest, largest // 2):
        if unit > alignment or unit <= size:
            continue
        units: dict[int, list[_Access]] = {}
        for access in group:
            if access.places[0] // unit == access.places[-1] // unit:
                units.setdefault(access.places[0] // unit, []).append(access)
        taken: set[int] = set()
        for number, members in units.items():
            words: dict[int, Operand | None] = {}
            used = []
            for access in members:
                places = [place % unit // size for place in access.places]
                if not any(place in words for place in places):
                    words.update(zip(places, access.items, strict=True))
                    used.append(access)
            count = unit // size
            enough = count - 1 if is_load and count > 2 else count
            if len(used) > 1 and len(words) >= enough:
                taken |= {access.index for access in used}
                yield _Vector(number * unit, tuple(words.get(place) for place in range(count)), used)
        group = [access for access in group if access.index not in taken]
