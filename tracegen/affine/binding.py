"""Bind a `KernelForm` to the values of its parameters: check it, and build its launch and `Nest`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError, LaunchError, TraceError, unknown
from rdmodel.trace import Launch, Space
from rdmodel.trace.cache_ops import parse_cache_op
from tracegen.affine.affine_form import Affine, Bound, Extreme, leaves, map_affine
from tracegen.affine.bounds import ProofBudget, find_violation, stays_inside
from tracegen.affine.expression import (
    MAX_NUMBER,
    evaluate_affine,
    evaluate_bound,
    evaluate_condition,
    evaluate_constant,
)
from tracegen.affine.nest import (
    BLOCK_DIMENSIONS,
    THREAD_DIMENSIONS,
    Nest,
    NestAccess,
    NestBarrier,
    NestCompute,
    NestGap,
    NestGuard,
    NestLoop,
    NestNode,
    NestShared,
    NestWait,
)
from tracegen.affine.statements import (
    BLOCK_ID_NAMES,
    BLOCK_SIZE_NAMES,
    GLOBAL_ID_NAMES,
    SHARED,
    THREAD_ID_NAMES,
    Access,
    Barrier,
    Compute,
    Gap,
    Guard,
    KernelForm,
    Loop,
    Statement,
    is_whole,
    within,
)
from tracegen.arrays import BASE, Array, Buffer, allocate, array_infos, shared_bytes
from tracegen.limits import MAX_BLOCK_THREADS
from tracegen.simt.kernel_trace import shape
from tracegen.simt.work import declared_arithmetic
from tracegen.unrolling import NEVER

MAX_ITERATIONS = 1 << 32
"""Maximum number of iterations of a loop nest for one thread; more could not be modelled in a day."""

MAX_UNROLLED_ITERATIONS = 1 << 18
"""Maximum number of iterations of the loops around an innermost loop, which are written out."""

MAX_FORM_VALUE = 1 << 62
"""Limit of every index, bound and condition over all threads, so that sums fit in 64 bits."""

Scope = Mapping[str, Affine]
"""Affine forms by the names that stand for them in expressions."""


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A kernel with values for its parameters: the launch, and the nest over numbered dimensions."""

    launch: Launch
    nest: Nest
    values: Mapping[str, int]


def bind_kernel(
    kernel: KernelForm, given: Mapping[str, Any], *, block: Sequence[int] | None = None, base: int | None = None
) -> Binding:
    """Bind a kernel to `given` values of parameters (the others keep the kernel's own), and check its subscripts.

    Raises `ConfigError` for an invalid parameter, `LaunchError` for an invalid launch, and `TraceError`, with the place
    in the kernel, for other mistakes.
    """
    values = parameter_values(kernel, given)
    try:
        _check_requires(kernel, values)
        launch = _launch(kernel, values, block)
        arrays = allocate(_declared(kernel, values), base=BASE if base is None else base, threads=launch.threads)
        nest = _Binder(launch, arrays, values).nest(kernel.body)
        if not launch.shared_memory:
            launch = replace(launch, shared_memory=shared_bytes(arrays))
    except (ConfigError, LaunchError, TraceError) as error:
        raise type(error)(f"{kernel.name}: {error}") from None
    return Binding(replace(launch, arrays=array_infos(arrays)), nest, values)


def parameter_values(kernel: KernelForm, given: Mapping[str, Any]) -> dict[str, int]:
    """Return the values of all parameters; raise `ConfigError` for an unknown one and for an invalid value."""
    given = {name: int(value) if isinstance(value, np.integer) else value for name, value in given.items()}
    for name, value in given.items():
        if name not in kernel.parameters:
            raise ConfigError(unknown(f"parameter of {kernel.name}", name, kernel.parameters))
        if not is_whole(value) or abs(value) > MAX_NUMBER:
            raise ConfigError(f"{kernel.name}: {name}={value!s:.60}: must be a whole number of at most 2^63 - 1")
    return {**kernel.parameters, **given}


def _check_requires(kernel: KernelForm, values: Mapping[str, int]) -> None:
    """Raise `ConfigError`, with the values, if a condition on parameters does not hold."""
    scope = {name: Affine(value) for name, value in values.items()}
    for text in kernel.requires:
        with within("requires"):
            holds = all(form.constant >= 0 for form in evaluate_condition(text, scope))
        if not holds:
            named = [f"{name}={value}" for name, value in values.items() if re.search(rf"\b{name}\b", text)]
            raise ConfigError(f"{', '.join(named)}: must be {text}" if named else f"requires {text}")


# ---- the launch and the arrays


def _launch(kernel: KernelForm, values: Mapping[str, int], block: Sequence[int] | None) -> Launch:
    scope = {name: Affine(value) for name, value in values.items()}
    threads = shape("block", _sizes("block", kernel.block, scope) if block is None else block, limit=MAX_BLOCK_THREADS)
    scope |= {name: Affine(size) for name, size in zip(BLOCK_SIZE_NAMES, threads, strict=True)}
    if kernel.grid is not None:
        grid = shape("grid", _sizes("grid", kernel.grid, scope))
    else:
        assert kernel.threads is not None
        covered = shape("threads", _sizes("threads", kernel.threads, scope))
        x, y, z = (-(-n // size) for n, size in zip(covered, threads, strict=True))
        grid = shape("grid", (x, y, z))
    (registers,) = _sizes("registers", [kernel.registers], scope)
    (shared_memory,) = _sizes("shared_memory", [kernel.shared_memory], scope)
    return Launch(kernel=kernel.name, grid=grid, block=threads, registers=registers, shared_memory=shared_memory)


def _sizes(name: str, expressions: Sequence[Any], scope: Scope) -> list[int]:
    with within(name):
        return [evaluate_constant(expression, scope) for expression in expressions]


def _declared(kernel: KernelForm, values: Mapping[str, int]) -> dict[str, Buffer]:
    scope = {name: Affine(value) for name, value in values.items()}
    declared = {}
    for name, array in kernel.arrays.items():
        extents, shared = tuple(_sizes(f"array {name}", array.shape, scope)), array.space == SHARED
        space = Space.GLOBAL if shared else Space[array.space.upper()]
        declared[name] = Buffer(extents, array.type, space, shared)
    return declared


# ---- the body


class _Binder:
    """Turns statements into nodes.

    `_path` are the loops and guards around the current statement, `_conditions` the forms that are at least 0 there.
    """

    def __init__(self, launch: Launch, arrays: Mapping[str, Array], values: Mapping[str, int]) -> None:
        self._launch, self._arrays = launch, arrays
        self._box = [(0, size - 1) for size in (*launch.grid, *launch.block)]
        self._opaque: dict[int, frozenset[int]] = {}
        self._path: list[NestLoop | tuple[Affine, ...]] = []
        self._conditions: list[Affine] = []
        self._instructions = 0
        self._budget = ProofBudget()
        self._scope = {name: Affine(value) for name, value in values.items()} | _ids(launch)

    def nest(self, body: Sequence[Statement]) -> Nest:
        nodes = self._bind_body(body, "body", self._scope, reached=True)
        return Nest(nodes, self._box, self._opaque, self._instructions)

    def _bind_body(self, body: Sequence[Statement], where: str, scope: Scope, *, reached: bool) -> list[NestNode]:
        nodes: list[NestNode] = []
        for i, statement in enumerate(body):
            at = f"{where}[{i}]"
            match statement:
                case Guard():
                    nodes += self._bind_guard(statement, at, scope, reached)
                case Loop():
                    nodes += self._bind_loop(statement, at, scope, reached)
                case Access():
                    access = self._bind_access(statement, at, scope, reached)
                    nodes.append(NestShared(access) if access.array.shared else access)
                case Barrier():
                    nodes.append(NestBarrier(self._next_pc()))
                case Gap():
                    nodes.append(NestGap(statement.instructions))
                case Compute():
                    given = statement.flops, statement.ints, statement.special, statement.type
                    nodes.append(NestCompute(*declared_arithmetic(*given)))
                case _:
                    nodes.append(NestWait())
        return nodes

    def _next_pc(self) -> int:
        self._instructions += 1
        return self._instructions - 1

    def _bind_guard(self, guard: Guard, where: str, scope: Scope, reached: bool) -> list[NestNode]:
        forms: list[Affine] = []
        for i, text in enumerate(guard.conditions):
            with within(f"{where}: if {i}"):
                forms += map(self._check_range, evaluate_condition(text, scope))
        reached = reached and all(form.most(self._box) >= 0 for form in forms)
        undecided = tuple(form for form in forms if form.least(self._box) < 0)
        outer = len(self._conditions)
        self._conditions += undecided
        self._path.append(undecided)
        body = self._bind_body(guard.body, f"{where}.do", scope, reached=reached)
        self._path.pop()
        del self._conditions[outer:]
        if not undecided:
            return body
        return [NestGuard(undecided, body)] if reached else []

    def _bind_loop(self, loop: Loop, where: str, scope: Scope, reached: bool) -> list[NestNode]:
        node, first, step = self._loop_bounds(loop, f"{where}: for {loop.variable}", scope)
        outer = len(self._conditions)
        self._conditions += self._loop_conditions(node)
        self._path.append(node)
        variable = first + Affine.of(0, {node.dimension: step})
        reached = reached and node.most > 0
        if reached:
            with within(node.where):
                self._check_iterations()
        node.body = self._bind_body(loop.body, f"{where}.do", {**scope, loop.variable: variable}, reached=reached)
        self._path.pop()
        del self._conditions[outer:]
        return [node] if reached else []

    def _loop_bounds(self, loop: Loop, where: str, scope: Scope) -> tuple[NestLoop, Affine, int]:
        """Return the node of a loop, the first value of its variable, and its step."""
        if loop.variable in scope:
            raise TraceError(f"{where}: the name is taken by a parameter or another loop around it")
        with within(f"{where}: from"):
            lower = map_affine(evaluate_bound(loop.lower, scope), self._check_range)
        with within(f"{where}: step"):
            step = evaluate_constant(loop.step, scope)
            if step == 0:
                raise TraceError("0: a loop must advance")
        first, dimension = lower if isinstance(lower, Affine) else Affine(), -1
        if isinstance(lower, Extreme):
            dimension = self._add_dimension(lower.least(self._box), lower.most(self._box))
            first = Affine.of(0, {dimension: 1})
            seen = {d for leaf in leaves(lower) for d, _ in leaf.terms}
            self._opaque[dimension] = frozenset(seen).union(*(self._opaque.get(d, ()) for d in seen))
        with within(f"{where}: to"):
            distance = map_affine(evaluate_bound(loop.upper, scope), lambda upper: self._check_range(upper - first))
        if step < 0:
            distance = distance.times(-1) if isinstance(distance, Affine) else distance.negated()
        most = max(0, -(-distance.most(self._box) // abs(step)))
        counter = self._add_dimension(0, max(0, most - 1))
        around = _contains_loop(loop.body)
        made = NestLoop(counter, lower, dimension, distance, abs(step), most, where, unroll=loop.unroll, around=around)
        return made, first, step

    def _loop_conditions(self, loop: NestLoop) -> list[Affine]:
        """Return forms that are at least 0 in the body of a loop."""
        conditions = []
        if isinstance(loop.lower, Extreme):
            sign = 1 if loop.lower.kind == "max" else -1
            first = Affine.of(0, {loop.first: 1})
            conditions += [(first - o).times(sign) for o in loop.lower.operands if isinstance(o, Affine)]
        ends: tuple[Bound, ...] = (loop.distance,)
        if isinstance(loop.distance, Extreme):
            ends = loop.distance.operands if loop.distance.kind == "min" else ()
        passed = Affine.of(1, {loop.dimension: loop.stride})
        return conditions + [end - passed for end in ends if isinstance(end, Affine)]

    def _add_dimension(self, least: int, most: int) -> int:
        self._box.append((least, most))
        return len(self._box) - 1

    def _check_iterations(self) -> None:
        """Raise `TraceError` if the loops of the current path have too many iterations."""
        loops = [part for part in self._path if isinstance(part, NestLoop)]
        total, around = prod(loop.most for loop in loops), prod(loop.most for loop in loops[:-1])
        if total > MAX_ITERATIONS:
            raise TraceError(f"{total} iterations for one thread, at most 2^32 are supported")
        if around > MAX_UNROLLED_ITERATIONS:
            raise TraceError(f"{around} iterations of the loops around it, at most 2^18 are supported")

    def _check_range(self, form: Affine) -> Affine:
        """Return a form; raise `TraceError` if it may exceed `MAX_FORM_VALUE` for a thread and iteration."""
        size = abs(form.constant) + sum(abs(c) * max(map(abs, self._box[d])) for d, c in form.terms)
        if size > MAX_FORM_VALUE:
            raise TraceError("reaches numbers beyond 2^62")
        return form

    # ---- accesses

    def _bind_access(self, access: Access, where: str, scope: Scope, reached: bool) -> NestAccess:
        where = f"{where}: {access.op.name.lower()} of {access.array:.60}"
        if access.array not in self._arrays:
            raise TraceError(f"{where}: {unknown('array', access.array[:60], self._arrays)}")
        array = self._arrays[access.array]
        if len(access.subscripts) != len(array.shape):
            raise TraceError(
                f"{where}: {len(access.subscripts)} subscripts, the array has {len(array.shape)} dimensions"
            )
        subscripts = []
        for i, subscript in enumerate(access.subscripts):
            with within(f"{where}: subscript {i}"):
                subscripts.append(self._check_range(evaluate_affine(subscript, scope)))
        with within(where):
            address = self._check_range(self._address_form(array, subscripts))
        cache_op = parse_cache_op(access.cache)
        number = -1 if array.shared else self._next_pc()
        node = NestAccess(access.op, number, array, tuple(subscripts), address, where, str(access), cache_op)
        if reached:
            node.inside = stays_inside(node, self._conditions, self._box, self._budget)
            if not node.inside and (wrong := find_violation(node, self._path, self._launch, self._box, self._budget)):
                raise TraceError(wrong)
        return node

    def _address_form(self, array: Array, subscripts: Sequence[Affine]) -> Affine:
        index = sum((s.times(d) for s, d in zip(subscripts, array.distances, strict=True)), Affine())
        address = index.times(array.stride).plus(array.base)
        if array.space != Space.LOCAL:
            return address
        (x, y, _), (width, height, _) = self._launch.block, self._launch.grid
        threads = self._launch.block_threads
        ids = dict(zip(THREAD_DIMENSIONS, (1, x, x * y), strict=True))
        ids |= dict(zip(BLOCK_DIMENSIONS, (threads, threads * width, threads * width * height), strict=True))
        return address + Affine.of(0, ids).times(array.size)


def _ids(launch: Launch) -> dict[str, Affine]:
    """Return the forms that the names of ids and block sizes stand for."""
    names = {}
    for block, thread, size, block_id, thread_id, global_id, block_size in zip(
        BLOCK_DIMENSIONS,
        THREAD_DIMENSIONS,
        launch.block,
        BLOCK_ID_NAMES,
        THREAD_ID_NAMES,
        GLOBAL_ID_NAMES,
        BLOCK_SIZE_NAMES,
        strict=True,
    ):
        names[block_id] = Affine.of(0, {block: 1})
        names[thread_id] = Affine.of(0, {thread: 1})
        names[global_id] = Affine.of(0, {block: size, thread: 1})
        names[block_size] = Affine(size)
    return names


def _contains_loop(body: Sequence[Statement]) -> bool:
    """Return whether a body contains a loop that is not unrolled completely."""
    return any(
        (isinstance(s, Loop) and s.unroll != NEVER) or (isinstance(s, Loop | Guard) and _contains_loop(s.body))
        for s in body
    )
