"""Define the hypotheses about the open errors on the GTX 570, and compute the miss rate under each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import rdmodel as rd
from rdmodel.gpu.overrides import override
from rdmodel.trace import Trace
from validation.common import records
from validation.hardware import compiled
from validation.hardware import launches as python
from validation.hardware.rows import Row, read_rows
from validation.hardware.simulated import LAST, MACHINES
from validation.hardware.study import GPU
from validation.hypotheses.reloading import reloading_launches

FOLDER = Path(__file__).parent
CSV = FOLDER / "rates.csv"
RESULTS = FOLDER / "RESULTS.md"

SEEDS = 3
"""Seeds of the model, whose mean is recorded."""

WHOLE_SIZES = {"M": 512, "N": 512}
"""Sizes at which corr.corr runs as a whole in both engines within minutes; the measured sizes would take hours."""

WHOLE = "corr.corr, whole"
PASSES = "corr.corr, by pass"

Engine = Literal["model", "simulator"]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A change of the machine or of the run, as fields of the GPU by dotted name and as options of the engine.

    With `reload`, the code is another one: it loads the sum again before each so many of its terms.
    """

    subject: str
    text: str
    engine: Engine
    fields: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    reload: int = 0


def _model(subject: str, text: str, reload: int = 0, **options: Any) -> Hypothesis:
    return Hypothesis(subject, text, "model", options=options, reload=reload)


def _simulator(subject: str, text: str, sched: str = "lrr", **fields: Any) -> Hypothesis:
    dotted = {name.replace("__", "."): value for name, value in fields.items()}
    return Hypothesis(subject, text, "simulator", dotted, {"sched": sched})


HYPOTHESES = (
    _model("gemm", "as recorded"),
    _model("gemm", "blocks of all SMs under one dispatcher", model_sms="all"),
    *(_model("gemm", f"warps issue by `{sched}`", sched=sched) for sched in ("fifo", "lrr", "gto", "oldest")),
    *(_model("gemm", f"latencies spread by {sigma}", sigma=sigma) for sigma in (400.0, 1600.0)),
    _model("gemm", "latencies of 800 steps", lat_min=800),
    *(_model("gemm", f"the sum is loaded again every {terms} terms", reload=terms) for terms in (2, 4, 8)),
    _simulator("gemm", "as recorded"),
    *(_simulator("gemm", f"warps issue by `{sched}`", sched=sched) for sched in ("two-level", "gto", "old")),
    _simulator("gemm", "the first turn follows the cycle", core__first_scheduler="cycle"),
    _simulator("gemm", "arithmetic takes 50 cycles", core__alu_latency=50),
    _simulator("gemm", "hits take 100 cycles", core__hit_latency=100),
    _simulator("gemm", "the load/store unit holds one instruction", core__ldst_queue=1),
    _simulator("gemm", "an MSHR has room for 2 transactions", l1__mshr_merge=2),
    _simulator("gemm", "8 MSHRs", l1__mshrs=8),
    _simulator("gemm", "lines get their way at the fill", l1__allocate="fill"),
    *(_simulator("gemm", f"{blocks} resident blocks", max_blocks=blocks) for blocks in (2, 4)),
    *(_simulator("gemm", f"an L1 of {4 * ways} KB", l1__size=4096 * ways, l1__ways=ways) for ways in (1, 2, 3)),
    _model(PASSES, "as recorded"),
    _model(PASSES, "the sum is loaded again every 4 terms", reload=4),
    _model(WHOLE, "as recorded"),
    *(_model(WHOLE, f"warps issue by `{sched}`", sched=sched) for sched in ("fifo", "lrr", "gto", "oldest")),
    _model(WHOLE, "latencies do not spread", sigma=0.0),
    _simulator(PASSES, "as recorded"),
    _simulator(WHOLE, "as recorded"),
    *(_simulator(WHOLE, f"warps issue by `{sched}`", sched=sched) for sched in ("two-level", "gto", "old")),
    _simulator(WHOLE, "the first turn follows the cycle", core__first_scheduler="cycle"),
)


@dataclass(frozen=True, slots=True)
class Rate:
    """The L1 miss rate of a subject under a hypothesis, in percent."""

    subject: str
    engine: str
    hypothesis: str
    miss_rate: float


def traces(subject: str, engine: Engine, reload: int = 0) -> list[Trace]:
    """Return the traces of a subject: from kernels in Python for the model, from compiled code for the simulator."""
    launches = python.launches if engine == "model" else compiled.launches
    if subject == "gemm":
        (row,) = (row for row in read_rows() if row.kernel == "gemm")
    else:
        row = Row("corr.corr", WHOLE_SIZES, (256,), (WHOLE_SIZES["M"] // 256,), 0.0, {})
    if reload:
        return reloading_launches(row, reload)
    return launches(row, 1, None if subject == WHOLE else 8)


def run(hypothesis: Hypothesis) -> Rate:
    """Return the miss rate under a hypothesis, with misses and lookups summed over launches."""
    gpu = rd.presets.gpu(GPU)
    found = traces(hypothesis.subject, hypothesis.engine, hypothesis.reload)
    if hypothesis.engine == "model":
        options = {"model_sms": 1, **hypothesis.options}
        predictions = [rd.predict(trace, gpu, seeds=SEEDS, histogram=False, **options) for trace in found]
        misses = sum(prediction.misses.total for prediction in predictions)
        lookups = sum(prediction.transactions for prediction in predictions)
    else:
        gpu = override(gpu, {**{f"core.{name}": value for name, value in MACHINES[LAST].items()}, **hypothesis.fields})
        blocks = None if hypothesis.subject == "gemm" else 1
        runs = [rd.simulate(trace, gpu, blocks=blocks, **hypothesis.options) for trace in found]
        misses, lookups = sum(each.misses.total for each in runs), sum(each.sectors for each in runs)
    return Rate(hypothesis.subject, hypothesis.engine, hypothesis.text, round(100 * misses / lookups, 4))


def page(rates: Sequence[Rate]) -> str:
    """Return the record: a table for each subject."""
    lines = [
        "# Open errors: hypotheses\n",
        "Written by `python -m validation.hypotheses --record`. L1 miss rates in percent, on `gtx570-16k`.",
        f"The model traces kernels in Python, and its rates are means of {SEEDS} seeds on SM 0. The simulator traces",
        "compiled code, and has the core of the last machine of `python -m validation.hardware --simulator`, and `lrr`",
        "unless the line says otherwise. The subjects of corr.corr run their first block only.",
    ]
    measured = {row.kernel: row.measured for row in read_rows()}
    for subject in dict.fromkeys(rate.subject for rate in rates):
        size = "" if subject == "gemm" else f"; here {' '.join(f'{key}={value}' for key, value in WHOLE_SIZES.items())}"
        lines += ["", f"## {subject} (measured {measured[subject.partition(',')[0]]:.1f}{size})", ""]
        lines += ["| engine | hypothesis | miss rate |", "|---|---|---:|"]
        lines += [f"| {r.engine} | {r.hypothesis} | {r.miss_rate:.1f} |" for r in rates if r.subject == subject]
    return "\n".join(lines) + "\n"


def write(rates: Sequence[Rate]) -> None:
    """Renew the committed record."""
    CSV.write_text(records.to_csv(Rate, rates))
    RESULTS.write_text(page(rates))


def read() -> list[Rate]:
    """Return the committed record."""
    return records.from_csv(Rate, CSV.read_text())
