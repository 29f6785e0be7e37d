"""Lower reads of textures, and loads and stores of surfaces.

A handle is the address of an array, or that of a texture reference; the launch knows the textures at handles.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracegen.ptx.isa._code import SURFACE_MODES, TEXTURE_MODES
from tracegen.ptx.lowering.program import NO_SLOT, PTX_TYPES, Constant, LoweredKernel, ParameterPart
from tracegen.ptx.lowering.slicing import READS
from tracegen.ptx.lowering.translation import Translation, UnsupportedError
from tracegen.ptx.syntax.ast import Address, Name, Operand, Register, Vector

ANY_HANDLE = "any handle"
"""Key of the axes of all textures of a kernel."""

_GEOMETRIES = {"1d": (1, False), "2d": (2, False), "3d": (3, False), "a1d": (1, True), "a2d": (2, True)}
"""Dimensions of a texture, and whether it has layers."""

_COMPONENTS = {"r": 0, "g": 1, "b": 2, "a": 3}
_VECTORS = {"v2": 2, "v4": 4}
_NO_TEXTURE = (
    "the handle is that of no texture: give an array for it (--arg NAME=float[...]), or for a texture reference "
    "(--arg symbol:NAME=float[...])"
)


def translate_sample(t: Translation) -> None:
    """Emit ``tex`` or ``tld4``: a read of a texture; levels and gradients are those of the only level."""
    target, where, *rest = t.operands
    gathers = t.instruction.opcode == "tld4"
    if not isinstance(target, Vector) or len(target.items) != 4:
        raise UnsupportedError
    result, coordinate = PTX_TYPES[t.modifiers[-2]], PTX_TYPES[t.modifiers[-1]]
    if result.width not in (16, 32) or (result.kind != "FLOAT" and result.width != 32):
        raise UnsupportedError
    dst = tuple(t.destination(item) for item in target.items)
    places = _coordinates(t, rest, t.modifiers[-1])
    t.emit(
        "TEX", dst=dst, src=(_handle(t, where), *places), kind=result.kind, width=result.width,
        from_kind=coordinate.kind, count=t.pick(_GEOMETRIES)[0], offset=int(t.pick(_GEOMETRIES)[1]),
        mode=TEXTURE_MODES["TEXTURE_GATHER" if gathers else "TEXTURE_SAMPLE"],
        target=t.pick(_COMPONENTS) if gathers else 0, reason=_reason(t), **t.guard(),
    )  # fmt: skip


def translate_surface_load(t: Translation) -> None:
    """Emit ``suld.b``: a load of bytes from a surface."""
    target, where, *rest = t.operands
    items = target.items if isinstance(target, Vector) else (target,)
    dst = tuple(NO_SLOT if item is None else t.destination(item) for item in items)
    _emit_surface(t, "SULD", where, rest, dst, ())


def translate_surface_store(t: Translation) -> None:
    """Emit ``sust.b``: a store of bytes to a surface."""
    where, *rest, source = t.operands
    items = source.items if isinstance(source, Vector) else (source,)
    _emit_surface(t, "SUST", where, rest, (), tuple(t.value(item, _surface_type(t)) for item in items))


def _surface_type(t: Translation) -> str:
    found = next((m for m in t.modifiers if m in PTX_TYPES and m != "pred"), None)
    if found is None:
        raise UnsupportedError
    return found


def _emit_surface(
    t: Translation, op: str, where: Operand, rest: Sequence[Operand], dst: tuple[int, ...], values: tuple[int, ...]
) -> None:
    if not t.has("b"):
        raise UnsupportedError  # the format of the surface would decide about the conversion
    type, count = PTX_TYPES[_surface_type(t)], t.pick(_VECTORS, 1)
    if count != max(len(dst), len(values)) or count * type.width > 128:
        raise UnsupportedError
    mode = next((m for m in ("trap", "clamp", "zero") if t.has(m)), "trap")
    places = _coordinates(t, rest, "s32")
    t.emit(
        op, dst=dst, src=(_handle(t, where), *places, *values), kind=type.kind, width=type.width, count=count,
        from_width=count * type.width // 8, from_kind="SIGNED", mode=SURFACE_MODES[f"SURFACE_{mode.upper()}"],
        offset=int(t.pick(_GEOMETRIES)[1]), target=t.pick(_GEOMETRIES)[0], reason=_reason(t), **t.guard(),
    )  # fmt: skip


def _coordinates(t: Translation, rest: Sequence[Operand], type_name: str) -> tuple[int, int, int]:
    """Return the slots of x, y and z; the layer of an array is z. A sampler may stand before the coordinates."""
    given = next((operand for operand in rest if isinstance(operand, Vector)), None)
    items = list(given.items) if given is not None else [rest[-1]]
    dimensions, layered = t.pick(_GEOMETRIES)
    if len(items) < dimensions + layered:
        raise t.malformed(f": has {len(items)} coordinates, must have {dimensions + layered}")
    layer = t.value(items.pop(0), "u32") if layered else NO_SLOT
    slots = [t.value(item, type_name) for item in items[:dimensions]]
    slots += [NO_SLOT] * (3 - len(slots))
    return slots[0], slots[1], layer if layered else slots[2]


def _handle(t: Translation, where: Operand) -> int:
    if not isinstance(where, Address) or where.offset:
        raise UnsupportedError
    if isinstance(where.base, Register):
        return t.register(where.base)
    if not isinstance(where.base, Name):
        return t.constant(0)
    if where.base.name in t.scope.parameters:
        return t.constant(ParameterPart(t.scope.parameters[where.base.name], 8, signed=False))
    return t.constant(t.place(where.base.name))


def _reason(t: Translation) -> str:
    return f"{'.'.join((t.instruction.opcode, *t.modifiers))}: {_NO_TEXTURE}"


def texture_axes(program: LoweredKernel) -> dict[Constant, frozenset[int]]:
    """Return the constants that handles come from, with the numbers of axes of their textures, layers included.

    A constant is the part of a parameter, or the address of a texture reference. Handles that are loaded from memory
    come from no constant; `ANY_HANDLE` stands for all handles. The result is empty for a kernel without textures.
    """
    writers: dict[int, list[int]] = {}
    for step in program.steps:
        if step.op not in READS:
            for slot in step.dst:
                writers.setdefault(slot, []).extend(step.src)
    found: dict[Constant, set[int]] = {}
    for step in program.steps:
        if step.op in ("TEX", "SULD", "SUST"):
            axes = (step.count if step.op == "TEX" else step.target) + step.offset
            found.setdefault(ANY_HANDLE, set()).add(axes)
            waiting, seen = [step.src[0]], set[int]()
            while waiting:
                slot = waiting.pop()
                if slot not in seen:
                    seen.add(slot)
                    waiting += writers.get(slot, ())
                    if slot >= program.variables:
                        found.setdefault(program.constants[slot - program.variables], set()).add(axes)
    return {constant: frozenset(axes) for constant, axes in found.items()}
