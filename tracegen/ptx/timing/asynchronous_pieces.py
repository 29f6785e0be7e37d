"""Find what the straight pieces of a kernel start asynchronously, and wait for: matrix products, copies, mbarriers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from rdmodel.common.late_dataclass import dataclass
from tracegen.ptx.isa._code import MBARRIERS
from tracegen.ptx.lowering.constants import constant_slots
from tracegen.ptx.lowering.machine_code import machine_code
from tracegen.ptx.lowering.program import LoweredKernel, Step
from tracegen.ptx.syntax.ast import Integer
from tracegen.ptx.timing.chains import piece_bounds, straight_pieces
from tracegen.ptx.timing.links import ACCESS, Product
from tracegen.ptx.timing.pieces import Piece, Warp
from tracegen.ptx.timing.units import SubCore, unit_name

PRODUCT, COMMIT_PRODUCTS, WAIT_PRODUCTS, COPY, COMMIT_COPIES, WAIT_COPIES, COMMIT_STORES, WAIT_STORES = range(8)
"""Kinds of `Action`."""

TESTS = (MBARRIERS["MBAR_TEST"], MBARRIERS["MBAR_TEST_PARITY"])
"""Modes of the steps that wait for an mbarrier."""


@dataclass(frozen=True, slots=True)
class Action:
    """An asynchronous operation of a step of the instruction `pc`, or a wait that leaves `left` groups under way."""

    step: int
    pc: int
    kind: int
    product: Product | None = None
    left: int = 0


@dataclass(frozen=True, slots=True)
class AsynchronousPiece:
    """A straight piece without its asynchronous products, and its `actions` in the order of the steps.

    `products` are those of ``tcgen05`` by step, which all sub-cores compute together.
    """

    piece: Piece
    actions: Sequence[Action]
    products: Mapping[int, Product]


@dataclass(frozen=True, slots=True)
class TimedPiece:
    """A piece as a warp passes it that is alone on its sub-core.

    It takes `cycles`, and occupies units for the cycles of `busy`, by their names. `starts` are the cycles from its
    begin until a step and all steps before it have started: nothing passes asynchronous operations and arrivals.
    """

    cycles: float
    busy: Mapping[str, float]
    starts: Mapping[int, float]


def is_asynchronous(steps: Sequence[Step]) -> bool:
    """Return whether a kernel waits for mbarriers: then its warps have a timeline."""
    return any(step.op == "MBAR" and step.mode in TESTS for step in steps)


def mark_events(kernel: LoweredKernel) -> None:
    """Set the flags of the steps that the emulator notes: those that begin pieces, and those that act on barriers."""
    steps = kernel.steps
    for step in steps:
        step.flags -= {"PIECE", "NOTED"}
    if not is_asynchronous(steps):
        return
    for _, _, counted in piece_bounds(kernel, _cuts(steps)):
        if counted >= 0:
            steps[counted].flags.add("PIECE")
    for step in steps:
        if step.op in ("MBAR", "COPY_BULK", "BAR") or _is_tensor_product(step):
            step.flags.add("NOTED")


def asynchronous_pieces(kernel: LoweredKernel, live: Mapping[int, int]) -> list[AsynchronousPiece]:
    """Return the pieces of a kernel, which end behind waits; `live` is that of `straight_pieces`."""
    steps, numbers = kernel.steps, constant_slots(kernel)
    cuts = _cuts(steps)
    bounds, pieces = piece_bounds(kernel, cuts), straight_pieces(kernel, live, cuts)
    found = []
    for (first, end, _), piece in zip(bounds, pieces, strict=True):
        own = {step: link.product for step, link in zip(piece.steps, piece.links, strict=True)}
        actions = [action for at in range(first, end) if (action := _action(steps[at], at, own.get(at))) is not None]
        links = [
            replace(link, product=None, latency="", dst=(), classes={})
            if link.product is not None and link.product.asynchronous
            else link
            for link in piece.links
        ]
        products = {
            at: _tensor_product(steps[at], numbers) for at in range(first, end) if _is_tensor_product(steps[at])
        }
        found.append(AsynchronousPiece(replace(piece, links=links), actions, products))
    return found


def time_piece(own: AsynchronousPiece, latencies: Mapping[str, float], registers: int) -> TimedPiece:
    """Return the times of a piece."""
    piece = own.piece
    core = SubCore(latencies) if piece.has_products else None
    starts = Warp(latencies, piece.registers_for_loads(registers), core).execute(piece)
    busy: dict[str, float] = {"issue": float(piece.accesses + sum(piece.classes.values()))}
    for link in piece.links:
        for name, count in link.classes.items():
            if name not in (ACCESS, "matrix"):
                unit = unit_name(name, latencies)
                busy[unit] = busy.get(unit, 0.0) + count * latencies.get(f"{name}_busy", 1.0)
        if link.product is not None:
            busy["matrix"] = busy.get("matrix", 0.0) + product_cycles(link.product, latencies)
    cycles = piece.longest_chain(latencies, registers)
    in_order = accumulate(starts, max)
    return TimedPiece(
        cycles, busy, {step: min(cycles, start) for step, start in zip(piece.steps, in_order, strict=True)}
    )


def product_cycles(product: Product, latencies: Mapping[str, float]) -> float:
    """Return the cycles for which a product occupies the tensor core of one sub-core."""
    return product.flops * latencies[f"matrix_{product.type}_busy"] if product.flops else 0.0


def _cuts(steps: Sequence[Step]) -> Collection[int]:
    """Return the steps behind waits for groups, where pieces begin; mbarriers and barriers end pieces anyway."""
    return {
        at
        for at, (step, following) in enumerate(pairwise(steps), start=1)
        if step.op == "WAIT" and "wait" in _group_action(step) and following.pc != step.pc
    }


def _group_action(step: Step) -> str:
    """Return ``commit_group``, ``wait_group`` or ``wait_all`` of an instruction about groups, or ""."""
    return next((m for m in step.origin.modifiers if m in ("commit_group", "wait_group", "wait_all")), "")


def _action(step: Step, at: int, product: Product | None) -> Action | None:
    opcode, action = step.origin.opcode, _group_action(step)
    if opcode == "wgmma":
        if action:
            kind = WAIT_PRODUCTS if action == "wait_group" else COMMIT_PRODUCTS
            return Action(at, step.pc, kind, left=_operand(step))
        return Action(at, step.pc, PRODUCT, product) if product is not None else None
    if opcode == "cp" and "bulk" in step.origin.modifiers:
        kind = WAIT_STORES if action == "wait_group" else COMMIT_STORES
        return Action(at, step.pc, kind, left=_operand(step)) if action else None
    if opcode == "cp" and "COUNTED" in step.flags:
        if action:
            kind = COMMIT_COPIES if action == "commit_group" else WAIT_COPIES
            return Action(at, step.pc, kind, left=_operand(step))
        return Action(at, step.pc, COPY) if "mbarrier" not in step.origin.modifiers else None
    return None


def _operand(step: Step) -> int:
    operands = step.origin.operands
    return operands[0].value if operands and isinstance(operands[0], Integer) else 0


def _is_tensor_product(step: Step) -> bool:
    return step.op == "POISON" and step.origin.opcode == "tcgen05" and step.origin.modifiers[0] == "mma"


def _tensor_product(step: Step, numbers: Mapping[int, int]) -> Product:
    """Return a product of ``tcgen05``; without operations, if its shape is not a constant."""
    code = machine_code(step.origin, numbers.get(step.src[0]))
    return Product(code.matrix_type, code.matrix_flops, True)
