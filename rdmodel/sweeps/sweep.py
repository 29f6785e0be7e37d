"""`sweep`: kernels under every point of a grid of configurations, shared out to processes, and gone on with later."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Any
from uuid import uuid4

from rdmodel.answers.store import Answers
from rdmodel.common.checks import check_choice
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError, RdmodelError, TraceError
from rdmodel.execution.processes import run_in_processes
from rdmodel.execution.threads import Cancelled, available_cores, check_jobs
from rdmodel.gpu.config import GPU
from rdmodel.results.describe import describe_trace
from rdmodel.sweeps.grid import Engine, Point, points, read_axes
from rdmodel.sweeps.points import asked_blocks, attempt, check, is_once, kept, not_default, revived, run_one, sent
from rdmodel.sweeps.values import Result, Sweep, SweepRow
from rdmodel.trace import Trace
from rdmodel.trace.caching import CachedTrace, MaterialisedTrace, fingerprint

HEAD_START = 1.0
"""Seconds in which this process works alone."""

BEGINNING = 2.0
"""Seconds that must be won by other processes, which take about as long to begin."""


def sweep(
    traces: Trace | Iterable[Trace],
    gpu: str | os.PathLike[str] | GPU | Iterable[str | os.PathLike[str] | GPU] = "gtx470-16k",
    *,
    engine: Engine = "predict",
    n_jobs: int = -1,
    answers: Answers | str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **grid: Any,
) -> Sweep:
    """Run kernels under every point of a grid: all combinations of the values that names have to choose from.

    `grid` has for each name a value, or several. Names are the options of the engine, `predict`, `estimate` or
    `simulate` (``sched``, ``seed``, ...); ``ways``, ``line``, ``index``, ``mshrs``, ``mshr_merge`` and
    ``mshr_per_warp`` of the L1; and all fields of a GPU by their keys, ``l1_size`` or ``l1.size``. `gpu` may be several
    as well. Values may be texts, as on the command line: ``"16K"``, ``"inf"``, ``"none"``. A result is that of a single
    call for the point, of `predict` with ``histogram=False`` unless the grid says otherwise.

    Names, values and all points are checked before the first run. Points that cannot exist, or at which a kernel cannot
    run, have a reason in place of a result (`SweepRow.reason`); so have those that fail. Points are shared out to
    `n_jobs` processes (-1: one for each core; 1: none but this one), with the same results for any number. `answers` is
    a cache, or its file: results that are there are not made again, and others are kept as soon as they are finished.
    `progress` is called with (points finished, points in all).

    Raises `ConfigError` for a name or value that means nothing, or if no point can be run, and then what the first one
    raised; `TraceError` for what is no trace; `SimulationError` if a worker process is killed.
    """
    check_choice("engine", engine, Engine)
    check_jobs(n_jobs)
    axes = read_axes(engine, gpu, grid)
    if answers is not None and not isinstance(answers, Answers | str | os.PathLike):
        raise ConfigError(f"answers={answers!r:.60}: must be an Answers, or the path of its file")
    started = perf_counter()
    with nullcontext(answers) if answers is None or isinstance(answers, Answers) else Answers(answers) as cache:
        work = _Work(engine, cache, progress)
        work.plan(traces, list(points(axes)))
        work.look_up()
        work.run(available_cores() if n_jobs == -1 else n_jobs)
        work.check_any()
    return Sweep(
        engine=engine,
        axes={axis.name: axis.shown for axis in axes if axis.varied},
        fixed={axis.name: axis.shown[0] for axis in axes if not axis.varied},
        rows=tuple(task.row() for task in work.tasks),
        kept=work.kept,
        trouble=None if cache is None else cache.trouble,
        seconds=perf_counter() - started,
    )


@dataclass(slots=True)
class _Subject:
    """A trace, its number, and what is known of it."""

    number: int
    trace: Trace
    once: bool = False
    digests: dict[int, bytes] = field(default_factory=dict)
    marks: dict[Sequence[int], str] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)

    def mark(self, blocks: Sequence[int]) -> str:
        """Return what tells these blocks of the trace from others."""
        key = blocks if isinstance(blocks, range) else tuple(blocks)
        if key not in self.marks:
            self.marks[key] = fingerprint(self.trace, blocks, self.digests)
        return self.marks[key]


@dataclass(slots=True)
class _Task:
    """A point for a trace, and what became of it."""

    subject: _Subject
    point: Point
    machine: GPU | None = None
    result: Result | None = None
    error: RdmodelError | None = None

    def row(self) -> SweepRow:
        """Return what the sweep says of it."""
        return SweepRow(
            trace=self.subject.number,
            kernel=self.subject.trace.launch.kernel,
            point=self.point.shown,
            result=self.result,
            reason=None if self.error is None else str(self.error),
        )


class _Work:
    """All points of a sweep for all traces: planned, looked up, run."""

    def __init__(self, engine: str, answers: Answers | None, progress: Progress | None) -> None:
        self._engine, self._answers, self._progress = engine, answers, progress
        self.tasks: list[_Task] = []
        self.kept = 0
        self._done = 0
        self._plain_gpus: dict[int, dict[str, Any]] = {}

    def plan(self, traces: Trace | Iterable[Trace], grid: Sequence[Point]) -> None:
        """Make a task of every point for every trace; those that cannot be run get the error that says so."""
        machines = _machines(grid)
        for number, trace in enumerate([traces] if isinstance(traces, Trace) else _iterated(traces)):
            if not isinstance(trace, Trace):
                raise TraceError(f"traces: {trace!r:.60} must be a Trace (tracegen.kernel, rdmodel.load)")
            subject = _Subject(number, trace, once=is_once(trace))
            made = [
                _Task(subject, point, machine) if isinstance(machine, GPU) else _Task(subject, point, error=machine)
                for point, machine in zip(grid, machines, strict=True)
            ]
            for task in made:
                self._look(0, len(made))
                if task.error is None:
                    self._check(task)
            if subject.once:
                self._make(subject, made)
            elif not trace.stored:
                subject.trace = CachedTrace(trace)
            self.tasks += made
        if not self.tasks:
            raise ConfigError("traces: there is nothing to run")
        self.check_any()

    def check_any(self) -> None:
        """Raise the first error if no point has come, or can come, to a result."""
        first = self.tasks[0].error
        if first is not None and all(task.error is not None for task in self.tasks):
            if len(self.tasks) == 1:
                raise first
            raise type(first)(f"none of {len(self.tasks)} points can be run: {first}")

    def look_up(self) -> None:
        """Find the results that are kept."""
        if self._answers is None:
            return
        for task in self._in_turn(self._open()):
            assert task.machine is not None
            question = self._question(task)
            found = None if question is None else self._answers.get(question)
            if found is not None:
                task.result = revived(self._engine, found, self._plain(task.machine), task.subject.trace)
                self.kept += task.result is not None
            self._look(self.kept, len(self.tasks))

    def run(self, jobs: int) -> None:
        """Run what is left, the first second of it here, the rest in so many processes."""
        left = deque(self._open())
        self._done = len(self.tasks) - len(left)
        self._look(self._done, len(self.tasks))
        self._run_here(left, min(jobs, len(left)))
        if left:
            self._run_elsewhere(left, jobs)

    def _open(self) -> list[_Task]:
        return [task for task in self.tasks if task.error is None and task.result is None]

    def _make(self, subject: _Subject, tasks: Sequence[_Task]) -> None:
        """Make the blocks that are asked for, now: the next launch of a program may go on where this one ends."""
        try:
            subject.trace = MaterialisedTrace(subject.trace, sorted(subject.asked))
        except RdmodelError as error:
            for task in tasks:
                task.error = task.error or error

    def _in_turn(self, tasks: Sequence[_Task]) -> Iterator[_Task]:
        """Yield tasks; only the trace of the one that is under way keeps its blocks."""
        before: Trace | None = None
        for task in tasks:
            if before is not task.subject.trace and isinstance(before, CachedTrace):
                before.forget()
            before = task.subject.trace
            yield task

    def _check(self, task: _Task) -> None:
        assert task.machine is not None
        try:
            blocks = check(self._engine, task.subject.trace, task.machine, task.point.options)
        except RdmodelError as error:
            task.error = error
        else:
            if task.subject.once:
                task.subject.asked.update(blocks)

    def _question(self, task: _Task) -> dict[str, Any] | None:
        """Return what a point asks, so that equal questions have equal results; None if its blocks cannot be read."""
        assert task.machine is not None
        trace = task.subject.trace
        try:
            mark = task.subject.mark(asked_blocks(self._engine, trace, task.machine, task.point.options))
        except RdmodelError:
            return None
        return {
            "op": "sweep",
            "engine": self._engine,
            "launch": {name: value for name, value in describe_trace(trace).items() if name != "params"},
            "blocks": mark,
            "gpu": {name: value for name, value in self._plain(task.machine).items() if name != "sources"},
            "options": not_default(task.point.options),
        }

    def _plain(self, gpu: GPU) -> dict[str, Any]:
        """Return the GPU of some points as plain values; tasks hold on to it, and so to its identity."""
        if id(gpu) not in self._plain_gpus:
            self._plain_gpus[id(gpu)] = gpu.to_dict()
        return self._plain_gpus[id(gpu)]

    def _run_here(self, left: deque[_Task], jobs: int) -> None:
        """Run points here until others are worth their while; the one that is under way then is given up."""
        begun, before = monotonic(), len(left)

        def others_pay() -> bool:
            spent = monotonic() - begun
            if jobs <= 1 or len(left) <= 1 or spent < HEAD_START:
                return False
            finished = before - len(left)
            return not finished or spent * len(left) / finished * (1 - 1 / jobs) > BEGINNING

        def listen(_begun: int, _blocks: int) -> None:
            self._look(self._done, len(self.tasks))
            if others_pay():
                raise Cancelled

        for task in self._in_turn(tuple(left)):
            assert task.machine is not None
            try:
                result = attempt(self._engine, task.subject.trace, task.machine, task.point.options, listen)
            except Cancelled:
                return
            left.popleft()
            self._finish(task, result)
            if others_pay():
                return

    def _run_elsewhere(self, left: Sequence[_Task], jobs: int) -> None:
        token = uuid4().hex
        traces = {task.subject.number: sent(task.subject.trace) for task in left}
        runs = [
            (at, f"{token}:{number}", traces[number], self._engine, task.machine, task.point.options)
            for at, task in enumerate(left)
            for number in [task.subject.number]
        ]
        finished = run_in_processes(run_one, runs, min(jobs, len(left)))
        try:
            for at, result in finished:
                self._finish(left[at], result)
        except BaseException as error:
            # joblib ends its processes at once if it is told; it would warn if it were only left.
            finished.throw(error)

    def _finish(self, task: _Task, result: Result | RdmodelError) -> None:
        """Take note of a result, and keep it."""
        assert task.machine is not None
        if isinstance(result, RdmodelError):
            task.error = result
        else:
            task.result = result
            question = None if self._answers is None else self._question(task)
            if self._answers is not None and question is not None:
                with suppress(ConfigError):  # a bound that is infinite, which JSON does not have
                    self._answers.put(question, kept(result, self._plain(task.machine)))
        self._done += 1
        self._look(self._done, len(self.tasks))

    def _look(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)


def _iterated(traces: Any) -> Iterator[Any]:
    if isinstance(traces, str | Mapping) or not isinstance(traces, Iterable):
        raise TraceError(f"traces={traces!r:.60}: must be a Trace, or several (tracegen.kernel, rdmodel.load)")
    return iter(traces)


def _machines(grid: Sequence[Point]) -> list[GPU | RdmodelError]:
    """Return the GPU of each point, or why there is none; points that have the same fields share it."""
    made: dict[Any, GPU | RdmodelError] = {}
    found = []
    for point in grid:
        key = (id(point.base), *point.fields.values())
        if key not in made:
            try:
                made[key] = point.machine()
            except ConfigError as error:
                made[key] = error
        found.append(made[key])
    return found
