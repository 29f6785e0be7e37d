"""Write the page of results from the records."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

import numpy as np

from validation.tuning.measures import TOP, Quality, baselines, quality, quantile_cells, scores_of, tau
from validation.tuning.predict import Predicted, read_config
from validation.tuning.records import PAGE, PREDICTED_ASSEMBLY, PREDICTED_OLDER, by_space, measured, read
from validation.tuning.searched import search_table
from validation.tuning.spaces import calls_ldg, fits_image

GROUPS: dict[str, Callable[[Predicted], bool]] = {
    "all": lambda row: True,
    "that spill registers": lambda row: row.spilled_bytes > 0,
    "`use_shmem=0 read_only=0`": lambda row: {"use_shmem=0", "read_only=0"} <= _words(row),
    "`use_shmem=0 read_only=1`": lambda row: calls_ldg(read_config(row.config)),
    "`SA=1 SB=1`": lambda row: {"SA=1", "SB=1"} <= _words(row) and not row.spilled_bytes,
    "`SA=0` or `SB=0`": lambda row: bool({"SA=0", "SB=0"} & _words(row)) and not row.spilled_bytes,
    "`SA=1 SB=1 VWM=1`": lambda row: {"SA=1", "SB=1", "VWM=1"} <= _words(row) and not row.spilled_bytes,
    "`VWM=8` or `VWN=8`": lambda row: bool({"VWM=8", "VWN=8"} & _words(row)) and not row.spilled_bytes,
}
"""Points whose times are compared apart; those of GEMM without the ones that spill."""


def _words(row: Predicted) -> set[str]:
    return set(row.config.split())


def ratio_table(rows: Sequence[Predicted], times: Mapping[str, float]) -> list[str]:
    """Return lines with the predicted times over the measured ones, for each group that has points."""
    lines = ["| predicted / measured time of points | number | 10 % | 50 % | 90 % |", "|---|---:|---:|---:|---:|"]
    for name, belongs in GROUPS.items():
        ratios = [row.milliseconds / times[row.config] for row in rows if belongs(row)]
        if ratios:
            lines.append(f"| {name} | {len(ratios)} | {quantile_cells(ratios)} |")
    return [*lines, ""]


def assembly_table(rows: Sequence[Predicted], others: Sequence[Predicted], times: Mapping[str, float]) -> list[str]:
    """Return lines with predicted over measured times: `rows` have assembly for `__ldg`, `others` NVRTC's function."""
    functions = {row.config: row for row in others if not row.failure}
    lines = ["| points | `__ldg` | number | 10 % | 50 % | 90 % | tau |", "|---|---|---:|---:|---:|---:|---:|"]
    for name, fits in (("tiles fit the image", True), ("tiles reach beyond it", False)):
        own = [row for row in rows if not row.failure and fits_image(read_config(row.config)) == fits]
        own = [row for row in own if row.config in functions and row.config in times]
        for kind, found in (("function", [functions[row.config] for row in own]), ("assembly", own)):
            predicted, wanted = np.array([(row.milliseconds, times[row.config]) for row in found]).T
            spread = quantile_cells(predicted / wanted)
            lines.append(f"| {name} | {kind} | {len(found)} | {spread} | {tau(predicted, wanted):.3f} |")
    return [*lines, ""]


def older_table(
    older: Mapping[str, Sequence[Predicted]],
    newer: Mapping[str, Sequence[Predicted]],
    times: Mapping[str, dict[str, float]],
) -> list[str]:
    """Return lines with the quality of predictions with an older assembler, beside those with the newer one."""
    lines = ["| space | `ptxas` | predicted | spill | regret@1 | tau | 10 % | 50 % | 90 % |"]
    lines += ["|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    for space, rows in older.items():
        for release, found in (("13.5", newer[space]), ("12.8", rows)):
            known = [row for row in found if not row.failure]
            spread = quantile_cells([row.milliseconds / times[space][row.config] for row in known])
            each, spilled = rank_space(found, times[space])["rdmodel time"], sum(row.spilled_bytes > 0 for row in known)
            cells = f"{len(known)} of {len(found)} | {spilled} | {each.regret_1:.3f} | {each.tau:.3f}"
            lines.append(f"| {space} | {release} | {cells} | {spread} |")
    return [*lines, ""]


INTRODUCTION = """# Rankings of measured tuning spaces

Written by `python -m validation.tuning` from `measured.csv` (times of the FAIR benchmark hub for auto-tuning,
AutoTuningAssociation/benchmark_hub) and `predicted.csv` (`python -m validation.tuning --sources DIR`, with `DIR` the
folder `kernels` of the hub). All constants are those of `rdmodel gpus NAME --rates`, and none was fitted to these
times. But these spaces are no blind test: three rules were found where points were mispredicted, and then justified by
the hardware: half a memory request per cycle on GA10x, conflicts in the banks of the L1, and short branches that are
predicates. Later rules were found on an H200 (`validation/h100/RESULTS-tuning.md`). Points are tiles of a
`tracegen.cuda.TiledProgram`, as in `rdmodel tiles`. Kernel Tuner compiled the spaces in CUDA, as relocatable code
(`rdmodel.integrations.kernel_tuner.COMPILER_OPTIONS`); the record at d00f60aa and earlier ones lack it. The long
loops of dedispersion and GEMM are run with two lengths and extrapolated; the L2 is as much smaller then as their data
are. GEMM was timed in OpenCL, and its sources are those of the folder `currently_unused` of the hub.

`regret@1` is the measured time of the configuration that is predicted to be the fastest, relative to the least measured
time among the points that were predicted; `regret@5` that of the best of five. `tau` is Kendall's rank correlation
(tau-b). Points are a part of each space where it says so: predicting a point takes seconds, and `--resume` adds points.
"""


def page() -> str:
    """Return the page."""
    times, parts = measured(), [INTRODUCTION]
    spaces = by_space(read())
    for space, rows in spaces.items():
        parts.append(_section(space, rows, times[space]))
    assembly = assembly_table(read(PREDICTED_ASSEMBLY), spaces["convolution"], times["convolution"])
    parts.append("\n".join([ASSEMBLY, *assembly]))
    parts.append("\n".join([OLDER, *older_table(by_space(read(PREDICTED_OLDER)), spaces, times)]))
    parts.append(SEARCHED + search_table({space: (rows, times[space]) for space, rows in spaces.items()}))
    parts.append(NOTES)
    return "\n".join(parts)


def write_page() -> None:
    """Write the page."""
    PAGE.write_text(page())


def rank_space(rows: Sequence[Predicted], times: dict[str, float]) -> dict[str, Quality]:
    """Return the quality of the predicted times and of the baselines; a point without a prediction ranks last."""
    known = [row for row in rows if not row.failure]
    found = [times[row.config] for row in rows]
    scores = scores_of([0.0 if row.failure else row.milliseconds for row in rows])
    traffic = [{name: float(getattr(row, name)) for name in ("warps", "dram_bytes", "l2_bytes")} for row in known]
    return {"rdmodel time": quality(scores, found), **baselines(traffic, [times[row.config] for row in known])}


def _section(space: str, rows: Sequence[Predicted], times: dict[str, float]) -> str:
    known = sorted((row for row in rows if not row.failure), key=attrgetter("milliseconds"))
    lines = [f"## {space} on {rows[0].gpu}: {len(rows)} of {len(times)} points", ""]
    if len(known) < len(rows):
        lines += [f"{len(rows) - len(known)} of the points have no prediction and rank last.", ""]
    lines += ["| ranking | regret@1 | regret@5 | tau |", "|---|---:|---:|---:|"]
    for name, each in rank_space(rows, times).items():
        lines.append(f"| {name} | {each.regret_1:.3f} | {each.regret_5:.3f} | {each.tau:.3f} |")
    lines += ["", *ratio_table(known, times)]
    lines += [f"The {TOP} that are predicted to be the fastest:", ""]
    lines += ["| configuration | predicted ms | measured ms | bound by |", "|---|---:|---:|---|"]
    for row in known[:TOP]:
        lines.append(f"| {row.config} | {row.milliseconds:.3f} | {times[row.config]:.3f} | {_bound(row)} |")
    return "\n".join([*lines, ""])


def _bound(row: Predicted) -> str:
    named = sorted(json.loads(row.terms).items(), key=lambda term: -term[1])[:4]
    shares = ", ".join(f"{name} {100 * value / row.milliseconds:.0f} %" for name, value in named)
    return f"{shares}; {row.warps} warps ({row.limiter})"


ASSEMBLY = """## With the code of nvcc

nvcc, which compiled the measured kernels, has assembly in its headers for `__ldg` (release 13.0 does), and NVRTC, whose
code is predicted above, has a function. `python -m validation.tuning --sources DIR --assembly` predicts the points with
`use_shmem=0 read_only=1` with assembly. The source of these points is not public. It was written from its description,
which leaves open what they do where tiles reach beyond the image.
"""

OLDER = """## With an older assembler

Times belong to the compiler that built the kernels, whose release is not known. `python -m validation.tuning --sources
DIR --ptxas FILE` predicts the points that were measured in CUDA with the registers and the spills of `ptxas` of CUDA
12.8 (`RDMODEL_PTXAS`). The PTX is the same. Points without a prediction rank last. The record of the older assembler is
from d00f60aa, when the code was not relocatable, as is that with assembly above.
"""

SEARCHED = """## What a search finds

The tables above have the estimates of all points. A ranking of many tiles looks at some (docs/tiles.md, "Large
spaces"). This one was made from the predictions above, with five seeds: means, and the greatest number in brackets.
`found / best` is the predicted time of the point that the search ranks first, relative to the least predicted time.

"""

NOTES = """## Explained and unexplained

* **Shared memory or none** (convolution): the load/store units of an SM serve a warp in two cycles, on shared and on
  global memory alike. The time of most points is two cycles per load. Neither has an advantage, and the
  best points load each element once for several results: `block_size_y=1` and `tile_size_y=4`, whose rows the compiler
  finds equal. Where tiles reach beyond the image, each load has its own condition, and no two are merged: all these
  points take the time of 225 loads per result, whatever their tile. The model lets a warp wait for these loads one
  after the other, as in the code of `ptxas`, which is predicted to take up to 1.7 times as long where few warps run.
  The loop that fills shared memory has four conditions in an iteration, and the assembler moves its loads ahead.
* **Constant memory**: the filter's weights are operands of multiply-adds, and take no load. All points use it.
* **Padding** is visible in the L1 wavefronts: it removes conflicts, but these bind few points.
* **The read-only cache without shared memory**: `read_only=1 use_shmem=0` takes 1.1 to 1.5 times as long as predicted
  in eight of ten points, and 9 times in one. Where tiles fit the image, the cause is the compiler: with assembly in the
  place of `__ldg`, the median of predicted / measured is 0.96 (table above). Threads take 48 to 255 registers then, in
  place of 40, and two points spill, among them the slowest. Where tiles reach beyond the image, each load has a
  condition. With assembly, such points are predicted to take 1.9 times as long as they do. On an H200, nvcc's code of
  the same source does take so long (`validation/h100/RESULTS-tuning.md`). So the source of the measured kernels was
  another, or nvcc was an older one, whose code for it was better.
* **Spilled registers.** A thread has these in local memory, and the frames of all threads may exceed the L1 and the L2
  (docs/time.md, "Spilled registers"). Before the model let accesses miss for this (the record at b3ee9fdc), the median
  of predicted / measured was 0.60 for the points of GEMM that spill, and the slowest point of `read_only=1
  use_shmem=0` was predicted to take 6.1 ms with assembly, in place of 18.8; it takes 18.4. Four points of the
  convolution spill in the code of `ptxas` 13.5, and are predicted up to 8 times too slow. With the assembler of
  CUDA 12, three do not spill, and the fourth spills little (`python -m validation.registers`), while the points of
  GEMM that it accepts spill as much. So these four are slow in the code of the newer assembler only: with the older
  one, they are predicted to take 0.78 to 0.99 of their times.
* **Points without a prediction** (convolution): all eight are of `use_shmem=0`. `ptxas` 13.5 gives their threads
  72 to 120 registers, so that no block of 576 to 1024 threads fits on an SM, and a launch would fail. `rank_tiles`
  lists such tiles with this reason. The measured kernels ran, so that their source, which is not public, or their
  compiler was another. They are slow: 199 to 339 of the 398 points are faster.
* **Dedispersion**: loads bind all points alike, and most points differ by less than the error of the prediction, which
  is mostly 12 to 24 % too fast: the first place is chance. `tile_stride_y=0` costs about 3 % more than predicted,
  which is not explained.
* **GEMM**: factors that are read from global memory (`SA=0`, `SB=0`) conflict in banks as in shared memory.
  Without these conflicts, such points are predicted to be twice as fast as they are. A warp waits for factors as often
  as its registers are full, and with the other blocks for DRAM. The median of predicted / measured is nearer to one by
  this (0.84 for all points in the record at 6fb195ec). Short loops are unrolled as by the assembler, so that loads of
  several steps overlap.
* **GEMM, vectors**: the assembler merges words of shared memory that the code loads one by one, but only in arrays
  that are declared with an alignment if it does not know where they will lie (`validation.vectors`). Code for CUDA has
  no such arrays unless it says so (`-rdc=true`). The OpenCL code of this space is taken to be assembled in this way:
  with both factors in shared memory and `VWM=1`, points take the time of words that are loaded one by one. That was
  concluded from these times. OpenCL aligns vectors to their size, so that points with `VWM=4` and `VWN=4` have vectors.
  On an H200 (`validation/h100/RESULTS-tuning.md`), code in CUDA has them everywhere.
"""
