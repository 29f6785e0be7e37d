"""Write the record of runs: one row for each reader, plain and sanitized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from validation.common import records
from validation.fuzzing.build import FOLDER
from validation.fuzzing.worker import Tally

RUNS = FOLDER / "runs.csv"
RESULTS = FOLDER / "RESULTS.md"

HEAD = """\
# Fuzzing of the readers

Written by `python -m validation.fuzzing --record`, with `runs.csv`. The laws for every input are in the docstring of
`validation/fuzzing/__init__.py`. An input is a file, or a folder of files, for one reader. "Edges" are the edges of
compiled code and the lines of Python that inputs have reached; "kept" counts the inputs that reached new ones.
"Slowest" is the longest processor time of one input, and "growth" the growth of the memory of the process after the
first 2,000 inputs. The speed is that of one process that checks all laws, beside other work on the machine.

All faults that were found are fixed. `tests/data/fuzzing` has the inputs that must be refused, by reader; the tests of
the readers have all inputs.

* native: NumPy parses the header of a column as Python. It raised `TokenError`, `MemoryError` or warnings, took 0.4 s
  for 9,000 minus signs, or quoted the whole header. Names of kernels and arrays had line breaks or half surrogate
  pairs.
* kernelslist: names of files with control characters appeared unchanged in messages.
* parquet: messages of pyarrow had control characters. Now every message of rdmodel is one line, by construction. Files
  of a few kB that claim four million warps without instructions took 68 MiB. Now at most a million are allowed beside
  the warps with instructions.
* ppt-folder: `OverflowError` from a complex number of 400 digits in `app_config.py`.
* ncu: `ValueError` from a grid of 5,000 digits; control characters in names of kernels.
* affine: half surrogate pairs in messages; `"block": null` was accepted.
* launch: `ValueError` and `RecursionError` from numbers of 5,000 digits and from nested lists (gpu: likewise), a
  warning for a fill value beyond the type, messages as long as the file.
* ptx: `StopIteration` from accesses to surfaces without a type.

nvbit, accelsim, trc, ppt and the packed files: no faults.

After textures, symbols and options were added, 100,000 changed PTX files were parsed and executed without feedback
from coverage, most of them with textures: 16,420 were read, and there were no faults beside the one above. The tests of
the emulator, of textures and of opcodes (1,173 tests) pass under AddressSanitizer and UndefinedBehaviorSanitizer.

After bulk and tensor copies moved their data, the compiled emulator reported its edges, too. 100,000 changed PTX files
were executed under both sanitizers, without a finding: `python -m validation.fuzzing --reader ptx --inputs 50000
--sanitize --seed 3`, which the table has, and the same with `--seed 4`.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of one reader. `rate` in inputs per second, `slowest` in milliseconds, `growth` in MiB."""

    reader: str
    sanitizers: str
    seed: int
    inputs: int
    read: int
    edges: int
    lines: int
    kept: int
    rate: float
    slowest: float
    growth: float
    findings: int

    @classmethod
    def of(cls, reader: str, seed: int, sanitized: bool, tally: Tally) -> Run:
        """Return the row of a run."""
        return cls(
            reader=reader,
            sanitizers="yes" if sanitized else "no",
            seed=seed,
            inputs=tally.inputs,
            read=tally.read,
            edges=tally.edges,
            lines=tally.lines,
            kept=tally.corpus,
            rate=round(tally.inputs / tally.seconds if tally.seconds else 0.0),
            slowest=round(1000 * tally.slowest, 1),
            growth=round(tally.growth, 1),
            findings=len(tally.findings),
        )


def to_csv(runs: Sequence[Run]) -> str:
    """Return runs as CSV."""
    return records.to_csv(Run, runs)


def from_csv(text: str) -> list[Run]:
    """Return the runs that `to_csv` wrote."""
    return records.from_csv(Run, text)


def merged(old: Sequence[Run], new: Sequence[Run]) -> list[Run]:
    """Return old runs, with new runs in place of those of the same reader and build."""
    runs = {(run.sanitizers, run.reader): run for run in old} | {(run.sanitizers, run.reader): run for run in new}
    return list(runs.values())


def table(runs: Sequence[Run]) -> list[str]:
    """Return runs as lines of a table."""
    head = "reader | inputs | read | edges | of lines | kept | inputs/s | slowest | growth | findings"
    lines = [f"| {head} |", "|---|" + "---:|" * 9]
    for run in runs:
        reached = f"{run.edges:,} | {run.lines:,} | {run.kept:,}"
        cost = f"{run.rate:,.0f} | {run.slowest:g} ms | {run.growth:g} MiB"
        lines.append(f"| {run.reader} | {run.inputs:,} | {run.read:,} | {reached} | {cost} | {run.findings} |")
    return lines


def results(runs: Sequence[Run]) -> str:
    """Return the whole page in Markdown."""
    lines = [HEAD]
    for title, kind in (("Plain", "no"), ("With AddressSanitizer and UndefinedBehaviorSanitizer", "yes")):
        own = [run for run in runs if run.sanitizers == kind]
        if own:
            lines += [f"## {title}", "", *table(own), ""]
    return "\n".join(lines)
