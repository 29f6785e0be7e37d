"""Restate the kernels of the CUDA SDK, Rodinia and Parboil in plain Python, one access of one thread at a time."""

from __future__ import annotations

from types import SimpleNamespace

from rdmodel.trace import Op

L, S = int(Op.LOAD), int(Op.STORE)
BARRIER = (int(Op.BARRIER), "", 0)


# ---- what a thread t does: t.x, t.y in block t.bx, t.by of t.width x t.height threads, in a grid t.blocks wide


def blackscholes(t, OPT_N, BLOCKS):
    option = t.bx * t.width + t.x
    while option < OPT_N:
        yield from ((L, name, option) for name in ("StockPrice", "OptionStrike", "OptionYears"))
        yield from ((S, "Call", option), (S, "Put", option))
        option += BLOCKS * t.width


def scalarprod(t, VECTOR_N, ELEMENT_N, ACCUM_N, BLOCKS):
    vector = t.bx
    while vector < VECTOR_N:
        for accumulator in range(ACCUM_N):
            if accumulator % t.width == t.x:
                for element in range(ELEMENT_N):
                    if element % ACCUM_N == accumulator:
                        yield from ((L, "A", vector * ELEMENT_N + element), (L, "B", vector * ELEMENT_N + element))
        terms = ACCUM_N
        while terms > 1:
            yield BARRIER
            terms //= 2
        yield BARRIER
        if t.x == 0:
            yield S, "C", vector
        vector += BLOCKS


def vectoradd(t, N):
    i = t.bx * t.width + t.x
    if i < N:
        yield from ((L, "A", i), (L, "B", i), (S, "C", i))


def log2_in_shared_memory(LOG2N, ELEMENTARY_LOG2SIZE):
    while LOG2N > ELEMENTARY_LOG2SIZE:
        LOG2N -= 2
    return LOG2N


def fwt_1(t, LOG2N, ELEMENTARY_LOG2SIZE):
    n = 2 ** log2_in_shared_memory(LOG2N, ELEMENTARY_LOG2SIZE)
    mine = [t.bx * n + i for i in range(n) if i % (n // 4) == t.x]
    yield from ((L, "data", i) for i in mine)
    stride = n // 4
    while stride:
        yield BARRIER
        stride //= 4
    if n not in (4**e for e in range(12)):
        yield BARRIER
    yield BARRIER
    yield from ((S, "data", i) for i in mine)


def fwt_2(t, LOG2N, ELEMENTARY_LOG2SIZE, STAGE):
    stride, i = 2**LOG2N // 4, t.bx * t.width + t.x
    for _ in range(STAGE):
        stride //= 4
    if i < 2**LOG2N // 4:
        butterfly, low = divmod(i, stride)
        four = [butterfly * 4 * stride + low + q * stride for q in range(4)]
        yield from ((L, "data", i) for i in four)
        yield from ((S, "data", i) for i in four)


def halo(cells, stop):
    return [cell for cell in cells if 0 <= cell < stop]


def convsep_rows(t, W, H, BLOCKDIM_X, BLOCKDIM_Y, RESULT_STEPS, HALO_STEPS):
    y, left = t.by * BLOCKDIM_Y + t.y, t.bx * RESULT_STEPS * BLOCKDIM_X
    results = [left + step * BLOCKDIM_X + t.x for step in range(RESULT_STEPS)]
    before = [left - (HALO_STEPS - step) * BLOCKDIM_X + t.x for step in range(HALO_STEPS)]
    after = [left + (RESULT_STEPS + step) * BLOCKDIM_X + t.x for step in range(HALO_STEPS)]
    yield from ((L, "Input", y * W + x) for x in results + halo(before + after, W))
    yield BARRIER
    yield from ((S, "Buffer", y * W + x) for x in results)


def convsep_columns(t, W, H, BLOCKDIM_X, BLOCKDIM_Y, RESULT_STEPS, HALO_STEPS):
    x, top = t.bx * BLOCKDIM_X + t.x, t.by * RESULT_STEPS * BLOCKDIM_Y
    results = [top + step * BLOCKDIM_Y + t.y for step in range(RESULT_STEPS)]
    before = [top - (HALO_STEPS - step) * BLOCKDIM_Y + t.y for step in range(HALO_STEPS)]
    after = [top + (RESULT_STEPS + step) * BLOCKDIM_Y + t.y for step in range(HALO_STEPS)]
    yield from ((L, "Buffer", y * W + x) for y in results + halo(before + after, H))
    yield BARRIER
    yield from ((S, "Output", y * W + x) for y in results)


def mcpi(t, NUM_SIMS, BLOCKS):
    point = t.bx * t.width + t.x
    while point < NUM_SIMS:
        yield from ((L, "points", point), (L, "points", NUM_SIMS + point))
        point += BLOCKS * t.width
    yield BARRIER
    terms = t.width
    while terms > 1:
        yield BARRIER
        terms //= 2
    if t.x == 0:
        yield S, "results", t.bx


def tile(t, tile_x, tile_y, columns, size):
    corner = tile_y * size * columns + tile_x * size
    if t.x == 0:
        yield L, "matrix", corner
    own = [corner + (y + 1) * columns + t.x + 1 for y in range(size)]
    yield from ((L, "reference", cell) for cell in own)
    yield BARRIER
    yield L, "matrix", corner + (t.x + 1) * columns
    yield BARRIER
    yield L, "matrix", corner + t.x + 1
    yield BARRIER
    for _ in range(size):  # the waves that grow
        yield BARRIER
    for _ in range(size - 1):  # and those that shrink
        yield BARRIER
    yield from ((S, "matrix", cell) for cell in own)


def nw_1(t, N, BLOCK_SIZE, DIAGONAL):
    launch = N // BLOCK_SIZE - DIAGONAL  # counted from 1, as is what the launch has of tiles
    return tile(t, t.bx, launch - 1 - t.bx, N + 1, BLOCK_SIZE)


def nw_2(t, N, BLOCK_SIZE, DIAGONAL):
    tiles = N // BLOCK_SIZE
    launch = tiles - 1 - DIAGONAL
    return tile(t, t.bx + tiles - launch, tiles - t.bx - 1, N + 1, BLOCK_SIZE)


def hotspot(t, ROWS, COLS, BLOCK_SIZE, PYRAMID_HEIGHT):
    side = BLOCK_SIZE - 2 * PYRAMID_HEIGHT
    x, y = side * t.bx - PYRAMID_HEIGHT + t.x, side * t.by - PYRAMID_HEIGHT + t.y
    inside = x in range(COLS) and y in range(ROWS)
    if inside:
        yield from ((L, "temp_src", y * COLS + x), (L, "power", y * COLS + x))
    yield BARRIER
    for step in range(PYRAMID_HEIGHT):
        kept = range(step + 1, BLOCK_SIZE - step - 1)
        computed = inside and t.x in kept and t.y in kept
        yield BARRIER
        if step < PYRAMID_HEIGHT - 1:
            yield BARRIER
    if computed:
        yield S, "temp_dst", y * COLS + x


def srad_places(t, ROWS, COLS, BLOCK_SIZE):
    x, y = t.bx * BLOCK_SIZE + t.x, t.by * BLOCK_SIZE + t.y
    north = (t.by * BLOCK_SIZE - 1 if t.by else 0) * COLS + x
    south = ((t.by + 1) * BLOCK_SIZE if (t.by + 1) * BLOCK_SIZE < ROWS else ROWS - 1) * COLS + x
    west = y * COLS + (t.bx * BLOCK_SIZE - 1 if t.bx else 0)
    east = y * COLS + ((t.bx + 1) * BLOCK_SIZE if (t.bx + 1) * BLOCK_SIZE < COLS else COLS - 1)
    return y * COLS + x, north, south, west, east


def srad_1(t, **sizes):
    here, north, south, west, east = srad_places(t, **sizes)
    yield from ((L, "J", north), (L, "J", south), BARRIER, (L, "J", west), (L, "J", east), BARRIER)
    yield from ((L, "J", here), BARRIER, BARRIER)
    yield from ((S, name, here) for name in ("C", "E_C", "W_C", "S_C", "N_C"))


def srad_2(t, **sizes):
    here, _, south, _, east = srad_places(t, **sizes)
    yield from ((L, "J", here), BARRIER, (L, "C", south), BARRIER, (L, "C", east), BARRIER, (L, "C", here), BARRIER)
    yield from ((L, name, here) for name in ("N_C", "S_C", "W_C", "E_C"))
    yield from (BARRIER, (S, "J", here))


def streamcluster(t, NUM, DIM, K, X):
    i = t.bx * t.width + t.x
    if i < NUM:
        for d in range(DIM):
            yield from ((L, "coord", d * NUM + i), (L, "coord", d * NUM + X))
        weight, cost = 8 * i, 8 * i + 6  # in words of a struct {float; pointer; long; float; }
        yield from ((L, "p", weight), (L, "p", cost), (S, "switch_membership", i), (L, "p", cost))
        yield from ((L, "work_mem", i * (K + 1) + K), (S, "work_mem", i * (K + 1) + K))


def backprop_1(t, IN, BLOCK_SIZE):
    unit = BLOCK_SIZE * t.by + t.y
    weight = (BLOCK_SIZE + 1) * (unit + 1) + t.x + 1
    if t.x == 0:
        yield L, "input", unit + 1
    yield from (BARRIER, (L, "input_hidden", weight), BARRIER, BARRIER)
    power = 2
    while power <= BLOCK_SIZE:
        yield BARRIER
        power *= 2
    yield from ((S, "input_hidden", weight), BARRIER)
    if t.x == 0:
        yield S, "partial_sum", t.by * BLOCK_SIZE + t.y


def backprop_2(t, IN, BLOCK_SIZE):
    unit = BLOCK_SIZE * t.by + t.y + 1
    weight = (BLOCK_SIZE + 1) * unit + t.x + 1
    change = [(L, "hidden_delta", t.x + 1), (L, "input", unit), (L, "prev_weights", weight)]
    yield from (*change, (L, "input_hidden", weight), (S, "input_hidden", weight))
    yield from (*change, (S, "prev_weights", weight), BARRIER)
    if t.by == 0 and t.y == 0:
        change = [(L, "hidden_delta", t.x + 1), (L, "prev_weights", t.x + 1)]
        yield from (*change, (L, "input_hidden", t.x + 1), (S, "input_hidden", t.x + 1))
        yield from (*change, (S, "prev_weights", t.x + 1))


def kmeans_invert(t, NPOINTS, NFEATURES, NCLUSTERS):
    i = t.bx * t.width + t.x
    if i < NPOINTS:
        for f in range(NFEATURES):
            yield from ((L, "feature_flipped", i * NFEATURES + f), (S, "feature", f * NPOINTS + i))


def nearest(t, array, address, NPOINTS, NFEATURES, NCLUSTERS):
    i = t.bx * t.width + t.x
    if i < NPOINTS:
        for c in range(NCLUSTERS):
            for f in range(NFEATURES):
                yield from ((L, array, address(i, f)), (L, "clusters", c * NFEATURES + f))
        yield S, "membership", i


def kmeans_row(t, **sizes):
    return nearest(t, "feature_flipped", lambda i, f: i * sizes["NFEATURES"] + f, **sizes)


def kmeans_col(t, **sizes):
    return nearest(t, "feature", lambda i, f: f * sizes["NPOINTS"] + i, **sizes)


def stencil3d(t, NX, NY, NZ):
    def at(x, y, z):
        return (z * NY + y) * NX + x

    x, y, z = t.x, t.bx + 1, t.by + 1
    if x > 0:
        yield from ((L, "A0", at(x, y, z + 1)), (L, "A0", at(x, y, z - 1)))
        yield from ((L, "A0", at(x, y + 1, z)), (L, "A0", at(x, y - 1, z)))
        yield from ((L, "A0", at(x + 1, y, z)), (L, "A0", at(x - 1, y, z)), (L, "A0", at(x, y, z)))
        yield S, "Anext", at(x, y, z)


CONVOLUTION = {"BLOCKDIM_X": 8, "BLOCKDIM_Y": 4, "RESULT_STEPS": 2}
CASES = [
    ("blackscholes", blackscholes, {"OPT_N": 1000, "BLOCKS": 3}),
    ("scalarprod", scalarprod, {"VECTOR_N": 5, "ELEMENT_N": 1100, "ACCUM_N": 512, "BLOCKS": 2}),
    ("vectoradd", vectoradd, {"N": 600}),
    ("fwt.1", fwt_1, {"LOG2N": 10, "ELEMENTARY_LOG2SIZE": 7}),
    ("fwt.1", fwt_1, {"LOG2N": 9, "ELEMENTARY_LOG2SIZE": 7}),
    ("fwt.1", fwt_1, {"LOG2N": 5, "ELEMENTARY_LOG2SIZE": 11}),
    ("fwt.2", fwt_2, {"LOG2N": 11, "ELEMENTARY_LOG2SIZE": 7, "STAGE": 0}),
    ("fwt.2", fwt_2, {"LOG2N": 11, "ELEMENTARY_LOG2SIZE": 7, "STAGE": 1}),
    ("fwt.2", fwt_2, {"LOG2N": 8, "ELEMENTARY_LOG2SIZE": 4, "STAGE": 1}),
    ("convsep.rows", convsep_rows, {"W": 48, "H": 8, **CONVOLUTION, "HALO_STEPS": 1}),
    ("convsep.rows", convsep_rows, {"W": 32, "H": 4, **CONVOLUTION, "HALO_STEPS": 3}),
    ("convsep.columns", convsep_columns, {"W": 16, "H": 24, **CONVOLUTION, "HALO_STEPS": 1}),
    ("convsep.columns", convsep_columns, {"W": 8, "H": 16, **CONVOLUTION, "HALO_STEPS": 3}),
    ("mcpi", mcpi, {"NUM_SIMS": 1000, "BLOCKS": 3}),
    ("nw.1", nw_1, {"N": 80, "BLOCK_SIZE": 16, "DIAGONAL": 0}),
    ("nw.1", nw_1, {"N": 40, "BLOCK_SIZE": 8, "DIAGONAL": 3}),
    ("nw.2", nw_2, {"N": 80, "BLOCK_SIZE": 16, "DIAGONAL": 0}),
    ("nw.2", nw_2, {"N": 40, "BLOCK_SIZE": 8, "DIAGONAL": 2}),
    ("hotspot", hotspot, {"ROWS": 30, "COLS": 43, "BLOCK_SIZE": 16, "PYRAMID_HEIGHT": 2}),
    ("hotspot", hotspot, {"ROWS": 20, "COLS": 9, "BLOCK_SIZE": 7, "PYRAMID_HEIGHT": 3}),
    ("srad.1", srad_1, {"ROWS": 48, "COLS": 64, "BLOCK_SIZE": 16}),
    ("srad.1", srad_1, {"ROWS": 8, "COLS": 24, "BLOCK_SIZE": 8}),
    ("srad.2", srad_2, {"ROWS": 48, "COLS": 64, "BLOCK_SIZE": 16}),
    ("srad.2", srad_2, {"ROWS": 24, "COLS": 8, "BLOCK_SIZE": 8}),
    ("streamcluster", streamcluster, {"NUM": 600, "DIM": 5, "K": 3, "X": 77}),
    ("backprop.1", backprop_1, {"IN": 48, "BLOCK_SIZE": 16}),
    ("backprop.1", backprop_1, {"IN": 16, "BLOCK_SIZE": 8}),
    ("backprop.2", backprop_2, {"IN": 48, "BLOCK_SIZE": 16}),
    ("backprop.2", backprop_2, {"IN": 16, "BLOCK_SIZE": 8}),
    ("kmeans.invert", kmeans_invert, {"NPOINTS": 300, "NFEATURES": 7, "NCLUSTERS": 3}),
    ("kmeans.row", kmeans_row, {"NPOINTS": 300, "NFEATURES": 7, "NCLUSTERS": 3}),
    ("kmeans.col", kmeans_col, {"NPOINTS": 300, "NFEATURES": 7, "NCLUSTERS": 3}),
    ("stencil3d", stencil3d, {"NX": 40, "NY": 5, "NZ": 6}),
]
BLOCKS = [("blackscholes", 96), ("scalarprod", 96), ("vectoradd", 50), ("fwt.2", 96), ("mcpi", 64), ("kmeans.row", 33)]
KERNELS = {name: scalar for name, scalar, _ in CASES}


def does_by_thread(trace):
    """Return {(block, thread in it): [(op, address), ...]} of a trace, in program order."""
    c = trace.columns
    c.check()
    found = {}
    for w in range(c.warps):
        block, warp = divmod(w, trace.launch.block_warps)
        for row in range(c.warp_start[w], c.warp_start[w + 1]):
            op, addresses = int(c.op[row]), c.addresses[c.address_start[row] : c.address_start[row + 1]].tolist()
            lanes = [lane for lane in range(32) if int(c.mask[row]) >> lane & 1]
            for lane, address in zip(lanes, addresses or [0] * len(lanes), strict=True):
                found.setdefault((block, warp * 32 + lane), []).append((op, address))
    return found


def threads(launch):
    """Yield the (block, thread) and the place of every thread of a launch."""
    (blocks, rows, _), (width, height, _) = launch.grid, launch.block
    for block in range(blocks * rows):
        for thread in range(width * height):
            y, x = divmod(thread, width)
            by, bx = divmod(block, blocks)
            yield (block, thread), SimpleNamespace(x=x, y=y, bx=bx, by=by, width=width, height=height, blocks=blocks)
