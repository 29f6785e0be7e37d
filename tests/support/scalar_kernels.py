"""Restate irregular kernels in plain Python, one thread at a time: their accesses and their results.

Each restatement is a generator of (operation, array, index) that writes the results of the thread into `out`.
"""

from __future__ import annotations

import re

import numpy as np
import scipy.sparse

from rdmodel.trace import Op
from tracegen.kernel_library import inputs, labelling, mapreduce, trees
from tracegen.kernel_library import sparse as products

L, S, A, B = (int(op) for op in Op)
FAR = 2**31 - 1

GRAPH = inputs.power_law_graph(70, 5, 3)
PARTS = inputs.scattered_graph(90, 2, 1)
MATRIX = inputs.band_matrix(75, 4, 20, 2)
PROSE = b"One fish, two\nfish\n\n red fish blue fish [fish] `red` A\n" * 9 + b"no end"
PAGES = b'<a href="x.org">x</a> hhref="y"\nhref="" href="open\nnone here\n"href="a href="b"\nhrehref="z" ' * 8


def adjacency(matrix):
    ends = zip(matrix.rows.tolist(), matrix.rows.tolist()[1:], strict=False)
    return [list(range(first, last)) for first, last in ends], matrix.columns.tolist(), matrix.values.tolist()


def bounds(array, i):
    yield L, array, i
    yield L, array, i + 1


def spmv(i, out, matrix):
    rows, columns, values = adjacency(matrix)
    if i >= len(rows):
        return
    yield from bounds("rows", i)
    for e in rows[i]:
        yield from ((L, "columns", e), (L, "x", columns[e]), (L, "values", e))
    x = products.vector(matrix.width)
    out["y"][i] = sum(values[e] * float(x[columns[e]]) for e in rows[i])
    yield S, "y", i


def spmv_warp(i, out, matrix):
    rows, columns, values = adjacency(matrix)
    i, lane = divmod(i, 32)
    if i >= len(rows):
        return
    yield from bounds("rows", i)
    for e in rows[i][lane::32]:
        yield from ((L, "columns", e), (L, "x", columns[e]), (L, "values", e))
        out["y"][i] += values[e] * float(products.vector(matrix.width)[columns[e]])
    if lane == 0:
        yield S, "y", i


def bfs_levels(graph, source=0):
    rows, columns, _ = adjacency(graph)
    level, front = {source: 0}, [source]
    for v in front:
        for e in rows[v]:
            if columns[e] not in level:
                level[columns[e]] = level[v] + 1
                front.append(columns[e])
    return level


def bfs_1(v, out, graph, LEVEL):
    rows, columns, _ = adjacency(graph)
    level = bfs_levels(graph)
    if v >= len(rows):
        return
    yield L, "mask", v
    if level.get(v) != LEVEL:
        if level.get(v, FAR) < LEVEL:
            out["cost"][v] = level[v]
        return
    out["cost"][v] = LEVEL
    yield from ((S, "mask", v), (L, "nodes", 2 * v + 1))
    if rows[v]:
        yield L, "nodes", 2 * v
    for e in rows[v]:
        w = columns[e]
        yield from ((L, "edges", e), (L, "visited", w))
        if level[w] > LEVEL:
            yield from (
                (L, "cost", v),
                (S, "cost", w),
                (S, "updating", w),
                (L, "nodes", 2 * v + 1),
                (L, "nodes", 2 * v),
            )
            out["cost"][w] = LEVEL + 1
            out["updating"][w] = 1


def bfs_2(v, out, graph, LEVEL):
    level = bfs_levels(graph)
    if v >= graph.height:
        return
    yield L, "updating", v
    out["visited"][v] = level.get(v, FAR) <= LEVEL + 1
    if level.get(v) == LEVEL + 1:
        yield from ((S, "mask", v), (S, "visited", v), (S, "over", 0), (S, "updating", v))
        out["mask"][v] = out["over"][0] = 1


def shortest(graph, rounds):
    rows, columns, weights = adjacency(graph)
    far = [0] + [FAR] * (len(rows) - 1)
    for _ in range(rounds):
        before = list(far)
        for v, entries in enumerate(rows):
            for e in entries if before[v] < FAR else ():
                far[columns[e]] = min(far[columns[e]], before[v] + int(weights[e]))
    return far


def sssp(v, out, graph, ROUND):
    rows, columns, weights = adjacency(graph)
    if v >= len(rows):
        return
    far = shortest(graph, ROUND)
    out["distance"][v] = min(out["distance"][v] or FAR, far[v]) if v else 0
    yield L, "distance", v
    if far[v] == FAR:
        return
    yield from bounds("rows", v)
    improved = False
    for e in rows[v]:
        w = columns[e]
        yield from ((L, "weights", e), (L, "columns", e), (L, "distance", w))
        if far[v] + weights[e] < far[w]:
            yield from ((A, "distance", w), (L, "rows", v + 1))
            out["distance"][w] = min(out["distance"][w] or FAR, far[v] + int(weights[e]))
            improved = True
    if improved:
        out["changed"][0] = 1
        yield S, "changed", 0


def find_root(parent, v):
    while parent[v] != v:
        v = parent[v]
    return v


def hooked(graph, rounds, last=True):
    """Return the parents before round `rounds`, or in the middle of it."""
    edges = list(zip(graph.sources.tolist(), graph.columns.tolist(), strict=True))
    parent = list(range(graph.height))
    for at in range(rounds + 1):
        before = list(parent)
        if at == rounds and not last:
            return parent
        for v, w in edges:
            high, low = max(before[v], before[w]), min(before[v], before[w])
            parent[high] = min(parent[high], low)
        if at == rounds:
            return parent
        parent = [find_root(parent, v) for v in range(graph.height)]
    return None


def cc_1(e, out, graph, ROUND):
    if e >= len(graph.columns):
        return
    parent = hooked(graph, ROUND, last=False)
    out["parent"][:] = hooked(graph, ROUND)
    v, w = int(graph.sources[e]), int(graph.columns[e])
    yield from ((L, "sources", e), (L, "targets", e), (L, "parent", v), (L, "parent", w))
    if parent[v] != parent[w]:
        yield A, "parent", max(parent[v], parent[w])


def cc_2(v, out, graph, ROUND):
    if v >= graph.height:
        return
    parent = hooked(graph, ROUND)
    yield L, "parent", v
    at = parent[v]
    yield L, "parent", at
    while parent[at] != at:
        at = parent[at]
        yield from ((S, "parent", v), (L, "parent", at))
    out["parent"][v] = at


def coloured(graph, rounds):
    rows, columns, _ = adjacency(graph)
    order, colour = labelling.priorities(graph).tolist(), {}
    for at in range(rounds):
        rest = [v for v in range(graph.height) if v not in colour]
        best = {v: max((order[columns[e]] for e in rows[v] if columns[e] not in colour), default=-1) for v in rest}
        colour |= {v: at for v in rest if order[v] > best[v]}
    return colour


def color_1(v, out, graph, ROUND):
    rows, columns, _ = adjacency(graph)
    if v >= len(rows):
        return
    colour, order = coloured(graph, ROUND), labelling.priorities(graph).tolist()
    yield L, "colour", v
    if v in colour:
        out["highest"][v] = labelling.colours(graph, ROUND)[1][v]
        return
    yield from bounds("rows", v)
    best = -1
    for e in rows[v]:
        yield from ((L, "columns", e), (L, "colour", columns[e]))
        if columns[e] not in colour:
            yield L, "priority", columns[e]
            best = max(best, order[columns[e]])
    out["highest"][v] = best
    yield S, "highest", v


def color_2(v, out, graph, ROUND):
    if v >= graph.height:
        return
    before, after = coloured(graph, ROUND), coloured(graph, ROUND + 1)
    out["colour"][v] = after.get(v, -1)
    yield L, "colour", v
    if v not in before:
        yield from ((L, "priority", v), (L, "highest", v))
        yield (S, "colour", v) if v in after else (S, "changed", 0)


def found_in(line, kind):
    """Return the items in a line, each with the number of characters before it is known."""
    if kind == "wc":
        return [(m.group().lower(), m.end()) for m in re.finditer(rb"[a-zA-Z]+", line)]
    found, end = [], 0
    while (start := line.find(b'href="', end) + 6) > 5 and (end := line.find(b'"', start)) >= 0:
        found.append((line[start:end], end))
        end += 1
    return found


def hash_of(characters):
    value = 0
    for c in characters:
        value = (value * 31 + c) % 2**32
    return value


def map_line(i, out, text, kind, *, counting=False):
    lines = text.splitlines(keepends=True)
    if i >= len(lines):
        return
    found = found_in(lines[i], kind)
    if counting:
        yield from bounds("starts", i)
    else:
        yield from ((L, "first", i), *bounds("starts", i))
    slot = sum(len(found_in(line, kind)) for line in lines[:i])
    start = sum(map(len, lines[:i]))
    ends = {end: what for what, end in found}
    for p in range(len(lines[i]) + 1):
        if p < len(lines[i]):
            yield L, "text", start + p
        if p in ends and not counting:
            for array, value in (("hashes", hash_of(ends[p])), ("lengths", len(ends[p])), ("lines", i)):
                if array in out:
                    out[array][slot] = value
                    yield S, array, slot
            slot += 1
    if counting:
        out["counts"][i] = len(found)
        yield S, "counts", i


def iix(i, out, text):
    return map_line(i, out, text, "iix")


def iix_count(i, out, text):
    return map_line(i, out, text, "iix", counting=True)


def wc(i, out, text):
    return map_line(i, out, text, "wc")


def wc_count(i, out, text):
    return map_line(i, out, text, "wc", counting=True)


def ss(p, out, N, M):
    couples = [(i, j) for i in range(N) for j in range(i + 1, N)]
    if p >= len(couples):
        return
    i, j = couples[p]
    yield from ((L, "pairs", 2 * p), (L, "pairs", 2 * p + 1))
    for f in range(M):
        yield from ((L, "features", i * M + f), (L, "features", j * M + f))
    one, other = mapreduce.features(N, M, 0).astype(float)[[i, j]].tolist()
    lengths = [sum(a * a for a in vector) ** 0.5 for vector in (one, other)]
    out["scores"][p] = sum(a * b for a, b in zip(one, other, strict=True)) / (lengths[0] * lengths[1])
    yield S, "scores", p


def btree(i, out, N, M, ORDER):
    query, t = divmod(i, ORDER)
    wanted = int(trees.queries(N, M, 0)[query])
    words, base = 2 * ORDER + 5, ORDER + 2
    nodes = trees.build(N, ORDER, 0).tolist()
    out["answers"][query] = dict(zip(trees.stored_keys(N, 0).tolist(), range(N), strict=True)).get(wanted, -1)
    node = 0
    while not nodes[node][-2]:
        keys = nodes[node][base:-2]
        yield from ((L, "current", query), (L, "nodes", node * words + base + t), (L, "keys", query))
        if keys[t] <= wanted:
            yield L, "nodes", node * words + base + t + 1
            if keys[t + 1] > wanted:
                yield from ((L, "offset", query), (L, "nodes", node * words + 1 + t), (S, "offset", query))
        if t == 0:
            yield from ((L, "offset", query), (S, "current", query))
        node = next(nodes[node][1 + c] for c in range(ORDER) if keys[c] <= wanted < keys[c + 1])
    yield from ((L, "current", query), (L, "nodes", node * words + base + t), (L, "keys", query))
    if nodes[node][base + t] == wanted:
        yield from ((L, "nodes", node * words + 1 + t), (L, "records", nodes[node][1 + t]), (S, "answers", query))


CASES = [
    ("spmv", spmv, {"matrix": MATRIX}),
    ("spmv.warp", spmv_warp, {"matrix": inputs.band_matrix(20, 40, 0, 1)}),
    ("bfs.1", bfs_1, {"graph": GRAPH, "LEVEL": 2}),
    ("bfs.2", bfs_2, {"graph": GRAPH, "LEVEL": 1}),
    ("sssp", sssp, {"graph": GRAPH, "ROUND": 2}),
    ("sssp", sssp, {"graph": GRAPH, "ROUND": 100}),
    ("cc.1", cc_1, {"graph": PARTS, "ROUND": 0}),
    ("cc.1", cc_1, {"graph": PARTS, "ROUND": 1}),
    ("cc.2", cc_2, {"graph": PARTS, "ROUND": 0}),
    ("color.1", color_1, {"graph": GRAPH, "ROUND": 1}),
    ("color.2", color_2, {"graph": GRAPH, "ROUND": 1}),
    ("iix", iix, {"text": PAGES}),
    ("iix.count", iix_count, {"text": PAGES}),
    ("wc", wc, {"text": PROSE}),
    ("wc.count", wc_count, {"text": PROSE}),
    ("ss", ss, {"N": 9, "M": 5}),
    ("btree", btree, {"N": 50, "M": 12, "ORDER": 4}),
]


def accesses_by_thread(trace, arrays=None):
    """Return {thread: [(op, array, index), ...]} of a trace, in program order, without barriers."""
    c, launch = trace.columns, trace.launch
    arrays = arrays or launch.arrays
    bases, names = np.array([a.base for a in arrays]), [a.name for a in arrays]
    found = {t: [] for t in range(launch.threads)}
    for w in range(c.warps):
        block, warp = divmod(w, launch.block_warps)
        for row in range(c.warp_start[w], c.warp_start[w + 1]):
            lanes = [lane for lane in range(32) if int(c.mask[row]) >> lane & 1]
            for lane, address in zip(lanes, c.addresses[c.address_start[row] : c.address_start[row + 1]], strict=False):
                at = int(np.searchsorted(bases, address, side="right")) - 1
                access = int(c.op[row]), names[at], int(address - bases[at]) // int(c.size[row])
                found[block * launch.block_threads + warp * 32 + lane].append(access)
    return found


def matrix_of(graph):
    return scipy.sparse.csr_array((graph.values, graph.columns, graph.rows), shape=(graph.height, graph.width))
