"""Read plain traces in a few lines of Python, as an oracle, and draw random files of each format."""

from __future__ import annotations

import csv
from dataclasses import dataclass

from hypothesis import strategies as st

from rdmodel.trace import LAST_ADDRESS

LOAD, STORE, ATOMIC = 0, 1, 2
OPERATIONS = {"load": LOAD, "L": LOAD, "r": LOAD, "Store": STORE, "1": STORE, "WRITE": STORE, "a": ATOMIC}
NAMES = {"addr": "address", "bytes": "size", "tid": "thread", "rw": "op"}


@dataclass
class Line:
    """A line that accesses memory: its accesses as (op, size, address), and its instruction."""

    accesses: list[tuple[int, int, int]]
    thread: int | None = None
    gap: int = 0
    pc: int | None = None


def pieces(op, size, address):
    return [(op, min(16, size - at), address + at) for at in range(0, size, 16)]


def number(text):
    return int(text, 16) if text.startswith("0x") else int(text)


def lines_of(text, form, block_threads):
    """Return the lines of a file that access memory."""
    rows = [line.strip() for line in text.splitlines()]
    rows = [row for row in rows if row and not row.startswith("#")]
    if form == "addresses":
        return [Line(pieces(LOAD, 4, number(row))) for row in rows]
    if form == "csv":
        return [csv_line(row, block_threads) for row in csv.DictReader(rows, skipinitialspace=True)]
    found, fetched, pc = [], 0, None
    for row in rows:
        label, address, size = lackey_words(row) if form == "lackey" else dinero_words(row)
        if label == "":
            continue
        if label in ("I", "2", "i"):
            fetched, pc = fetched + 1, address & 0x7FFFFFFF
            continue
        ops = (LOAD, STORE) if (form, label) == ("lackey", "M") else (int(label in ("S", "1", "w")),)
        accesses = [piece for op in ops for piece in pieces(op, size, address)]
        found.append(Line(accesses, gap=max(fetched - 1, 0), pc=pc))
        fetched = 0
    return found


def csv_line(row, block_threads):
    row = {NAMES.get(name.lower(), name.lower()): value.strip() for name, value in row.items()}
    op = OPERATIONS[row.get("op", "load")]
    line = Line(pieces(op, number(row.get("size", "4")), number(row["address"])))
    if "pc" in row:
        line.pc = number(row["pc"]) & 0x7FFFFFFF
    if "warp" in row:
        block, warp = int(row.get("block", 0)), int(row["warp"])
        if "block" not in row:
            block, warp = divmod(warp, -(-block_threads // 32))
        line.thread = block * block_threads + 32 * warp + int(row["lane"])
    elif "thread" in row:
        line.thread = int(row.get("block", 0)) * block_threads + int(row["thread"])
    return line


def lackey_words(row):
    if row[:2] in ("==", "--", "SB"):
        return "", 0, 0
    address, size = row[1:].strip().split(",")
    return row[0], int(address, 16), int(size)


def dinero_words(row):
    label, address, *rest = row.split()
    given = label.isalpha() or (len(rest) == 1 and rest[0].isdigit())
    return label, int(address, 16), int(rest[0], 16) if given else 4


def read_plainly(text, form, block_threads, threads):
    """Return {(block, warp): [(pc, gap, op, size, {lane: address})]} for every warp that accesses memory."""
    by_warp = {}
    for turn, line in enumerate(lines_of(text, form, block_threads)):
        thread = turn % threads if line.thread is None else line.thread
        block, local = divmod(thread, block_threads)
        by_warp.setdefault((block, local // 32), {}).setdefault(local % 32, []).append(line)
    return {warp: instructions(by_warp[warp]) for warp in sorted(by_warp)}


def instructions(lanes):
    """Return the instructions of a warp from the lines of its lanes."""
    found = []
    for k in range(max(map(len, lanes.values()))):
        step = {lane: lines[k] for lane, lines in sorted(lanes.items()) if k < len(lines)}
        for j in range(max(len(line.accesses) for line in step.values())):
            parts = {}
            for lane, line in step.items():
                if j < len(line.accesses):
                    op, size, address = line.accesses[j]
                    pc = op if line.pc is None else line.pc
                    part = parts.setdefault((pc, op, size), [0, {}])
                    part[0] = max(part[0], line.gap if j == 0 else 0)
                    part[1][lane] = address
            found += [(pc, gap, op, size, of_lane) for (pc, op, size), (gap, of_lane) in parts.items()]
    return found


def rows_of(trace):
    """Return what `read_plainly` returns, of a trace."""
    result = {}
    for block in trace.blocks:
        columns = trace.block(block)
        for warp in range(columns.warps):
            for i in range(columns.warp_start[warp], columns.warp_start[warp + 1]):
                active = [lane for lane in range(32) if columns.mask[i] >> lane & 1]
                held = columns.addresses[columns.address_start[i] : columns.address_start[i + 1]].tolist()
                row = (columns.pc[i], columns.gap[i], columns.op[i], columns.size[i])
                of_lane = dict(zip(active, held, strict=True))
                result.setdefault((int(block), warp), []).append((*map(int, row), of_lane))
    return result


# ---- Random files

SHAPES = [(None, None), ((1, 1, 1), (3, 1, 1)), ((5, 1, 1), None), ((8, 4, 1), (2, 1, 1)), ((33, 1, 1), (2, 1, 1))]
ADDRESS = st.one_of(st.integers(0, 4096), st.integers(0, LAST_ADDRESS - 4096))
SIZE = st.sampled_from([1, 2, 4, 4, 4, 8, 16, 17, 32, 100])
OTHER = st.sampled_from(["", "  \t", "# a comment", "#"])
NAMING = [(), ("tid",), ("block", "thread"), ("warp", "lane"), ("block", "warp", "lane")]


def spelt(draw, value):
    return draw(st.sampled_from([str(value), hex(value), f"0x{value:016x}"]))


def quoted(draw, text):
    return draw(st.sampled_from([text, text, f'"{text}"', f" {text} "]))


@st.composite
def files(draw, form):
    """Return the text of a file, and the shapes of block and grid to read it with."""
    block, grid = draw(st.sampled_from(SHAPES))
    ends = draw(st.sampled_from(["\n", "\r\n", "  \n"]))
    count = draw(st.integers(1, 70))
    if form == "csv":
        naming = draw(st.sampled_from(NAMING))
        rows, block, grid = csv_rows(draw, naming, block, grid, count)
    else:
        make = {"addresses": address_row, "lackey": lackey_row, "dinero": dinero_row}[form]
        rows = [make(draw) for _ in range(count)] + [{"addresses": "0", "lackey": " L 0,4", "dinero": "0 0"}[form]]
        rows += ["  " if form == "addresses" else "I  04,2" if form == "lackey" else "2 4"]
    for _ in range(draw(st.integers(0, 3))):
        rows.insert(draw(st.integers(0, len(rows))), draw(OTHER))
    return ends.join([*rows, ""]), block, grid


def address_row(draw):
    return spelt(draw, draw(ADDRESS))


def lackey_row(draw):
    kind = draw(st.sampled_from(["I ", " L", " S", " M", "I ", "=="]))
    if kind == "==":
        return draw(st.sampled_from(["==12== text, text", "--12-- L 1,2", "SB 04001000"]))
    return f"{kind} {draw(ADDRESS):08x},{draw(SIZE)}"


def dinero_row(draw):
    label = draw(st.sampled_from(["0", "1", "2", "3", "r", "w", "i", "m"]))
    address = draw(st.sampled_from(["", "0x"])) + f"{draw(ADDRESS):x}"
    if label.isalpha():
        return f"{label} {address} {draw(SIZE):x}" + draw(st.sampled_from(["", " a comment"]))
    return f"{label} {address}" + draw(st.sampled_from(["", " 8", " 10", " a comment", " 8 bytes", " add"]))


def csv_rows(draw, naming, block, grid, count):
    if naming:
        block, grid = block or (40, 1, 1), None
    x, y, z = block or (1, 1, 1)
    threads = x * y * z
    columns = [draw(st.sampled_from(["address", "Addr"])), *naming]
    columns += draw(st.lists(st.sampled_from(["bytes", "rw", "pc", "kernel name"]), unique=True))
    columns = draw(st.permutations(columns))
    rows = [",".join(columns)]
    for _ in range(count):
        thread = draw(st.integers(0, threads - 1))
        number_of_block = draw(st.integers(0, 3))
        warp = thread // 32 + (0 if "block" in naming else -(-threads // 32) * number_of_block)
        values = {
            "tid": str(thread + number_of_block * threads),
            "thread": str(thread),
            "block": str(number_of_block),
            "warp": str(warp),
            "lane": str(thread % 32),
            "bytes": str(draw(SIZE)),
            "rw": draw(st.sampled_from(list(OPERATIONS))),
            "pc": spelt(draw, draw(st.integers(0, 3))),
            "kernel name": draw(st.sampled_from(["f", '"f(int, ""x"")"', ""])),
        }
        address = quoted(draw, spelt(draw, draw(ADDRESS)))
        rows.append(",".join(values.get(name, address) for name in columns))
    return rows, block, grid
