"""Store the records of simulated and of ranked tiles, and write their page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol, TypeVar

from validation.common.records import from_csv, to_csv
from validation.tiling.measure import FOLDER, GPUS, STUDIES, Row, tasks
from validation.tiling.predict import QUICK_OBJECTIVES, Case, Exact, Quick, Ranked, Seconds, cases
from validation.tiling.quality import NEAR_FACTOR, Quality, tables

SIMULATED = FOLDER / "simulated.csv"
RESULTS = FOLDER / "RESULTS.md"
FILES: Mapping[type[Any], Path] = {
    Row: SIMULATED,
    Exact: FOLDER / "predicted.csv",
    Quick: FOLDER / "quick.csv",
    Seconds: FOLDER / "seconds.csv",
}
"""The file of each kind of row."""

QUICK_TASKS = tuple(
    task
    for task in tasks()
    if task[1:]
    in {("transpose.tiled", "TI=32 TJ=128"), ("2dconv.tiled", "TI=64 TJ=256"), ("3dconv.tiled", "TI=2 TJ=8 TK=32")}
)
"""Tiles that the tests simulate and predict again."""

OBJECTIVES = {"cycles": "cycles", "DRAM bytes": "dram_bytes", "L2 bytes": "l2_bytes", "L1 misses": "l1_misses"}
"""Numbers by which tiles are compared: their names, and the fields of a row."""


class _Keyed(Protocol):
    @property
    def key(self) -> tuple[str, ...]: ...


K = TypeVar("K", bound=_Keyed)


def read(kind: type[K]) -> list[K]:
    """Return the recorded rows of a kind; an empty list without a record."""
    path = FILES[kind]
    return from_csv(kind, path.read_text()) if path.exists() else []


def write(kind: type[K], rows: Iterable[K]) -> None:
    """Write the record of a kind in the order of `keys`; an incomplete file never replaces it."""
    order = {key: at for at, key in enumerate(keys(kind))}
    known = sorted((row for row in rows if row.key in order), key=lambda row: order[row.key])
    part = FILES[kind].with_suffix(".part")
    part.write_text(to_csv(kind, known))
    part.replace(FILES[kind])


def keys(kind: type[Any]) -> Sequence[tuple[str, ...]]:
    """Return the keys of all rows of a complete record of a kind, in its order."""
    if kind is Row or kind is Exact:
        return tasks()
    if kind is Quick:
        tiles = {case: [task[2] for task in tasks([case[0]], [case[1]])] for case in cases()}
        return [(*case, objective, tile) for case in cases() for objective in QUICK_OBJECTIVES for tile in tiles[case]]
    efforts: list[tuple[str, str]] = [("cycles", "exact"), *((objective, "quick") for objective in QUICK_OBJECTIVES)]
    return [(*case, *effort) for case in cases() for effort in efforts]


def write_page() -> None:
    """Write the page of the record."""
    RESULTS.write_text(page())


def page() -> str:
    """Return the whole page in Markdown, from the records."""
    parts = [results(read(Row))]
    if exact := read(Exact):
        seconds = {row.key: row.seconds for row in read(Seconds)}
        parts.append(tables(Quality(read(Row), exact, read(Quick)), seconds))
    return "\n".join(parts)


def store(ranked: Ranked) -> None:
    """Replace the recorded rows of some rankings."""
    exact, quick, seconds = ranked
    _renew(Exact, exact)
    _renew(Quick, quick)
    _renew(Seconds, seconds)


def _renew(kind: type[K], rows: Sequence[K]) -> None:
    write(kind, {row.key: row for row in [*read(kind), *rows]}.values())


def ranked_already() -> set[Case]:
    """Return the cases with complete recorded rankings."""
    recorded = {row.key for row in read(Seconds)}
    return {case for case in cases() if all(key in recorded for key in keys(Seconds) if key[:2] == case)}


def differences(now: Sequence[K], recorded: Sequence[K]) -> list[str]:
    """Return a line for every row that differs from the recorded one; runs are deterministic."""
    before = {row.key: row for row in recorded}
    return [f"{before.get(row.key, 'nothing')} -> {row}" for row in now if before.get(row.key) != row]


def results(rows: Sequence[Row]) -> str:
    """Return the simulator's part of the page: per GPU and kernel, the best tile and the cost of other choices."""
    parts = [HEAD, sizes()]
    for gpu in GPUS:
        parts += [f"### {gpu}\n", table([row for row in rows if row.gpu == gpu])]
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
    """Return a line per GPU, kernel and objective: the best tile, the tiles as good, and the factors of others."""
    lines = [
        "| kernel | by | best tile | value | as good | median | worst |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for study in dict.fromkeys((row.gpu, row.kernel) for row in rows):
        for name, field in OBJECTIVES.items():
            mine = [row for row in rows if (row.gpu, row.kernel) == study]
            found = sorted(((getattr(row, field), row.tile) for row in mine), key=itemgetter(0))
            best, tile = found[0]
            near = sum(value <= NEAR_FACTOR * best for value, _ in found)
            middle, worst = found[len(found) // 2][0] / best, found[-1][0] / best
            lines.append(
                f"| {study[1]} | {name} | {tile} | {best:,} | {near} of {len(found)} | {middle:.2f} | {worst:.2f} |"
            )
    return "\n".join(lines) + "\n"


HEAD = f"""\
# Tiles: simulations and rankings

Written by `python -m validation.tiling --record`.

## Simulated tiles

Every tile of every kernel is simulated with all blocks on all SMs; rankings are compared with these results. `best
tile` has the lowest value, and is the first of tiles with equal values. `as good` are tiles within
{NEAR_FACTOR - 1:.0%} of it. `median` and `worst` are the factors by which the median and the worst tile exceed it. Rows
are in `simulated.csv`.

For tiles with one point per thread, the trace does not depend on TK: such tiles tie.
"""
