"""The committed record of simulated tiles, and its page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

from validation.record import from_csv, to_csv
from validation.tiles.measure import FOLDER, GPUS, STUDIES, Row, tasks

SIMULATED = FOLDER / "simulated.csv"
RESULTS = FOLDER / "RESULTS.md"

QUICK = tuple(
    task
    for task in tasks()
    if task[1:]
    in {("transpose.tiled", "TI=32 TJ=128"), ("2dconv.tiled", "TI=64 TJ=256"), ("3dconv.tiled", "TI=2 TJ=8 TK=32")}
)
"""Tiles that the tests simulate again."""

NEAR = 1.05
"""A tile is as good as the best one if it takes at most this factor of its time, or moves at most this of its bytes."""

OBJECTIVES = {"cycles": "cycles", "DRAM bytes": "dram_bytes", "L2 bytes": "l2_bytes", "L1 misses": "l1_misses"}
"""What tiles are compared by: names and fields of a row."""


def read() -> list[Row]:
    """Return the recorded rows; none if there is no record yet."""
    return from_csv(Row, SIMULATED.read_text()) if SIMULATED.exists() else []


def write(rows: Iterable[Row]) -> None:
    """Write the record, in the order of `tasks`; a file that is not whole never takes its place."""
    order = {task: at for at, task in enumerate(tasks())}
    known = sorted((row for row in rows if row.key in order), key=lambda row: order[row.key])
    part = SIMULATED.with_suffix(".part")
    part.write_text(to_csv(Row, known))
    part.replace(SIMULATED)


def write_page() -> None:
    """Write the page of the record."""
    RESULTS.write_text(results(read()))


def moved(now: Sequence[Row], recorded: Sequence[Row]) -> list[str]:
    """Return a line for every row that is not what was recorded; runs are deterministic."""
    before = {row.key: row for row in recorded}
    return [f"{before.get(row.key, 'nothing')} -> {row}" for row in now if before.get(row.key) != row]


def results(rows: Sequence[Row]) -> str:
    """Return the page: per GPU and kernel, the best tile and how much the choice matters."""
    parts = [HEAD, sizes()]
    for gpu in GPUS:
        parts += [f"## {gpu}\n", table([row for row in rows if row.gpu == gpu])]
    return "\n".join(parts)


def sizes() -> str:
    """Return the studied kernels, their sizes and the number of tiles."""
    lines = ["| kernel | sizes | tiles |", "|---|---|---|"]
    for study in STUDIES:
        given = " ".join(f"{name}={value}" for name, value in study.sizes.items())
        values = "; ".join(f"{name} {', '.join(map(str, of))}" for name, of in study.tiles.items())
        lines.append(f"| {study.kernel} | {given} | {len(study.all_tiles())}: {values} |")
    return "\n".join(lines) + "\n"


def table(rows: Sequence[Row]) -> str:
    """Return a line per GPU, kernel and objective: the best tile, how many are as good, and how bad others are."""
    lines = [
        "| kernel | by | best tile | value | as good | median | worst |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for study in dict.fromkeys((row.gpu, row.kernel) for row in rows):
        for name, field in OBJECTIVES.items():
            mine = [row for row in rows if (row.gpu, row.kernel) == study]
            found = sorted(((getattr(row, field), row.tile) for row in mine), key=itemgetter(0))
            best, tile = found[0]
            near = sum(value <= NEAR * best for value, _ in found)
            middle, worst = found[len(found) // 2][0] / best, found[-1][0] / best
            lines.append(
                f"| {study[1]} | {name} | {tile} | {best:,} | {near} of {len(found)} | {middle:.2f} | {worst:.2f} |"
            )
    return "\n".join(lines) + "\n"


HEAD = f"""\
# Tiles in the simulator

Written by `python -m validation.tiles --record`.

Every tile of every kernel, all blocks on all SMs, in the simulator: the truth that rankings are held against. `best
tile` has the lowest value of all, the first of those that share it; `as good` are tiles within {NEAR - 1:.0%} of it;
`median` and `worst` are factors by which the median and the worst tile are above it. Rows are in `simulated.csv`.

Tiles with one point per thread make the same trace whatever TK is: they tie.
"""
