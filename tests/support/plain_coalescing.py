"""Coalesce the rows of a trace by looking at every byte of every lane: the oracle of `rdmodel.trace.coalescing`."""

from __future__ import annotations

from rdmodel.trace import WARP, Op, Space
from rdmodel.trace.coalescing import LOCAL, LOOP_EXIT, StoreRule

Row = dict[str, object]
"""One warp instruction as executed: pc, op, space, size, gap, needs, loop_exit and `lanes` from lane to address."""

Request = tuple[int, int, int, tuple[int, ...], int, int, int]
"""One coalesced instruction: op, needs, gap, lines; with details its pc, active lanes and flags as well."""

MACHINE_RULES = (StoreRule.MACHINE, StoreRule.MACHINE_LOADS)


def group_of(lane: int, size: int, request_bytes: int = 128) -> int:
    """Return the number of a lane's group: as many lanes as have `request_bytes`, if each had 1, 2, 4, 8 or 16."""
    rounded = next(unit for unit in (1, 2, 4, 8, 16) if unit >= size)
    return lane // max(1, min(32, request_bytes // rounded))


def bytes_of_groups(row: Row, line: int, request_bytes: int = 128) -> list[dict[int, set[int]]]:
    """Return each group's distinct lines in the order in which its lanes first touch them, with the bytes touched."""
    groups: dict[int, dict[int, set[int]]] = {}
    for lane in sorted(row["lanes"]):
        touched = groups.setdefault(group_of(lane, row["size"], request_bytes), {})
        for byte in range(row["size"]):
            number, within = divmod(row["lanes"][lane] + byte, line)
            touched.setdefault(number, set()).add(within)
    return [groups[group] for group in sorted(groups)]


def lines_of_groups(row: Row, line: int, request_bytes: int = 128) -> list[list[int]]:
    """Return each group's distinct lines in the order in which its lanes first touch them."""
    return [list(group) for group in bytes_of_groups(row, line, request_bytes)]


def sector_masks(row: Row, line: int, sector: int, request_bytes: int = 128) -> list[tuple[int, int]]:
    """Return, for each transaction, the sectors of its line that are touched, and those of which every byte is."""
    masks = []
    for group in bytes_of_groups(row, line, request_bytes):
        for touched in group.values():
            counts = [sum(byte // sector == place for byte in touched) for place in range(line // sector)]
            asked = sum(1 << place for place, count in enumerate(counts) if count)
            full = sum(1 << place for place, count in enumerate(counts) if count == sector)
            masks.append((asked, full))
    return masks


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


def requests(rows: list[Row], line: int, rule: StoreRule, request_bytes: int = 128) -> list[Request]:
    """Return the coalesced instructions of a warp under a store rule, with details."""
    left = []
    waited = 0
    for row in rows:
        kept = remains(row, rule)
        if kept is None:
            waited += row["gap"] if row["op"] == Op.BARRIER else 0
            continue
        op, has_lines = kept
        groups = lines_of_groups(row, line, request_bytes) if has_lines else []
        lines = tuple(n for group in groups for n in group)
        gap = min(row["gap"] + waited, 2**31 - 1)
        flags = (LOCAL if row["space"] == Space.LOCAL else 0) + (LOOP_EXIT if row["loop_exit"] else 0)
        left.append((int(op), row["needs"], gap, lines, row["pc"], len(row["lanes"]), flags))
        waited = 0
    return left


def executed(written: list[tuple]) -> list[Row]:
    """Return rows from those of `random_traces.write_out`, and give barriers the lanes of their masks."""
    names = ("pc", "op", "space", "size", "gap", "needs", "mask", "loop_exit", "cache_op", "lanes")
    rows = [dict(zip(names, values, strict=True)) for values in written]
    for row in rows:
        row["lanes"] = {lane: row["lanes"].get(lane) for lane in range(WARP) if row["mask"] >> lane & 1}
    return rows
