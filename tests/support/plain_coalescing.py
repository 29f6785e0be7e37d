"""Coalesce the rows of a trace by looking at every byte of every lane: the oracle of `rdmodel.trace.coalescing`."""

from __future__ import annotations

from rdmodel.trace import WARP, Op, Space
from rdmodel.trace.coalescing import LOCAL, LOOP_EXIT, StoreRule

Row = dict[str, object]
"""One warp instruction as executed: pc, op, space, size, gap, needs, loop_exit and `lanes` from lane to address."""

Request = tuple[int, int, int, tuple[int, ...], int, int, int]
"""One coalesced instruction: op, needs, gap, lines; with details its pc, active lanes and flags as well."""

MACHINE_RULES = (StoreRule.MACHINE, StoreRule.MACHINE_LOADS)


def group_of(lane: int, size: int) -> int:
    """Return the number of a lane's group: warp, half-warps or quarter-warps (CUDA guide G.4.2)."""
    lanes_together = 32 if size <= 4 else 16 if size <= 8 else 8
    return lane // lanes_together


def lines_of_groups(row: Row, line: int) -> list[list[int]]:
    """Return each group's distinct lines in the order in which its lanes first touch them."""
    groups: dict[int, dict[int, None]] = {}
    for lane in sorted(row["lanes"]):
        touched = groups.setdefault(group_of(lane, row["size"]), {})
        for byte in range(row["size"]):
            touched[(row["lanes"][lane] + byte) // line] = None
    return [list(groups[group]) for group in sorted(groups)]


def remains(row: Row, rule: StoreRule) -> tuple[int, bool] | None:
    """Return the operation of an instruction for the reader and whether it has lines, or None if it is dropped."""
    if row["op"] == Op.BARRIER:
        return (Op.BARRIER, False) if rule in MACHINE_RULES else None
    if row["space"] in (Space.CONSTANT, Space.TEXTURE):
        return None if rule == StoreRule.DROP else (Op.STORE, False)
    if row["op"] == Op.LOAD:
        return Op.LOAD, True
    return {
        StoreRule.DROP: None,
        StoreRule.KEEP: (row["op"], False),
        StoreRule.LINES: (row["op"], True),
        StoreRule.AS_LOAD: (Op.LOAD, True),
        StoreRule.MACHINE: (row["op"], True),
        StoreRule.MACHINE_LOADS: (row["op"], False),
    }[rule]


def requests(rows: list[Row], line: int, rule: StoreRule) -> list[Request]:
    """Return the coalesced instructions of a warp under a store rule, with details."""
    left = []
    waited = 0
    for row in rows:
        kept = remains(row, rule)
        if kept is None:
            waited += row["gap"] if row["op"] == Op.BARRIER else 0
            continue
        op, has_lines = kept
        lines = tuple(n for group in lines_of_groups(row, line) for n in group) if has_lines else ()
        gap = min(row["gap"] + waited, 2**31 - 1)
        flags = (LOCAL if row["space"] == Space.LOCAL else 0) + (LOOP_EXIT if row["loop_exit"] else 0)
        left.append((int(op), row["needs"], gap, lines, row["pc"], len(row["lanes"]), flags))
        waited = 0
    return left


def executed(written: list[tuple]) -> list[Row]:
    """Return rows from those of `random_traces.write_out`, and give barriers the lanes of their masks."""
    names = ("pc", "op", "space", "size", "gap", "needs", "mask", "loop_exit", "lanes")
    rows = [dict(zip(names, values, strict=True)) for values in written]
    for row in rows:
        row["lanes"] = {lane: row["lanes"].get(lane) for lane in range(WARP) if row["mask"] >> lane & 1}
    return rows
