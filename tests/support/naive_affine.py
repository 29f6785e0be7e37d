"""Interpret affine kernels access by access: the oracle of `tracegen.affine`.

The interpreter is plain Python over the JSON form. It runs the threads one by one and shares no formula with
`tracegen.affine`.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import reject

from rdmodel.trace import WARP, Op
from rdmodel.trace.expansion import expand

OPS = {"load": Op.LOAD, "store": Op.STORE, "atomic": Op.ATOMIC}


def renumbered(pc):
    """Return pcs numbered by first appearance."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(int(one), len(numbers)) for one in pc]


def columns(trace, block):
    return expand(trace.block(block), trace.launch.block_warps)


def shape_of(kernel):
    """Return the values of names that all threads share, the block and the grid."""
    values = dict(kernel.get("parameters", {}))
    size = [*(number(n, values) for n in kernel["block"]), 1, 1][:3]
    values |= dict(zip(("block_size_x", "block_size_y", "block_size_z"), size, strict=True))
    if "grid" in kernel:
        return values, size, [*(number(n, values) for n in kernel["grid"]), 1, 1][:3]
    threads = [*(number(n, values) for n in kernel["threads"]), 1, 1][:3]
    return values, size, [-(-n // s) for n, s in zip(threads, size, strict=True)]


def number(text, values):
    return text if isinstance(text, int) else eval(text, {"min": min, "max": max, **values})  # the tests' own text


def has_loop(body):
    """Return whether a body contains a loop that is not unrolled completely."""
    return any(("for" in s and s.get("unroll") != "none") or ("do" in s and has_loop(s["do"])) for s in body)


class Naive:
    """Interpreter of one block of a kernel in JSON; Python evaluates the expressions, which have its syntax."""

    def __init__(
        self,
        kernel: dict[str, Any],
        block: int,
        base: int = 1 << 28,
        max_steps: int | None = None,
        unroll: int | str = 4,
    ) -> None:
        self.steps, self.max_steps, self.unroll = 0, max_steps, unroll
        self.values, size, grid = shape_of(kernel)
        at = block % grid[0], block // grid[0] % grid[1], block // (grid[0] * grid[1])
        self.threads = []
        for lane in range(prod(size)):
            thread = lane % size[0], lane // size[0] % size[1], lane // (size[0] * size[1])
            ids = {}
            for axis, b, t, s in zip("xyz", at, thread, size, strict=True):
                ids |= {axis: b * s + t, f"block_{axis}": b, f"thread_{axis}": t}
            self.threads.append(ids)
        self.arrays = {}
        for name, shape in kernel["arrays"].items():
            if isinstance(shape, dict):
                continue  # in shared memory, whose accesses are no memory instructions
            extents = [self.number(n) for n in shape]
            self.arrays[name] = base, extents
            base += -(-prod(extents) * 4 // 256) * 256
        warps = -(-len(self.threads) // WARP)
        self.rows: list[list[tuple[Any, ...]]] = [[] for _ in range(warps)]
        self.open: list[list[int]] = [[] for _ in range(warps)]
        self.waiting = [False] * warps
        self.gap = 0
        self.body(kernel["body"], list(range(len(self.threads))), False, "body")

    def number(self, text, thread=None):
        return number(text, {**self.values, **(thread or {})})

    def body(self, statements, active, last, where):
        for i, statement in enumerate(statements):
            if active:
                self.statement(statement, active, last, f"{where}[{i}]")

    def statement(self, s, active, last, where):
        self.steps += len(active)
        if self.max_steps is not None and self.steps > self.max_steps:
            reject()  # a kernel that would take minutes here
        if s == "wait":
            for lane in active:
                self.waiting[lane // WARP] = True
        elif s == "barrier":
            self.row(Op.BARRIER, dict.fromkeys(active), False, where)
        elif "flops" in s:
            pass
        elif "gap" in s:
            self.gap += s["gap"]
        elif "if" in s:
            holding = [n for n in active if all(self.number(c, self.threads[n]) for c in s["if"])]
            self.body(s["do"], holding, last, where)
        elif "for" in s:
            self.loop(s, active, where)
        else:
            (kind,) = OPS.keys() & s.keys()
            if s[kind] not in self.arrays:
                return
            self.row(OPS[kind], {n: self.address(s[kind], s["at"], n) for n in active}, last, where)

    def loop(self, s, active, where):
        ranges = {}
        for lane in active:
            thread = self.threads[lane]
            ends = self.number(s.get("from", 0), thread), self.number(s["to"], thread)
            ranges[lane] = range(*ends, self.number(s.get("step", 1)))
        trips = max(map(len, ranges.values()))
        for t in range(trips):
            running = [lane for lane in active if t < len(ranges[lane])]
            for lane in running:
                self.threads[lane][s["for"]] = ranges[lane][t]
            self.body(s["do"], running, t == trips - 1, where)
            self.end_iteration(s, t, ranges, running)

    def end_iteration(self, s, t, ranges, running):
        """Make each warp wait if an unrolled body, or the loop, ends for it with iteration `t`."""
        unroll = s.get("unroll", self.unroll)
        for warp in {lane // WARP for lane in running if unroll != "none"}:
            own = max(len(ranges[lane]) for lane in ranges if lane // WARP == warp)
            if (t + 1) % (1 if has_loop(s["do"]) else unroll) == 0 or t + 1 == own:
                self.waiting[warp] = True

    def address(self, array, subscripts, lane):
        base, extents = self.arrays[array]
        index = 0
        for subscript, extent in zip(subscripts, extents, strict=True):
            at = self.number(subscript, self.threads[lane])
            if not 0 <= at < extent:
                raise IndexError(f"{array} {at}")
            index = index * extent + at
        return base + 4 * index

    def row(self, op, addresses, last, where):
        gap, self.gap = self.gap, 0
        for warp in sorted({lane // WARP for lane in addresses}):
            rows, needs = self.rows[warp], 0
            position = sum(row[0] != Op.BARRIER for row in rows)
            if op != Op.LOAD or self.waiting[warp]:
                needs = sum(1 << (position - 1 - p) for p in self.open[warp] if position - 1 - p < 64)
                self.open[warp], self.waiting[warp] = [], False
            if op == Op.LOAD:
                self.open[warp].append(position)
            lanes = {lane % WARP: a for lane, a in addresses.items() if lane // WARP == warp}
            mask = sum(1 << lane for lane in lanes)
            rows.append(
                (op, gap, needs, last and op == Op.LOAD, mask, [a for a in lanes.values() if a is not None], where)
            )


def assert_as_naive(kernel, trace, block, unroll=4):
    got, naive = columns(trace, block), Naive(kernel, block, unroll=unroll)
    assert np.diff(got.warp_start).tolist() == [len(rows) for rows in naive.rows]
    for i, (op, gap, needs, last, mask, addresses, where) in enumerate(row for rows in naive.rows for row in rows):
        at = f"block {block}, row {i}, {where}"
        assert (got.op[i], got.mask[i]) == (op, mask), at
        assert got.addresses[got.address_start[i] : got.address_start[i + 1]].tolist() == addresses, at
        assert (got.gap[i], int(got.needs[i]), got.loop_exit[i]) == (gap, needs, last), at
    places = [row[-1] for rows in naive.rows for row in rows]
    assert renumbered(got.pc) == [dict(zip(dict.fromkeys(places), range(len(places)), strict=False))[p] for p in places]
