"""``python -m validation.fuzzing``: fuzz the readers of files."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from validation.common.records import positive
from validation.fuzzing.build import ROOT, build, preload
from validation.fuzzing.readers import TARGETS
from validation.fuzzing.report import RESULTS, RUNS, Run, from_csv, merged, results, table, to_csv
from validation.fuzzing.worker import CurrentInput, Options, Tally, save

HANG_SECONDS = 20.0
"""An input that takes more processor time counts as a hang: elapsed time says little on a machine that others use."""

IDLE_SECONDS = 300.0
"""So does an input that takes longer than this altogether, for it may wait for something that never comes."""

MAX_RESTARTS = 5
"""Number of workers that are started in turn if inputs end them."""

RAM_FOLDER = Path("/dev/shm")
"""Folder in memory for the files of cases, if it exists."""


def run(options: Options, *, preloaded: str = "") -> Tally:
    """Run a worker to its end, and start another one after each input that ends a worker."""
    total = Tally()
    for restart in range(MAX_RESTARTS):
        left = options.inputs - total.inputs
        tally = _attempt(
            Options(**{**asdict(options), "inputs": left, "seed": options.seed + 1000 * restart}), preloaded
        )
        for name in ("inputs", "read", "refused", "seconds"):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        for name in ("corpus", "edges", "lines", "slowest", "growth"):
            setattr(total, name, max(getattr(total, name), getattr(tally, name)))
        for problem, times in tally.findings.items():
            total.findings[problem] = total.findings.get(problem, 0) + times
        if total.inputs >= options.inputs:
            break
    return total


def _attempt(options: Options, preloaded: str) -> Tally:
    base = RAM_FOLDER if RAM_FOLDER.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="fuzzing-", dir=base) as scratch:
        now = CurrentInput(Path(scratch) / "now", create=True)
        options.scratch = scratch
        with subprocess.Popen(
            worker_command(options), stdout=subprocess.PIPE, env=_environment(preloaded), cwd=ROOT
        ) as process:
            begin = time.perf_counter()
            ended = _watched(process, now)
            assert process.stdout is not None
            if not ended:
                process.kill()
            out = process.stdout.read()
        if ended and process.returncode == 0:
            tally = json.loads(out)
            return Tally(**tally)
        # Without an input, the worker itself has failed.
        problem = f"ended with status {process.returncode}" if ended else f"no end after {HANG_SECONDS:g} s"
        if now.number == 0:
            raise SystemExit(f"the worker of {options.reader} {problem} before its first input")
        case, way = now.get()
        asked = TARGETS[options.reader].ways[way]
        save(Path(options.findings), f"{options.reader}-end-{options.seed}", problem, case, asked)
        return Tally(inputs=now.number, seconds=time.perf_counter() - begin, findings={problem: 1})


def worker_command(options: Options) -> list[str]:
    """Return the command that starts a worker."""
    return [sys.executable, "-m", "validation.fuzzing.worker", json.dumps(asdict(options))]


def _watched(process: subprocess.Popen[bytes], now: CurrentInput) -> bool:
    """Wait for the end of a worker; return false if it hangs at one input."""
    turn, since, used = -1, time.monotonic(), 0.0
    while True:
        try:
            process.wait(0.5)
            return True
        except subprocess.TimeoutExpired:
            pass
        if now.turn != turn:
            turn, since, used = now.turn, time.monotonic(), _processor_seconds(process.pid)
            continue
        hangs = _processor_seconds(process.pid) - used > HANG_SECONDS or time.monotonic() - since > IDLE_SECONDS
        if hangs and turn > 0:
            return False


def _processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used; 0 if the system does not tell it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _environment(preloaded: str) -> dict[str, str]:
    plain = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if not preloaded:
        return plain
    asan = "detect_leaks=0:quarantine_size_mb=16:max_allocation_size_mb=2048:allocator_may_return_null=1"
    return {**plain, "LD_PRELOAD": preloaded, "ASAN_OPTIONS": asan, "UBSAN_OPTIONS": "print_stacktrace=1"}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m validation.fuzzing", description=__doc__)
    parser.add_argument(
        "--reader", nargs="+", choices=TARGETS, default=list(TARGETS), metavar="READER", help="only these readers"
    )
    parser.add_argument(
        "--inputs", type=positive, default=10_000, help="number of inputs for each reader (default: 10,000)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of all inputs (default: 1)")
    parser.add_argument("--sanitize", action="store_true", help="use AddressSanitizer and UndefinedBehaviorSanitizer")
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build" / "fuzzing", help="folder for instrumented modules"
    )
    parser.add_argument("--findings", type=Path, default=Path("findings"), help="folder for inputs that break a law")
    parser.add_argument("--record", action="store_true", help="add the runs to the committed record")
    options = parser.parse_args()
    folder = options.build / ("sanitized" if options.sanitize else "plain")
    build(folder, sanitize=options.sanitize)
    runs = []
    for reader in options.reader:
        asked = Options(
            *(reader, options.inputs, options.seed, "", str(options.findings.absolute()), str(folder.absolute())),
            sanitized=options.sanitize,
        )
        tally = run(asked, preloaded=preload() if options.sanitize else "")
        runs.append(Run.of(reader, options.seed, options.sanitize, tally))
        print("\n".join(table([runs[-1]]) if len(runs) == 1 else table([runs[-1]])[2:]), flush=True)
        for problem, times in tally.findings.items():
            print(f"{reader}: {times} times: {problem}", file=sys.stderr, flush=True)
        if options.record:
            every = merged(from_csv(RUNS.read_text()) if RUNS.exists() else [], [runs[-1]])
            RUNS.write_text(to_csv(every))
            RESULTS.write_text(results(every))
    sys.exit(1 if any(one.findings for one in runs) else 0)


if __name__ == "__main__":
    main()
