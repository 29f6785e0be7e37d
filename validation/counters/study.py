"""Trace the benchmarks from a folder of sources, and predict their counters."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import rdmodel as rd
from rdmodel.errors import TraceError
from rdmodel.trace import Trace
from tracegen import cuda
from tracegen.recording import replay
from validation.counters.cases import CASES, GPU, LAUNCHES, PROGRAMS, Case, Program, read_measured

L1, L2 = "l1tex__t_sectors_pipe_lsu_mem_global_op_", "lts__t_sectors_srcunit_tex_op_"
L2_LOOKUPS = f"{L2}read_lookup"
"""The lookups that hit and those that miss, which the measured rows have, together: no metric of the profiler."""

COUNTERS = {
    "L1 loads hit": f"{L1}ld_lookup_hit.sum",
    "L1 loads missed": f"{L1}ld_lookup_miss.sum",
    "L1 stores hit": f"{L1}st_lookup_hit.sum",
    "L1 stores missed": f"{L1}st_lookup_miss.sum",
    "L2 reads": L2_LOOKUPS,
    "L2 writes": f"{L2}write.sum",
    "DRAM reads": "dram__sectors_read.sum",
    "DRAM writes": "dram__sectors_write.sum",
}
"""Counters of 32-byte sectors that are compared, by the words of the report."""

_SOURCE = re.compile(r'^source = "([^"]+)"$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """One counter of a kernel, in sectors: `engine` is ``predict`` or ``simulate``."""

    case: str
    engine: str
    counter: str
    measured: float
    predicted: float

    @property
    def error(self) -> float | None:
        """Predicted minus measured, in percent of the latter; None for a measured 0."""
        return 100 * (self.predicted - self.measured) / self.measured if self.measured else None


def find_source(sources: Path, name: str) -> Path:
    """Return the file of a benchmark: `sources` holds the suites, or is one of them, or holds the file anywhere."""
    parts = Path(name).parts
    for first in range(len(parts)):
        path = sources.joinpath(*parts[first:])
        if path.is_file():
            return path
    found = sorted(path for path in sources.rglob(parts[-1]) if path.parent.name == parts[-2])
    if not found:
        raise TraceError(f"{sources}: has no file {name}")
    return found[0]


def source_of(case: Case) -> str:
    """Return the source of a case, or the first of its program, below the folder of sources."""
    if case.program is not None:
        return f"{case.program.folder}/{case.program.sources[0]}"
    (name,) = _SOURCE.findall((LAUNCHES / f"{case.name}.toml").read_text())
    return str(name)


def open_trace(case: Case, sources: Path, folder: Path) -> Trace:
    """Return the trace of a case, with its launch file and its inputs, or its program, in `folder`."""
    if case.program is not None:
        return record_program(case.program, sources, folder)
    text = (LAUNCHES / f"{case.name}.toml").read_text()
    source = find_source(sources, source_of(case)).resolve()
    for name, array in case.inputs().items():
        np.save(folder / f"{name}.npy", array)
    file = folder / f"{case.name}.toml"
    file.write_text(_SOURCE.sub(lambda _: f'source = "{source}"', text))
    (trace,) = cuda.launches(file)
    return trace


def record_program(program: Program, sources: Path, folder: Path) -> Trace:
    """Build and record a program in `folder`, and return the trace of its launch."""
    first = Path(program.sources[0])
    source = find_source(sources, f"{program.folder}/{first}").resolve().parents[len(first.parts) - 1]
    for name, text in program.files().items():
        (folder / name).write_text(text)
    files = [str(PROGRAMS / program.main)] if program.main else [str(source / name) for name in program.sources]
    _run_rdmodel(folder, "nvcc", "-O3", f"-I{source}", "-Xcompiler", "-w", *files, "-o", "program")
    _run_rdmodel(folder, "record", "--gpu", GPU, "-o", "recording", "--", "./program", *program.arguments)
    (trace,) = replay.launches(folder / "recording", number=program.launch)
    return trace


def _run_rdmodel(folder: Path, *arguments: str) -> None:
    """Run a command of rdmodel in a folder without its output; raises `TraceError` with it if the command fails."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "rdmodel", *arguments]
    found = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        raise TraceError(f"rdmodel {arguments[0]} failed:\n{found.stdout}{found.stderr}")


def measured_of(case: str) -> dict[str, float]:
    """Return the measured counters of a case, by the words of the report."""
    found = {counter.metric: counter.value for counter in read_measured() if counter.case == case}
    found[f"{L2}write.sum"] = found[f"{L2}write_lookup_hit.sum"] + found[f"{L2}write_lookup_miss.sum"]
    return by_words(found)


def by_words(found: Mapping[str, float]) -> dict[str, float]:
    """Return the counters of metrics by the words of the report, as far as there are metrics for them."""
    lookups = sum(found.get(f"{L2_LOOKUPS}_{end}.sum", 0) for end in ("hit", "miss"))
    with_lookups = {**found, L2_LOOKUPS: lookups}
    return {words: with_lookups[metric] for words, metric in COUNTERS.items() if metric in with_lookups}


def study_case(task: tuple[str, Path, bool]) -> list[Row]:
    """Return the rows of one case by both engines; the simulator only if the task asks for it."""
    name, sources, simulate = task
    case = CASES[name]
    with tempfile.TemporaryDirectory(prefix="rdmodel-") as folder:
        trace = open_trace(case, sources, Path(folder))
        model = rd.predict(trace, GPU, model_sms="all", threads=None, histogram=False, l2=True).metrics()
        found = {"predict": by_words(model)}
        if simulate and case.simulated:
            found["simulate"] = by_words(rd.simulate(trace, GPU).metrics())
    measured = measured_of(name)
    return [
        Row(name, engine, words, measured[words], float(counters[words]))
        for engine, counters in found.items()
        for words in COUNTERS
    ]
