"""Read inputs in a separate process: ``python -m validation.fuzzing.worker OPTIONS``, with OPTIONS as JSON.

A file that both processes map into memory shows the current input to the process that started the worker. At its end,
the worker prints one line of JSON.
"""

from __future__ import annotations

import json
import mmap
import pickle
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from validation.fuzzing.build import ROOT, Feedback
from validation.fuzzing.mutation import Case, Mutator

if TYPE_CHECKING:
    from validation.fuzzing.target import Target

MAX_SECONDS = 1.0
"""Largest processor time of one input."""

MAX_GROWTH = 64 << 20
"""Largest growth of the memory of the process in bytes."""

WARMUP_INPUTS = 2000
"""Number of inputs before the memory of the process is measured for the first time."""

ADDRESS_SPACE = 3 << 30
"""Bytes of address space in addition to those at the start: xz may ask for a window of 256 MiB, zstd for 128."""

DEEP_CHECK_PERIOD = 32
"""Inputs per check of the laws that take longer; each input with new edges is checked as well."""

LINE_COUNT_PERIOD = 4
"""Inputs per count of executed lines of Python, which doubles the time; the lines of all seeds are counted."""

MAPPED_BYTES = 1 << 20
"""Size in bytes of the file that shows the current input."""

_HEAD = 24


@dataclass(slots=True)
class Options:
    """Options of a worker; `build` is the folder of instrumented modules (None: no feedback)."""

    reader: str
    inputs: int
    seed: int
    scratch: str
    findings: str
    build: str | None = None
    sanitized: bool = False


@dataclass(slots=True)
class Tally:
    """Counts of a worker; `seconds` are without the start, `growth` is the growth of the process in MiB."""

    inputs: int = 0
    read: int = 0
    refused: int = 0
    corpus: int = 0
    edges: int = 0
    lines: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    growth: float = 0.0
    findings: dict[str, int] = field(default_factory=dict)


class CurrentInput:
    """The current input of a worker, visible to the process that started it."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if create:
            path.write_bytes(bytes(MAPPED_BYTES))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), MAPPED_BYTES)
        self._turn = 0

    def put(self, number: int, case: Case, way: int) -> None:
        """Announce a case that is read next, as input `number` or to minimize that input."""
        data = pickle.dumps((case, way))[: MAPPED_BYTES - _HEAD]
        self._turn += 1
        self._memory[:_HEAD] = b"".join(n.to_bytes(8, "little") for n in (number, len(data), self._turn))
        self._memory[_HEAD : _HEAD + len(data)] = data

    @property
    def number(self) -> int:
        """The number of the input."""
        return int.from_bytes(self._memory[:8], "little")

    @property
    def turn(self) -> int:
        """Number of announced cases."""
        return int.from_bytes(self._memory[16:_HEAD], "little")

    def get(self) -> tuple[Case, int]:
        """Return the input."""
        length = int.from_bytes(self._memory[8:16], "little")
        return pickle.loads(self._memory[_HEAD : _HEAD + length]) if length else ({}, 0)


class Folder:
    """The files of a case on disk; files that are there already are not written again."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "case"
        self.path.mkdir(parents=True)
        self._held: Case = {}

    def put(self, case: Case) -> None:
        """Write the files of a case, and remove all others."""
        for name in self._held.keys() - case.keys():
            (self.path / name).unlink(missing_ok=True)
        for name, data in case.items():
            if self._held.get(name) != data:
                where = self.path / name
                where.parent.mkdir(exist_ok=True)
                where.write_bytes(data)
        self._held = case

    def forget(self) -> None:
        """Write every file the next time, since a check has changed them."""
        self._held = dict.fromkeys(self._held, b"\0changed\0")


class Worker:
    """Maker and reader of inputs; keeps the inputs that reach something new."""

    def __init__(self, target: Target, options: Options, feedback: Feedback | None, now: CurrentInput) -> None:
        self._target, self._options, self._feedback, self._now = target, options, feedback, now
        self._rng = random.Random(f"{options.reader} {options.seed}")
        self._mutator = Mutator(self._rng, target.words, target.shapers, target.most)
        self._corpus: list[Case] = []
        self._sound: list[Case] = []  # those of the corpus that were read
        self._folder = Folder(Path(options.scratch))
        self._around: AbstractContextManager[None] = feedback or nullcontext()
        self._base = 0
        self.tally = Tally()

    def run(self) -> None:
        """Read the requested number of inputs, the seeds first."""
        seeds = self._target.seeds()
        for case in seeds[: self._options.inputs]:
            self._input(case, 0)
            self._corpus += [] if case in self._corpus else [case]
        start = time.perf_counter()
        while self.tally.inputs < self._options.inputs:
            case = self._mutator.changed(self._chosen(), self._rng.choice(self._corpus))
            self._input(case, self._rng.randrange(len(self._target.ways)))
        self.tally.seconds = time.perf_counter() - start
        self.tally.corpus = len(self._corpus)
        if self._feedback is not None:
            self.tally.edges, self.tally.lines = self._feedback.edges()

    def _chosen(self) -> Case:
        """Choose a case to change: the smaller of two, from all or the latest, of the corpus or of the valid cases."""
        corpus = self._sound if self._sound and self._rng.random() < 0.6 else self._corpus
        first = 0 if self._rng.random() < 0.5 else len(corpus) * 7 // 8
        two = (corpus[self._rng.randrange(first, len(corpus))] for _ in range(2))
        return min(two, key=lambda case: sum(map(len, case.values())))

    def _input(self, case: Case, way: int) -> None:
        """Read an input, and keep it if it reaches something new."""
        tally = self.tally
        read = tally.read
        tally.inputs += 1
        problem, fresh, seconds = self._judged(case, way)
        if fresh:
            self._corpus.append(case)
            self._sound += [case] if tally.read > read else []
        if seconds > MAX_SECONDS:
            problem = problem or f"takes more than {MAX_SECONDS:g} s"
        tally.slowest = max(tally.slowest, seconds)
        if problem := problem or self._grown():
            self._found(problem, case, way)

    def _judged(self, case: Case, way: int) -> tuple[str | None, int, float]:
        """Return the problem of an input, the number of new edges, and the processor time of reading."""
        target, asked = self._target, self._target.ways[way]
        self._now.put(self.tally.inputs, case, way)
        self._folder.put(case)
        path = self._folder.path / target.file
        if self._feedback:
            self._feedback.lines = not self._corpus or self.tally.inputs % LINE_COUNT_PERIOD == 0
        begin = time.process_time()
        found: Any = None
        problem = None
        try:
            with self._around:
                found = target.read(path, asked)
        except Exception as error:  # every exception is problem_of
            problem = problem_of(error)
            self.tally.refused += problem is None
        seconds = time.process_time() - begin  # wall time would count other work of the machine
        fresh = self._feedback.fresh() if self._feedback else 0
        if found is not None:
            self.tally.read += 1
            problem = self._checked(found, way, path, deep=fresh > 0 or self.tally.inputs % DEEP_CHECK_PERIOD == 0)
        return problem, fresh, seconds

    def _checked(self, found: Any, way: int, path: Path, *, deep: bool) -> str | None:
        try:
            self._target.check(found)
            if deep:
                self._folder.forget()
                self._target.deeply(found, self._target.ways[way], path)
        except Exception as error:  # as above
            return f"after reading: {signature(error)}"
        return None

    def _grown(self) -> str | None:
        """Return a problem if the process needs much more memory than after the warm-up."""
        if self._options.sanitized or self.tally.inputs < WARMUP_INPUTS:
            return None
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if not self._base:
            self._base = peak
        grown, self.tally.growth = peak - self._base, max(self.tally.growth, (peak - self._base) / (1 << 20))
        if grown <= MAX_GROWTH:
            return None
        self._base = 0  # memory for handling the finding must not count
        return f"memory grows by more than {MAX_GROWTH >> 20} MiB"

    # ---- Findings

    def _found(self, problem: str, case: Case, way: int) -> None:
        seen = self.tally.findings
        seen[problem] = seen.get(problem, 0) + 1
        if seen[problem] > 1 or len(seen) > 40:
            return
        small = minimize(case, lambda tried: self._judged(tried, way)[0] == problem)
        save(
            Path(self._options.findings), f"{self._options.reader}-{len(seen)}", problem, small, self._target.ways[way]
        )


def problem_of(error: Exception) -> str | None:
    """Return the problem of an exception; None for an error of rdmodel with a good message."""
    from rdmodel.errors import RdmodelError
    from validation.fuzzing.laws import BrokenLaw, check_message

    if not isinstance(error, RdmodelError):
        return signature(error)
    try:
        check_message(error)
    except BrokenLaw as broken:
        return f"{signature(error)}: {broken}"
    return None


def signature(error: Exception) -> str:
    """Return the type of an exception and its place in the project, equal for all exceptions of one cause."""
    from validation.fuzzing.laws import BrokenLaw

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(str(ROOT))]
    ours = [frame for frame in frames if "/validation/" not in frame.filename] or frames
    where = f"{Path(ours[-1].filename).relative_to(ROOT)}: {ours[-1].name}" if ours else "?"
    text = str(error) if isinstance(error, BrokenLaw) else ""
    return f"{type(error).__name__} in {where}" + (f": {text[:80]}" if text else "")


def minimize(case: Case, still: Callable[[Case], bool], tries: int = 1500) -> Case:
    """Remove as much of a case as possible while `still` holds: halves first, then quarters, ..."""
    for name in sorted(case, key=lambda name: -len(case[name])):
        without = {other: data for other, data in case.items() if other != name}
        if without and still(without):
            case = without
            continue
        size = max(len(case[name]) // 2, 1)
        while size and tries > 0:
            at = 0
            while at < len(case[name]) and tries > 0:
                tries -= 1
                tried = {**case, name: case[name][:at] + case[name][at + size :]}
                if still(tried):
                    case = tried
                else:
                    at += size
            size //= 2
    return case


def save(folder: Path, name: str, problem: str, case: Case, way: object) -> None:
    """Write a finding: its files, and a file that names the problem."""
    where = folder / name
    for file, data in case.items():
        (where / file).parent.mkdir(parents=True, exist_ok=True)
        (where / file).write_bytes(data)
    where.mkdir(parents=True, exist_ok=True)
    (where / "FINDING").write_text(f"{problem}\n{way}\n")


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    """Run the command."""
    options = Options(**json.loads(sys.argv[1]))
    tempfile.tempdir = options.scratch
    feedback = None
    if options.build is not None:
        feedback = Feedback(Path(options.build))
    from validation.fuzzing.readers import TARGETS

    target = TARGETS[options.reader]
    if feedback is not None:
        feedback.watch(target.watched)
    if not options.sanitized:
        _limit_memory()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("error")
    worker = Worker(target, options, feedback, CurrentInput(Path(options.scratch) / "now"))
    worker.run()
    print(json.dumps(asdict(worker.tally)))


if __name__ == "__main__":
    main()
