"""Compute with symbolic values: one number per thread, affine in the recorded loop, with the loads it depends on.

A kernel computes with `Value`. The body of a recorded loop runs once and represents every iteration: in iteration t a
value is ``base + t * step``, with one `step` for all threads. Addition, subtraction and multiplication by a whole
number keep this form. Any other operation *settles* the loop, which then runs iteration by iteration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from rdmodel.errors import TraceError
from tracegen.simt.agreement import common_value, is_per_thread
from tracegen.simt.scoreboard import MemoryInstruction

NO_SOURCES: frozenset[MemoryInstruction] = frozenset()
"""Sources of a value that depends on no load."""

_INT64 = np.dtype(np.int64)

_ELEMENTWISE_FUNCTIONS = (np.where, np.take, np.clip, np.searchsorted, np.isin)
"""NumPy functions that work thread by thread."""


class RecordedLoop:
    """A loop of `trips` iterations whose body is being recorded; `at` is the iteration in which values are read.

    `at` is None while the body represents every iteration, 0 after the loop was settled, and the last iteration after
    its end.
    """

    __slots__ = ("at", "trips")

    def __init__(self, trips: int) -> None:
        self.trips = trips
        self.at: int | None = None

    def settle(self) -> None:
        """Stop recording the body for all iterations: the present one becomes iteration 0."""
        if self.at is None:
            self.at = 0


class Value(NDArrayOperatorsMixin):
    """A number, or one number per thread of the block, that may advance with the iterations of a loop.

    `base` is a scalar or an array of shape (threads,), `step` its advance per iteration of `loop`. `sources` are the
    loads that it depends on. `unknown` is the array without data that it was loaded from. Values are immutable:
    ``v += 1`` creates a new one. `touched` tells whether the value was used since the mark was cleared.
    """

    __slots__ = ("base", "loop", "sources", "step", "touched", "unknown")

    def __init__(
        self,
        base: Any,
        sources: frozenset[MemoryInstruction] = NO_SOURCES,
        *,
        step: int = 0,
        loop: RecordedLoop | None = None,
        unknown: str = "",
    ) -> None:
        self.base = base
        self.sources = sources
        self.step = step
        self.loop = loop
        self.unknown = unknown
        self.touched = False

    def parts(self) -> tuple[Any, int]:
        """Return (base, step per iteration of the recorded loop)."""
        self.touched = True
        if self.loop is None:
            return self.base, 0
        if self.loop.at is None:
            return self.base, self.step
        return self.base + self.step * self.loop.at, 0

    def settled(self) -> Any:
        """Return the number, or one per thread, of this iteration, and settle the loop that it depends on.

        Raises `TraceError` for a value loaded from an array without data.
        """
        if self.unknown:
            raise TraceError(f"array {self.unknown} holds no data: its elements cannot be an index or a condition")
        if self.loop is not None:
            self.loop.settle()
        return self.parts()[0]

    def uniform(self) -> Any:
        """Return the number common to all threads; raises `TraceError` if threads have different ones."""
        value = self.settled()
        if is_per_thread(value):
            raise TraceError(
                "a value that differs between threads cannot control Python code such as if and while: "
                "use k.where, k.any or np.where"
            )
        return common_value(value)

    def __bool__(self) -> bool:
        return bool(self.uniform())

    def __index__(self) -> int:
        value = self.uniform()
        if isinstance(value, float | np.floating):
            raise TraceError(f"{value}: must be a whole number")
        return int(value)

    def __repr__(self) -> str:
        if self.unknown:
            return f"Value(loaded from {self.unknown})"
        return f"Value({self.base!r}" + (f" + {self.step} t)" if self.loop else ")")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Convert the value to an array; a loaded value raises `TraceError`, because its loads would be lost."""
        if self.sources:
            raise TraceError("a loaded value cannot index a NumPy table directly: use np.take(table, value)")
        return np.array(self.settled(), dtype=dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        """Apply a ufunc thread by thread; `out` is ignored, so that in-place operators create new values."""
        if method != "__call__":
            raise TraceError(f"{ufunc.__name__}.{method}: threads of a block cannot be combined: use k.any")
        values = [x for x in inputs if isinstance(x, Value)]
        sources, loop = NO_SOURCES, None
        for value in values:
            if value.unknown:
                return value
            if value.sources:
                sources = join_sources((sources, value.sources))
            if value.loop is not None and value.loop.at is None:
                loop = value.loop
        if loop is not None:
            parts = [as_value(x).parts() for x in inputs]
            step = _affine_step(ufunc, parts)
            if step is not None:
                base = ufunc(*(base for base, _ in parts), **options)
                return Value(base, sources, step=step, loop=loop if step else None)
        result = ufunc(*(x.settled() if isinstance(x, Value) else widen_integers(x) for x in inputs), **options)
        if isinstance(result, tuple):
            return tuple(Value(part, sources) for part in result)
        return Value(result, sources)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Apply ``np.where``, ``np.take`` and similar functions thread by thread."""
        if function not in _ELEMENTWISE_FUNCTIONS:
            known = ", ".join(f"np.{f.__name__}" for f in _ELEMENTWISE_FUNCTIONS)
            raise TraceError(f"np.{function.__name__}: does not work thread by thread: use ufuncs or {known}")
        values = [x for x in (*args, *kwargs.values()) if isinstance(x, Value)]
        for value in values:
            if value.unknown:
                return value
        try:
            result = function(*map(_plain, args), **{name: _plain(x) for name, x in kwargs.items()})
        except IndexError as error:
            raise TraceError(f"np.{function.__name__}: {error}") from None
        return Value(widen_integers(result), join_sources(value.sources for value in values))


def as_value(x: Any) -> Value:
    """Return `x` if it is a `Value`, else a constant value."""
    return x if isinstance(x, Value) else Value(widen_integers(x))


def join_sources(sources: Iterable[frozenset[MemoryInstruction]]) -> frozenset[MemoryInstruction]:
    """Return the union of `sources`, without loads that every warp has already waited for."""
    union = NO_SOURCES.union(*sources)
    for load in union:
        if load.arrived:
            return frozenset(load for load in union if not load.arrived)
    return union


def _plain(x: Any) -> Any:
    return x.settled() if isinstance(x, Value) else x


def _affine_step(ufunc: np.ufunc, operands: list[tuple[Any, int]]) -> int | None:
    """Return the step of ``ufunc(operands)`` if it is affine with one step for all threads, else None."""
    if not all(is_integer(base) for base, _ in operands):
        return None
    if ufunc is np.negative:
        return -operands[0][1]
    if ufunc is np.add:
        return operands[0][1] + operands[1][1]
    if ufunc is np.subtract:
        return operands[0][1] - operands[1][1]
    if ufunc is np.multiply:
        for (_, step), (factor, moves) in (operands, operands[::-1]):
            if not moves and not is_per_thread(factor):
                return step * int(common_value(factor))
    return None


def widen_integers(base: Any) -> Any:
    """Convert integers of fewer than 64 bits to int64, so that indices do not wrap."""
    dtype = getattr(base, "dtype", None)
    return base.astype(np.int64) if dtype is not None and dtype.kind in "iu" and dtype.itemsize < 8 else base


def is_integer(base: Any) -> bool:
    """Return whether a number or array has the type of indices: int or int64."""
    return type(base) is int or getattr(base, "dtype", None) == _INT64
