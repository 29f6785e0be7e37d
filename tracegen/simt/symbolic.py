"""Values of a kernel: one per thread, affine in the recorded loop, aware of the loads they came from.

`Value` is what a kernel computes with. While the body of a loop is recorded it runs once, and stands for
every iteration: a value is ``base + t * step`` in iteration t, with one `step` for all threads. Addition,
subtraction and multiplication by a whole number keep that form; anything else *settles* the loop, which then
runs iteration by iteration.
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
_ELEMENTWISE_FUNCTIONS = (np.where, np.take, np.clip, np.searchsorted, np.isin)


class RecordedLoop:
    """A loop whose body is being recorded: its `trips`, and `at`, the iteration in which values are read.

    `at` is None while the body stands for every iteration, 0 once something settled the loop, and the last
    iteration when the loop has ended.
    """

    __slots__ = ("at", "trips")

    def __init__(self, trips: int) -> None:
        self.trips = trips
        self.at: int | None = None

    def settle(self) -> None:
        """Give up recording the body once for all iterations: what runs now is iteration 0."""
        if self.at is None:
            self.at = 0


class Value(NDArrayOperatorsMixin):
    """A number, or one per thread of the block, that may move with the iteration of a loop.

    `base` is a scalar or an array of shape (threads,); `sources` the loads whose data it came from; `unknown`
    the array without data that it was loaded from. Never changed in place: ``v += 1`` makes a new value.
    `touched` says that something was computed from it since somebody cleared the mark.
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
        """Return the value as (base, step per iteration of the loop being recorded)."""
        self.touched = True
        if self.loop is None:
            return self.base, 0
        if self.loop.at is None:
            return self.base, self.step
        return self.base + self.step * self.loop.at, 0

    def settled(self) -> Any:
        """Return the number, or one per thread, of this iteration; a loop that it belongs to is settled.

        Raises `TraceError` for a value loaded from an array without data.
        """
        if self.unknown:
            raise TraceError(f"array {self.unknown} holds no data: its elements cannot be an index or a condition")
        if self.loop is not None:
            self.loop.settle()
        return self.parts()[0]

    def uniform(self) -> Any:
        """Return the value as one number; raises `TraceError` if it is one per thread."""
        value = self.settled()
        if is_per_thread(value):
            raise TraceError("a value that differs between threads cannot steer Python: use k.where, k.any or np.where")
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
        """Let a value index a NumPy table, unless that would lose track of the loads it came from."""
        if self.sources:
            raise TraceError("a loaded value cannot index a NumPy table directly: use np.take(table, value)")
        return np.array(self.settled(), dtype=dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        """Compute thread by thread; `out` is ignored, so that in-place operators make new values."""
        if method != "__call__":
            raise TraceError(f"{ufunc.__name__}.{method}: threads of a block cannot be combined; see k.any")
        values = [x if isinstance(x, Value) else as_value(x) for x in inputs]
        sources, loop = NO_SOURCES, None
        for value in values:
            if value.unknown:
                return value
            if value.sources:
                sources = join_sources((sources, value.sources))
            if value.loop is not None and value.loop.at is None:
                loop = value.loop
        if loop is not None:
            step = _affine_step(ufunc, [v.parts() for v in values])
            if step is not None:
                base = ufunc(*(v.parts()[0] for v in values), **options)
                return Value(base, sources, step=step, loop=loop if step else None)
        result = ufunc(*(v.settled() for v in values), **options)
        if isinstance(result, tuple):
            return tuple(Value(part, sources) for part in result)
        return Value(result, sources)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Compute ``np.where``, ``np.take`` and the like thread by thread."""
        if function not in _ELEMENTWISE_FUNCTIONS:
            known = ", ".join(f"np.{f.__name__}" for f in _ELEMENTWISE_FUNCTIONS)
            raise TraceError(f"np.{function.__name__}: does not work thread by thread; there are ufuncs and {known}")
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
    """Return `x` itself if it is a `Value`, otherwise a constant one."""
    return x if isinstance(x, Value) else Value(widen_integers(x))


def join_sources(sources: Iterable[frozenset[MemoryInstruction]]) -> frozenset[MemoryInstruction]:
    """Return the union of `sources` without the loads that every warp has already waited for."""
    union = NO_SOURCES.union(*sources)
    for load in union:
        if load.arrived:
            return frozenset(load for load in union if not load.arrived)
    return union


def _plain(x: Any) -> Any:
    return x.settled() if isinstance(x, Value) else x


def _affine_step(ufunc: np.ufunc, operands: list[tuple[Any, int]]) -> int | None:
    """Return the step of ``ufunc(operands)`` where it is affine with one step for all threads, else None."""
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
    """Return integers of fewer than 64 bits as int64, so that indices do not wrap; others unchanged."""
    dtype = getattr(base, "dtype", None)
    return base.astype(np.int64) if dtype is not None and dtype.kind in "iu" and dtype.itemsize < 8 else base


def is_integer(base: Any) -> bool:
    """Tell whether a number, or an array of them, has the integer type that indices are computed in."""
    return type(base) is int or getattr(base, "dtype", None) == np.int64
