"""Tell how many operands each instruction of PTX takes, destinations and addresses included.

A vector and a pair of predicates are one operand each. The counts follow the syntax of the PTX ISA, also for some
opcodes that the emulator does not execute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

_FIXED_COUNTS: dict[int, str] = {
    0: "ret exit trap brkpt membar griddepcontrol",
    1: "bra activemask prefetch prefetchu nanosleep pmevent setmaxnreg",
    2: "abs neg not cnot brev clz popc bfind sqrt rsqrt rcp ex2 lg2 sin cos tanh testp mov cvta isspacep ldu brx"
    " applypriority discard ldmatrix stmatrix movmatrix elect getctarank"
    " clusterlaunchcontrol",
    3: "redux mapa add addc sub subc mul mul24 div rem and or xor shl shr copysign match bmsk szext",
    4: "mad mad24 madc fma sad bfe shf prmt selp slct dp2a dp4a vabsdiff4",
    5: "bfi",
}
"""Opcodes whose number of operands does not depend on modifiers."""

_COUNTS: dict[str, tuple[int, ...]] = {
    opcode: (count,) for count, opcodes in _FIXED_COUNTS.items() for opcode in opcodes.split()
}

_Modifiers = Collection[str]
_BOOLEAN = {"and", "or", "xor"}
_POLICY = "L2::cache_hint"
"""Modifier of accesses that have a cache policy as their last operand."""

_SIGNAL = "mbarrier::complete_tx::bytes"
"""Modifier of accesses that complete bytes at an mbarrier, their last operand."""


def _load(modifiers: _Modifiers) -> tuple[int, ...]:
    return (3,) if _POLICY in modifiers else (2,)


def _store(modifiers: _Modifiers) -> tuple[int, ...]:
    return (3,) if {_POLICY, _SIGNAL, "bulk"} & {*modifiers} else (2,)


def _atomic(modifiers: _Modifiers) -> tuple[int, ...]:
    return (3 + ("cas" in modifiers) + (_POLICY in modifiers),)


def _reduction(modifiers: _Modifiers) -> tuple[int, ...]:
    return (2 + (_SIGNAL in modifiers) + (_POLICY in modifiers),)


def _comparison(modifiers: _Modifiers) -> tuple[int, ...]:
    return (4,) if _BOOLEAN & {*modifiers} else (3,)


def _conversion(modifiers: _Modifiers) -> tuple[int, ...]:
    if "pack" in modifiers:
        return 3, 4
    return (2, 3, 4) if any(modifier.endswith(("x2", "x4")) for modifier in modifiers) else (2,)


def _extremum(modifiers: _Modifiers) -> tuple[int, ...]:
    return (3, 4) if "f32" in modifiers else (3,)


def _logic(modifiers: _Modifiers) -> tuple[int, ...]:
    return (6,) if _BOOLEAN & {*modifiers} else (5,)


def _shuffle(modifiers: _Modifiers) -> tuple[int, ...]:
    return (5,) if "sync" in modifiers else (4,)


def _vote(modifiers: _Modifiers) -> tuple[int, ...]:
    return (3,) if "sync" in modifiers else (2,)


def _barrier(modifiers: _Modifiers) -> tuple[int, ...]:
    if "cluster" in modifiers:
        return (0,)
    if "warp" in modifiers:
        return (1,)
    if "red" in modifiers:
        return 3, 4
    return (2,) if "arrive" in modifiers else (1, 2)


def _product(modifiers: _Modifiers) -> tuple[int, ...]:
    return (4 + 2 * ("sp" in modifiers or "sp::ordered_metadata" in modifiers) + 4 * ("block_scale" in modifiers),)


def _group_product(modifiers: _Modifiers) -> tuple[int, ...]:
    if "mma_async" in modifiers:
        return tuple(range(4, 11))  # scales and transpositions depend on the types
    return (1,) if "wait_group" in modifiers else (0,)


def _fragment(modifiers: _Modifiers) -> tuple[int, ...]:
    return (4,) if "mma" in modifiers else (2, 3)


def _copy(modifiers: _Modifiers) -> tuple[int, ...]:
    policy = _POLICY in modifiers
    if {"commit_group", "wait_all"} & {*modifiers}:
        return (0,)
    if "wait_group" in modifiers or "mbarrier" in modifiers:
        return (1,)
    if "bulk" not in modifiers:
        return 3 + policy, 4 + policy
    if "prefetch" in modifiers:
        return 2 + policy, 3 + policy
    return tuple(range(3, 8))


_MBARRIER_COUNTS = {
    "init": (2,), "inval": (1,), "expect_tx": (2,), "complete_tx": (2,), "pending_count": (2,), "test_wait": (3, 4),
    "try_wait": (3, 4),
}  # fmt: skip


def _mbarrier(modifiers: _Modifiers) -> tuple[int, ...]:
    return next(
        (_MBARRIER_COUNTS[m] for m in modifiers if m in _MBARRIER_COUNTS and "arrive" not in modifiers), (1, 2, 3)
    )


def _tensor_map(modifiers: _Modifiers) -> tuple[int, ...]:
    return (3,) if "cp_fenceproxy" in modifiers else (2, 3)


def _policy(modifiers: _Modifiers) -> tuple[int, ...]:
    return tuple(range(1, 6))


def _multimem(modifiers: _Modifiers) -> tuple[int, ...]:
    return (2,)


def _texture(modifiers: _Modifiers) -> tuple[int, ...]:
    # A sampler, a level or two gradients, an offset and a depth to compare with may be missing.
    return tuple(range(3, 9))


def _surface(modifiers: _Modifiers) -> tuple[int, ...]:
    return (3,)


def _fence(modifiers: _Modifiers) -> tuple[int, ...]:
    return 0, 1, 2  # a fence of a tensor map names its address and, to acquire it, its size


_COUNTS_BY_MODIFIERS: dict[str, Callable[[_Modifiers], tuple[int, ...]]] = {
    "ld": _load,
    "st": _store,
    "atom": _atomic,
    "red": _reduction,
    "set": _comparison,
    "setp": _comparison,
    "cvt": _conversion,
    "min": _extremum,
    "max": _extremum,
    "lop3": _logic,
    "shfl": _shuffle,
    "vote": _vote,
    "bar": _barrier,
    "barrier": _barrier,
    "fence": _fence,
    "mma": _product,
    "wgmma": _group_product,
    "wmma": _fragment,
    "cp": _copy,
    "mbarrier": _mbarrier,
    "tensormap": _tensor_map,
    "createpolicy": _policy,
    "multimem": _multimem,
    "tcgen05": lambda modifiers: tuple(range(9)),
    **dict.fromkeys(("tex", "tld4"), _texture),
    **dict.fromkeys(("suld", "sust"), _surface),
}


def operand_counts(opcode: str, modifiers: Collection[str]) -> tuple[int, ...] | None:
    """Return the numbers of operands that an instruction may have, ascending; None for an opcode without a rule.

    A ``call`` has no rule: its operands depend on the function.
    """
    by_modifiers = _COUNTS_BY_MODIFIERS.get(opcode)
    return _COUNTS.get(opcode) if by_modifiers is None else by_modifiers(modifiers)
