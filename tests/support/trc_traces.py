"""Write random `.trc` files, list the accesses of a trace that was read, and compare traces by column."""

import numpy as np
from hypothesis import strategies as st

from rdmodel.trace import LAST_ADDRESS, Columns, Op

LOAD, STORE = 0, 1
BLOCKS = [(32, 1, 1), (33, 1, 1), (1, 1, 1), (8, 8, 1), (5, 3, 4), (70, 1, 1)]
GOOD = "blocksize: 32 1 1\n0 0 0 4\n"


def rows_of(trace):
    """Return {(block, warp): [(op, size, {lane: address})]} for every warp that the trace holds."""
    result = {}
    for block in trace.blocks:
        columns = trace.block(block)
        for warp in range(columns.warps):
            rows = result[block, warp] = []
            for i in range(columns.warp_start[warp], columns.warp_start[warp + 1]):
                mask = 0 if columns.op[i] == Op.BARRIER else columns.mask[i]
                active = [lane for lane in range(32) if mask >> lane & 1]
                held = columns.addresses[columns.address_start[i] : columns.address_start[i + 1]]
                rows.append((int(columns.op[i]), int(columns.size[i]), dict(zip(active, held.tolist(), strict=True))))
    return result


def accesses_of(trace):
    """Return {thread: ([loads], [stores])}, each an (address, bytes), in the order of the trace."""
    width = trace.launch.block_threads
    threads = {}
    for (block, warp), rows in rows_of(trace).items():
        for op, size, lanes in rows:
            for lane, address in lanes.items():
                thread = block * width + warp * 32 + lane
                threads.setdefault(thread, ([], []))[op != Op.LOAD].append((address, size))
    return threads


@st.composite
def files(draw):
    """A file of interleaved, divergent threads; some threads and some blocks are missing."""
    block = draw(st.sampled_from(BLOCKS))
    threads = block[0] * block[1] * block[2]
    thread = st.one_of(st.integers(0, 4 * threads - 1), st.integers(0, min(3, threads - 1)))
    address = st.one_of(st.integers(0, 4096), st.integers(0, LAST_ADDRESS))
    line = st.tuples(thread, st.integers(0, 1), address, st.sampled_from([1, 2, 4, 4, 4, 8, 16]))
    lines = draw(st.lists(line, max_size=60))
    lines.insert(draw(st.integers(0, len(lines))), (draw(thread), LOAD, 128, 4))
    body = "".join(" ".join(map(str, fields)) + "\n" for fields in lines)
    return f"blocksize: {block[0]} {block[1]} {block[2]}\n{body}"


def assert_same_columns(one, other, *, only=None):
    names = only or Columns.__dataclass_fields__
    for name in names:
        np.testing.assert_array_equal(getattr(one.columns, name), getattr(other.columns, name), name)
    assert list(one.blocks) == list(other.blocks)
