"""The fuzzer: it finds planted faults, minimizes inputs and survives crashes; earlier findings are refused."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
import textwrap
from contextlib import suppress
from random import Random

import pytest

from rdmodel.errors import MAX_MESSAGE_LENGTH, RdmodelError, TraceError
from tests.support.paths import DATA, ROOT
from tests.support.sanitizers import not_sanitized
from tracegen import cuda
from tracegen.cuda import array_arguments
from tracegen.formats import compressed
from tracegen.ptx import parse
from validation.fuzzing import __main__ as command
from validation.fuzzing import programs, report
from validation.fuzzing.build import FOLDER, MODULES, build, compiler
from validation.fuzzing.laws import BrokenLaw, check_message
from validation.fuzzing.mutation import Mutator
from validation.fuzzing.readers import TARGETS
from validation.fuzzing.target import Target, Way
from validation.fuzzing.worker import CurrentInput, Options, Tally, Worker, minimize, problem_of

FOUND = DATA / "fuzzing"


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """Have the buffers that targets choose back in place afterwards."""
    for module, name in [
        (compressed, "CHUNK_BYTES"),
        (array_arguments, "MAX_ARRAY_BYTES"),
    ]:
        monkeypatch.setattr(module, name, getattr(module, name))


@pytest.fixture
def fuzz(tmp_path):
    """Return a function that gives a target some inputs, without feedback, and returns the worker."""

    def run(target, inputs, seed=1):
        scratch = tmp_path / f"{target.name}-{seed}"
        scratch.mkdir()
        options = Options(target.name, inputs, seed, str(scratch), str(tmp_path / "findings"))
        worker = Worker(target, options, None, CurrentInput(scratch / "now", create=True))
        worker.run()
        return worker

    return run


# ---- The readers


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_few_inputs_of_every_reader_break_no_law(fuzz, target):
    tally = fuzz(target, 60 if target.name == "parquet" else 150).tally
    assert tally.findings == {}
    assert tally.read + tally.refused == tally.inputs
    assert tally.read
    assert tally.refused


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_every_reader_begins_with_something_sound(tmp_path, target):
    read = 0
    for number, case in enumerate(target.seeds()):
        path = put(tmp_path / str(number), case) / target.file
        try:
            found = target.read(path, Way())
        except RdmodelError:
            continue
        target.check(found)
        target.deeply(found, Way(), path)
        read += 1
    assert read


def put(folder, case):
    for name, data in case.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("folder", sorted(FOUND.glob("*/*")), ids=lambda path: f"{path.parent.name}-{path.name}")
@pytest.mark.filterwarnings("error")
def test_what_was_found_is_refused_in_one_line_now(tmp_path, folder):
    target = TARGETS[folder.parent.name]
    shutil.copytree(folder, tmp_path / "case")
    for way in target.ways:
        with pytest.raises(RdmodelError) as refused:
            target.read(tmp_path / "case" / target.file, way)
        check_message(refused.value)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_the_watched_paths_of_a_reader_exist(target):
    paths = [str(path) for package in ("rdmodel", "tracegen") for path in (ROOT / package).rglob("*.py")]
    assert all(any(part in path for path in paths) for part in target.watched)


def test_the_instrumented_modules_are_all_compiled_modules_of_the_readers_and_the_emulator():
    paths = (path for part in ("formats", "ptx/emulator") for path in ROOT.glob(f"tracegen/{part}/**/*.pyx"))
    assert set(MODULES) == {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths}


def test_there_is_a_corpus_of_what_was_found():
    assert {path.name for path in FOUND.iterdir()} <= set(TARGETS)
    assert len(list(FOUND.glob("*/*"))) >= 8


# ---- What is planted is found


def planted(read, **more):
    return Target(
        name="planted", file="f", read=read, seeds=lambda: [{"f": b"seed 1\nlong line\n" * 9}], watched=(), **more
    )


def test_an_exception_that_is_not_ours_is_found_and_its_input_made_small(fuzz, tmp_path):
    def read(path, way):
        if b"boom" in path.read_bytes():
            raise KeyError("boom")
        raise TraceError("no trace")

    worker = fuzz(planted(read, words=(b"boom",)), 400)
    (problem,) = worker.tally.findings
    assert problem.startswith("KeyError in ")
    assert (tmp_path / "findings" / "planted-1" / "f").read_bytes() == b"boom"
    assert (tmp_path / "findings" / "planted-1" / "FINDING").read_text().startswith(problem)


@pytest.mark.parametrize(
    ("message", "broken"),
    [
        ("two\nlines", True),
        ("a\x1b[2Jb", True),
        ("\u2028", True),
        ("", True),
        ("x" * (MAX_MESSAGE_LENGTH + 1), True),
        ("fine", False),
    ],
)
def test_messages_are_held_to_be_one_line_of_visible_characters(message, broken):
    error = TraceError("")
    error.args = (message,)
    assert (problem_of(error) is not None) == broken


def test_a_law_that_what_was_read_breaks_is_a_finding(fuzz):
    def check(found):
        if found % 7 == 0:
            raise BrokenLaw("a multiple of 7")

    worker = fuzz(planted(lambda path, way: 7 * path.read_bytes().count(b"9") or 1, check=check), 500)
    (problem,) = worker.tally.findings
    assert problem.endswith("a multiple of 7")


def test_memory_that_an_input_takes_is_a_finding(fuzz, monkeypatch):
    class Usage:
        ru_maxrss = 100 << 10

    monkeypatch.setattr("validation.fuzzing.worker.resource.getrusage", lambda who: Usage)
    monkeypatch.setattr("validation.fuzzing.worker.WARMUP_INPUTS", 10)

    def read(path, way):
        Usage.ru_maxrss += (80 << 10) * (b"seed 2" in path.read_bytes())
        return 1

    worker = fuzz(planted(read, check=lambda found: None, words=(b"seed 2",)), 200)
    assert set(worker.tally.findings) == {"memory grows by more than 64 MiB"}


def test_the_same_seed_makes_the_same_inputs(fuzz, tmp_path):
    def inputs(seed):
        seen = []

        def read(path, way):
            seen.append((path.read_bytes(), way))
            raise TraceError("no")

        fuzz(planted(read, ways=(Way(), Way(lenient=True))), 100, seed)
        shutil.rmtree(tmp_path / f"planted-{seed}")
        return seen

    assert inputs(3) == inputs(3) != inputs(4)


def test_a_case_is_made_smaller_as_long_as_it_does_the_same():
    case = {"a": b"0123456789" * 30 + b"needle" + b"x" * 500, "b": b"hay"}
    assert minimize(case, lambda tried: b"needle" in tried.get("a", b"")) == {"a": b"needle"}


def test_changed_cases_keep_their_names_and_a_length():
    mutator = Mutator(Random(1), [b"word"], [], most=300)
    case = {"a": b"1 2 3\n" * 20, "b": b""}
    for _ in range(2000):
        changed = mutator.changed(case, {"c": b"other\nlines\n"})
        assert changed.keys() == case.keys()
        assert all(len(data) <= 300 for data in changed.values())
        case = changed if any(changed.values()) else case


# ---- What the worker cannot survive

DIES = """
    import os, signal, sys
    from pathlib import Path
    from validation.fuzzing.worker import CurrentInput
    now = CurrentInput(Path({scratch!r}) / "now")
    now.put({inputs}, {{"run.trc": b"bad"}}, 1)
    {end}
"""


def ending(monkeypatch, end, inputs=7):
    def script(options):
        return [sys.executable, "-c", textwrap.dedent(DIES.format(scratch=options.scratch, inputs=inputs, end=end))]

    monkeypatch.setattr(command, "worker_command", script)


@not_sanitized
@pytest.mark.parametrize(
    ("end", "problem"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended with status -11"),
        ("while True: pass", "no end after 0.5 s"),
        ("import time; time.sleep(99)", "no end after 0.5 s"),
    ],
)
def test_an_input_that_ends_the_worker_is_kept_and_others_follow(monkeypatch, tmp_path, end, problem):
    ending(monkeypatch, end)
    monkeypatch.setattr(command, "HANG_SECONDS", 0.5)
    monkeypatch.setattr(command, "IDLE_SECONDS", 2.0)
    monkeypatch.setattr(command, "MAX_RESTARTS", 1)
    tally = command.run(Options("trc", 10, 1, "", str(tmp_path)))
    assert (tally.inputs, tally.findings) == (7, {problem: 1})
    assert (tmp_path / "trc-end-1" / "run.trc").read_bytes() == b"bad"
    assert (tmp_path / "trc-end-1" / "FINDING").read_text().startswith(f"{problem}\nWay(lenient=True")


def test_a_worker_that_never_begins_is_no_finding(monkeypatch, tmp_path):
    ending(monkeypatch, "sys.exit(3)", inputs=0)
    with pytest.raises(SystemExit, match="trc ended with status 3 before its first input"):
        command.run(Options("trc", 10, 1, "", str(tmp_path)))


def test_a_run_that_ends_is_counted(monkeypatch, tmp_path):
    tally = Tally(inputs=10, read=4, refused=6, edges=9, seconds=0.5, slowest=0.01)
    ending(monkeypatch, f"print({json.dumps(dataclasses.asdict(tally))!r})")
    assert command.run(Options("trc", 10, 1, "", str(tmp_path))) == tally


# ---- Feedback

PROGRAM = """
int branches(int x) {
    int y = 0;
    if (x > 10) y += 3;
    while (x-- > 0) y ^= x;
    return y;
}
"""
ASK = """
    import ctypes, sys
    from pathlib import Path
    from validation.fuzzing.build import Feedback
    folder = Path(sys.argv[1])
    feedback = Feedback(folder)
    branches = ctypes.CDLL(str(folder / "program.so")).branches
    sys.path.insert(0, str(folder))
    import lines
    feedback.watch(["/lines.py"])

    def fresh(call, *arguments):
        with feedback:
            call(*arguments)
        return feedback.fresh() > 0

    print([fresh(branches, x) for x in (0, 0, 1, 1, 2, 11, 11, 13, 300)], feedback.edges()[0] > 0)
    print([fresh(lines.way, x) for x in (0, 0, 1, 1)], feedback.edges()[1])
    feedback.lines = False
    print([fresh(lines.way, x) for x in (2, 3)])
"""


def test_edges_and_counts_of_them_are_new_once(tmp_path):
    if shutil.which(compiler()) is None:
        pytest.skip("no C compiler")
    build(tmp_path, modules=())
    (tmp_path / "program.c").write_text(PROGRAM)
    (tmp_path / "lines.py").write_text(
        "def way(x):\n    if x == 2:\n        x += 1\n    if x:\n        x += 1\n    return x\n"
    )
    shared = [compiler(), "-shared", "-fPIC", "-O1", "-DMODULE=1", "-o", tmp_path / "program.so"]
    entry = [compiler(), "-c", "-fPIC", "-DMODULE=1", FOLDER / "entry.c", "-o", tmp_path / "entry.o"]
    subprocess.run(entry, check=True)
    subprocess.run([*shared, "-fsanitize-coverage=trace-pc", tmp_path / "program.c", tmp_path / "entry.o"], check=True)
    asked = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ASK), tmp_path],
        check=True,
        capture_output=True,
        text=True,
        cwd=FOLDER.parents[1],
    )
    compiled, lines, without = asked.stdout.splitlines()
    # 13 goes round as often as 11, to within a bucket; 300 does not.
    assert compiled == "[True, False, True, False, True, True, False, False, True] True"
    assert lines == "[True, False, True, False] 5"
    assert without == "[False, False]"


# ---- The record


def test_the_record_is_what_its_rows_say():
    runs = report.from_csv(report.RUNS.read_text())
    assert report.RESULTS.read_text() == report.results(runs)
    assert {run.reader for run in runs if run.sanitizers == "no"} <= set(TARGETS)
    assert all(run.findings == 0 for run in runs)


def test_a_new_run_takes_the_place_of_the_old_one_of_its_reader():
    one = report.Run.of("trc", 1, False, Tally(inputs=5, seconds=1.0))
    other = report.Run.of("trc", 2, False, Tally(inputs=6, seconds=1.0))
    sanitized = report.Run.of("trc", 1, True, Tally(inputs=7))
    assert report.merged([one, sanitized], [other]) == [other, sanitized]
    assert report.from_csv(report.to_csv([one, sanitized])) == [one, sanitized]


# ---- Programs


def test_changed_instructions_are_parsed_more_often_than_changed_bytes():
    case, rng = TARGETS["ptx"].seeds()[0], Random(3)
    shape = programs.instructions("kernel.ptx")
    other = Mutator(Random(3), TARGETS["ptx"].words, (), 4000)

    def parsed(cases):
        count = 0
        for changed in cases:
            with suppress(RdmodelError):
                count += bool(parse(changed["kernel.ptx"].decode("utf-8", "replace"), "k").kernels)
        return count

    shaped = [shape(case, rng) for _ in range(60)]
    assert len({one["kernel.ptx"] for one in shaped}) > 50
    assert parsed(shaped) > 1.3 * parsed(other.changed(case, case) for _ in range(60))


def test_the_seeds_of_launch_files_are_launched(tmp_path, monkeypatch):
    launched = []
    whole = cuda.launches
    monkeypatch.setattr(cuda, "launches", lambda *args, **more: launched.append(args) or whole(*args, **more))
    for case in TARGETS["launch"].seeds():
        for name, data in case.items():
            (tmp_path / name).write_bytes(data)
        TARGETS["launch"].read(tmp_path / "launch.toml", Way())
    assert len(launched) == 1  # the one of PTX
    first, second = whole(tmp_path / "launch.toml")
    assert [len(trace) for trace in (first, second)] == [24, 24]  # three accesses of two warps in four blocks
