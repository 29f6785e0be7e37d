"""Run kernels at every point of a grid of configurations, in several processes, resumably."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Any
from uuid import uuid4

from rdmodel.answers.store import Answers
from rdmodel.common.cancellation import Cancelled
from rdmodel.common.checks import check_choice, check_int
from rdmodel.common.progress import Progress
from rdmodel.errors import ConfigError, RdmodelError, TraceError
from rdmodel.execution.processes import SINGLE_PROCESS_SECONDS, count_workers, run_in_processes
from rdmodel.execution.shipping import pack_trace
from rdmodel.execution.threads import check_jobs
from rdmodel.gpu.config import GPU
from rdmodel.results.describe import describe_trace
from rdmodel.results.prediction import Prediction
from rdmodel.results.records import result_from_record, result_to_record
from rdmodel.results.simulation import Simulation
from rdmodel.sweeps.grid import Engine, Point, grid_points, read_axes
from rdmodel.sweeps.points import (
    check_point,
    must_materialise,
    needed_blocks,
    non_default_options,
    run_in_worker,
    try_point,
)
from rdmodel.sweeps.values import Result, Sweep, SweepRow
from rdmodel.trace import Trace
from rdmodel.trace.caching import CachedTrace, MaterialisedTrace, fingerprint
from rdmodel.trace.check import check_trace

PROCESS_STARTUP_SECONDS = 2.0
"""Approximate seconds that worker processes take to start; they must save more than that."""


def sweep(
    traces: Trace | Iterable[Trace],
    gpu: str | os.PathLike[str] | GPU | Iterable[str | os.PathLike[str] | GPU] | None = None,
    *,
    engine: Engine = "predict",
    n_jobs: int = -1,
    answers: Answers | str | os.PathLike[str] | None = None,
    merge: Iterable[str | os.PathLike[str]] = (),
    shard: tuple[int, int] | None = None,
    progress: Progress | None = None,
    **grid: Any,
) -> Sweep:
    """Run kernels at every point of a grid: all combinations of the values that are given for each name.

    All names, values and points are checked before the first run. A point that cannot exist, or at which a kernel
    cannot run, has a reason in place of a result (`SweepRow.reason`), and so has a run that fails.

    Parameters
    ----------
    traces
        One trace, or several.
    gpu
        A GPU (its name, the path of its ``.toml`` file, or a `GPU`), or several. None means `presets.DEFAULT_GPU`, and
        `presets.PAPER_GPU` if ``"paper"`` is among the definitions.
    engine
        ``"predict"``, ``"estimate"`` or ``"simulate"``. The result of a point equals that of a single call of the
        function; ``"predict"`` is called with ``histogram=False`` unless the grid says otherwise.
    n_jobs
        Number of processes: -1 means one for each core, 1 this process only. The results do not depend on it. Within
        `joblib.parallel_config`, the workers of its backend (Dask, Ray) run the points; -1 means all of them.
    answers
        A cache, or the path of its file. Results that it contains are not computed again; others are stored as soon as
        they are computed.
    merge
        More answers files, of other machines or shards. Results that they contain are not computed again, either; they
        are stored in `answers`.
    shard
        (i, n): run only every n-th row, from the i-th one on, 1 <= i <= n. The rows of all n shards together are those
        of the whole sweep. A shard may have no rows, or none with a result.
    progress
        Called with (points finished, points in all).
    grid
        One value, or a list of values, for each name. Names are the options of the engine (``sched``, ``seed``, ...);
        ``ways``, ``line``, ``index``, ``mshrs``, ``mshr_merge`` and ``mshr_per_warp`` of the L1; and all fields of a
        GPU by their keys, ``l1_size`` or ``l1.size``. Values may be texts as on the command line: ``"16K"``,
        ``"inf"``, ``"none"``.

    Returns
    -------
    Sweep
        A row for every kernel and point.

    Raises
    ------
    ConfigError
        If a name or a value is invalid, or a file to merge does not exist. If no point can be run, the error of the
        first point is raised, except for a shard.
    TraceError
        If `traces` contains something else.
    SimulationError
        If a worker process is killed.
    """
    check_choice("engine", engine, Engine)
    check_jobs(n_jobs)
    axes = read_axes(engine, gpu, grid)
    if answers is not None and not isinstance(answers, Answers | str | os.PathLike):
        raise ConfigError(f"answers={answers!r:.60}: must be an Answers, or the path of its file")
    files = _check_merge(merge)
    _check_shard(shard)
    started = perf_counter()
    with nullcontext(answers) if answers is None or isinstance(answers, Answers) else Answers(answers) as cache:
        work = _SweepRun(engine, cache, progress, shard)
        work.plan(traces, list(grid_points(axes)))
        work.look_up(files)
        work.run(n_jobs)
        work.require_runnable()
    return Sweep(
        engine=engine,
        axes={axis.name: axis.plain_values for axis in axes if axis.varied},
        fixed={axis.name: axis.plain_values[0] for axis in axes if not axis.varied},
        rows=tuple(task.row() for task in work.tasks),
        kept=work.kept,
        trouble=None if cache is None else cache.trouble,
        shard=shard,
        seconds=perf_counter() - started,
    )


def _check_merge(merge: Any) -> list[str]:
    """Return the paths of the files to merge; raise `ConfigError` unless they exist."""
    if isinstance(merge, str | os.PathLike) or not isinstance(merge, Iterable):
        raise ConfigError(f"merge={merge!r:.60}: must be a list of answers files")
    paths = [os.fspath(path) for path in merge]
    for path in paths:
        if not os.path.isfile(path):
            raise ConfigError(f"merge={path}: there is no such file; name files that were given as answers (--cache)")
    return paths


def _check_shard(shard: Any) -> None:
    if shard is None:
        return
    if not isinstance(shard, tuple) or len(shard) != 2:
        raise ConfigError(f"shard={shard!r:.60}: must be a pair (i, n) with 1 <= i <= n")
    check_int("shard", shard[1], 1)
    check_int("shard", shard[0], 1, shard[1])


@dataclass(slots=True)
class _SweptTrace:
    """A trace and its index in the arguments, with the fingerprints of its blocks.

    If `materialise` is set, `needed` collects the blocks that have to be made in advance.
    """

    number: int
    trace: Trace
    materialise: bool = False
    needed: set[int] = field(default_factory=set)
    digests: dict[int, bytes] = field(default_factory=dict)
    fingerprints: dict[Sequence[int], str] = field(default_factory=dict)

    def fingerprint(self, blocks: Sequence[int]) -> str:
        """Return the fingerprint of some blocks of the trace, computed once."""
        key = blocks if isinstance(blocks, range) else tuple(blocks)
        if key not in self.fingerprints:
            self.fingerprints[key] = fingerprint(self.trace, blocks, self.digests)
        return self.fingerprints[key]


@dataclass(slots=True)
class _Task:
    """A point for a trace, and its result or error."""

    subject: _SweptTrace
    point: Point
    gpu: GPU | None = None
    result: Result | None = None
    error: RdmodelError | None = None

    def row(self) -> SweepRow:
        """Return the row of the sweep."""
        return SweepRow(
            trace=self.subject.number,
            kernel=self.subject.trace.launch.kernel,
            point=self.point.values,
            result=self.result,
            reason=None if self.error is None else str(self.error),
        )


class _SweepRun:
    """One sweep: plans the tasks, looks up cached results, and runs the rest."""

    def __init__(
        self, engine: str, answers: Answers | None, progress: Progress | None, shard: tuple[int, int] | None
    ) -> None:
        self._engine, self._answers, self._progress, self._shard = engine, answers, progress, shard
        self.tasks: list[_Task] = []
        self.kept = 0
        self._finished: set[int] = set()
        self._storing: _Task | None = None
        self._plain_gpus: dict[int, dict[str, Any]] = {}

    def plan(self, traces: Trace | Iterable[Trace], grid: Sequence[Point]) -> None:
        """Create a task for every point and trace; tasks that cannot be run get their error."""
        gpus = _build_gpus(grid)
        number = -1
        for number, trace in enumerate([traces] if isinstance(traces, Trace) else _iterated(traces)):
            check_trace(trace, "traces")
            subject = _SweptTrace(number, trace, materialise=must_materialise(trace))
            tasks = [
                _Task(subject, point, gpu) if isinstance(gpu, GPU) else _Task(subject, point, error=gpu)
                for at, (point, gpu) in enumerate(zip(grid, gpus, strict=True), number * len(grid))
                if self._has(at)
            ]
            for task in tasks:
                self._report(0, len(tasks))
                if task.error is None:
                    self._check(task)
            if subject.materialise:
                self._materialise(subject, tasks)
            elif not trace.stored:
                subject.trace = CachedTrace(trace)
            self.tasks += tasks
        if number < 0:
            raise ConfigError("traces: there is nothing to run")
        self.require_runnable()

    def _has(self, row: int) -> bool:
        """Return whether a row of the whole sweep is in this shard."""
        return self._shard is None or row % self._shard[1] == self._shard[0] - 1

    def require_runnable(self) -> None:
        """Raise the first error if no point of a whole sweep has a result or can still get one."""
        if self._shard is not None:
            return
        first = self.tasks[0].error
        if first is not None and all(task.error is not None for task in self.tasks):
            if len(self.tasks) == 1:
                raise first
            raise type(first)(f"none of {len(self.tasks)} points can be run: {first}")

    def look_up(self, merge: Sequence[str]) -> None:
        """Look up results in the answers file, then in the files to merge, whose results are stored in the former."""
        with ExitStack() as stack:
            others = [stack.enter_context(Answers(path)) for path in merge]
            for other in others:
                if other.trouble is not None:
                    raise ConfigError(f"merge={other.trouble}")
            places = others if self._answers is None else [self._answers, *others]
            if not places:
                return
            for task in self._release_caches(self._open_tasks()):
                self._look_up(task, places)
                self._report(self.kept, len(self.tasks))

    def _look_up(self, task: _Task, places: Sequence[Answers]) -> None:
        assert task.gpu is not None
        question = self._question(task)
        if question is None:
            return
        for place in places:
            record = place.get(question)
            if record is None:
                continue
            kind: Any = Simulation if self._engine == "simulate" else Prediction
            task.result = result_from_record(kind, record, self._plain(task.gpu), task.subject.trace)
            if task.result is not None:
                self.kept += 1
                if place is not self._answers:
                    self._store(task)
                return

    def run(self, n_jobs: int) -> None:
        """Run the remaining tasks: for the first second in this process, then in `n_jobs` processes."""
        left = deque(self._open_tasks())
        self._finished = {id(task) for task in self.tasks} - {id(task) for task in left}
        self._report(len(self._finished), len(self.tasks))
        jobs = min(count_workers(n_jobs), len(left))
        try:
            self._run_here(left, jobs)
            if left:
                self._run_in_workers(left, jobs)
        except KeyboardInterrupt:
            self._count_stored()
            raise

    def _open_tasks(self) -> list[_Task]:
        return [task for task in self.tasks if task.error is None and task.result is None]

    def _materialise(self, subject: _SweptTrace, tasks: Sequence[_Task]) -> None:
        """Make the needed blocks now: the next launch of a program may use the memory that this one leaves."""
        try:
            subject.trace = MaterialisedTrace(subject.trace, sorted(subject.needed))
        except RdmodelError as error:
            for task in tasks:
                task.error = task.error or error

    def _release_caches(self, tasks: Sequence[_Task]) -> Iterator[_Task]:
        """Yield tasks; when the trace changes, drop the cached blocks of the previous one."""
        previous: Trace | None = None
        for task in tasks:
            if previous is not task.subject.trace and isinstance(previous, CachedTrace):
                previous.forget()
            previous = task.subject.trace
            yield task

    def _check(self, task: _Task) -> None:
        assert task.gpu is not None
        try:
            blocks = check_point(self._engine, task.subject.trace, task.gpu, task.point.options)
        except RdmodelError as error:
            task.error = error
        else:
            if task.subject.materialise:
                task.subject.needed.update(blocks)

    def _question(self, task: _Task) -> dict[str, Any] | None:
        """Return the question of a task, which determines its result.

        None if its blocks cannot be read, or if the set of a line depends on code that a question cannot tell.
        """
        assert task.gpu is not None
        trace = task.subject.trace
        if not task.gpu.l1.index.is_plain:
            return None
        try:
            blocks = task.subject.fingerprint(needed_blocks(self._engine, trace, task.gpu, task.point.options))
        except RdmodelError:
            return None
        return {
            "op": "sweep",
            "engine": self._engine,
            "launch": {name: value for name, value in describe_trace(trace).items() if name != "params"},
            "blocks": blocks,
            "gpu": {name: value for name, value in self._plain(task.gpu).items() if name != "sources"},
            "options": non_default_options(task.point.options),
        }

    def _plain(self, gpu: GPU) -> dict[str, Any]:
        """Return a GPU in plain types, converted once; its id is unique because the tasks keep it alive."""
        if id(gpu) not in self._plain_gpus:
            self._plain_gpus[id(gpu)] = gpu.to_dict()
        return self._plain_gpus[id(gpu)]

    def _run_here(self, left: deque[_Task], jobs: int) -> None:
        """Run tasks in this process until worker processes would save time; then abandon the current task."""
        started, total = monotonic(), len(left)

        def workers_pay() -> bool:
            spent = monotonic() - started
            if jobs <= 1 or len(left) <= 1 or spent < SINGLE_PROCESS_SECONDS:
                return False
            finished = total - len(left)
            return not finished or spent * len(left) / finished * (1 - 1 / jobs) > PROCESS_STARTUP_SECONDS

        def check_time(_begun: int, _blocks: int) -> None:
            self._report(len(self._finished), len(self.tasks))
            if workers_pay():
                raise Cancelled

        for task in self._release_caches(tuple(left)):
            assert task.gpu is not None
            try:
                result = try_point(self._engine, task.subject.trace, task.gpu, task.point.options, check_time)
            except Cancelled:
                return
            left.popleft()
            self._finish(task, result)
            if workers_pay():
                return

    def _run_in_workers(self, left: Sequence[_Task], jobs: int) -> None:
        token = uuid4().hex
        traces = {task.subject.number: pack_trace(task.subject.trace) for task in left}
        runs = [
            (at, f"{token}:{number}", traces[number], self._engine, task.gpu, task.point.options)
            for at, task in enumerate(left)
            for number in [task.subject.number]
        ]
        finished = run_in_processes(run_in_worker, runs, min(jobs, len(left)))
        try:
            for at, result in finished:
                self._finish(left[at], result)
        except BaseException as error:
            # Throwing the error into the generator lets joblib stop its processes at once and without a warning.
            finished.throw(error)

    def _finish(self, task: _Task, result: Result | RdmodelError) -> None:
        """Record a result or an error, and store a result in the answers file."""
        assert task.gpu is not None
        if isinstance(result, RdmodelError):
            task.error = result
        else:
            task.result = result
            self._storing = task
            self._store(task)
        self._finished.add(id(task))
        self._report(len(self._finished), len(self.tasks))

    def _count_stored(self) -> None:
        """Count the task whose result was stored when an interruption came before it was counted."""
        task = self._storing
        if task is None or id(task) in self._finished or self._answers is None:
            return
        question = self._question(task)
        if question is not None and self._answers.get(question) is not None:
            self._finished.add(id(task))
            self._report(len(self._finished), len(self.tasks))

    def _store(self, task: _Task) -> None:
        """Store the result of a task in the answers file."""
        assert task.gpu is not None
        assert task.result is not None
        question = None if self._answers is None else self._question(task)
        if self._answers is not None and question is not None:
            with suppress(ConfigError):  # an infinite bound, which JSON cannot represent
                self._answers.put(question, result_to_record(task.result, self._plain(task.gpu)))

    def _report(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)


def _iterated(traces: Any) -> Iterator[Any]:
    if isinstance(traces, str | Mapping) or not isinstance(traces, Iterable):
        raise TraceError(f"traces={traces!r:.60}: must be a Trace, or several (tracegen.kernel, rdmodel.load)")
    return iter(traces)


def _build_gpus(grid: Sequence[Point]) -> list[GPU | RdmodelError]:
    """Return the GPU of each point, or the error that prevents it; points with the same fields share one GPU."""
    gpus: dict[Any, GPU | RdmodelError] = {}
    per_point = []
    for point in grid:
        key = (id(point.base), *point.fields.values())
        if key not in gpus:
            try:
                gpus[key] = point.build_gpu()
            except ConfigError as error:
                gpus[key] = error
        per_point.append(gpus[key])
    return per_point
