"""Draw random traces, for tests that store, cut and summarise traces."""

import numpy as np
from hypothesis import strategies as st

from rdmodel.trace import EVERY_ITERATION, WARP, ArrayInfo, Columns, Launch, Op, Segment, Trace
from rdmodel.trace.cache_ops import CACHE_OP_NAMES
from rdmodel.trace.lanes import last_warp_mask

FIELDS = tuple(name for name in Columns.__dataclass_fields__ if name != "cache_op")


class ProgramTrace(Trace):
    """A trace whose blocks are programs, given as a dict."""

    def __init__(self, launch, programs):
        self.launch = launch
        self.programs = programs
        self.blocks = sorted(programs)

    def _repr_pretty_(self, printer, cycle):  # hypothesis would print the fields of the dataclass
        printer.text(f"ProgramTrace({self.launch!r}, {self.programs!r})")

    def block(self, block):
        return self.programs[block]


@st.composite
def launches(draw):
    block = draw(st.sampled_from([(32, 1, 1), (8, 8, 1), (70, 1, 1), (1, 1, 3)]))
    arrays = tuple(ArrayInfo(f"A{i}", base, draw(st.integers(0, 4096))) for i, base in enumerate(range(0, 20000, 8192)))
    return Launch(
        kernel=draw(st.text(max_size=8)),
        grid=(draw(st.integers(1, 3)), draw(st.integers(1, 2)), 1),
        block=block,
        registers=draw(st.integers(0, 63)),
        shared_memory=draw(st.integers(0, 48 << 10)),
        arrays=arrays,
    )


@st.composite
def column_traces(draw, most_rows=6):
    """Draw a trace of some blocks of its grid; warps may be empty."""
    launch = draw(launches())
    blocks = sorted(draw(st.sets(st.integers(0, launch.blocks - 1))))
    lengths = [draw(st.integers(0, most_rows)) for _ in range(len(blocks) * launch.block_warps)]
    n = sum(lengths)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    op = random.integers(0, 4, n)
    mask = random.integers(1, 2**32, n, dtype=np.uint32) >> random.integers(0, 2, n, dtype=np.uint32) * 31
    last = np.arange(len(lengths)) % launch.block_warps == launch.block_warps - 1
    mask = np.maximum(np.where(np.repeat(last, lengths), mask & last_warp_mask(launch), mask), 1)
    lanes = np.where(op == Op.BARRIER, 0, np.bitwise_count(mask))
    high = 1 << draw(st.sampled_from([14, 40, 63]))
    columns = Columns(
        warp_start=np.cumsum([0, *lengths]),
        pc=random.integers(0, 2**31, n),
        op=op,
        space=random.integers(0, 2, n),
        size=random.integers(1, 17, n),
        gap=random.integers(0, 2**31, n),
        needs=random.integers(0, 2**64, n, dtype=np.uint64),
        loop_exit=random.integers(0, 2, n),
        mask=mask,
        address_start=np.cumsum([0, *lanes]),
        addresses=random.integers(0, high, int(lanes.sum())),
        cache_op=cache_ops(random, n),
    )
    return Trace(launch, columns, blocks)


@st.composite
def program_traces(draw):
    """Draw a trace whose blocks are programs with loops; a warp may have no active lanes in an instruction."""
    launch = draw(launches())
    blocks = sorted(draw(st.sets(st.integers(0, launch.blocks - 1), min_size=1)))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), max_size=4)
    return ProgramTrace(
        launch,
        {
            block: [segment(random, launch.block_warps, *shape, last_warp_mask(launch)) for shape in draw(lengths)]
            for block in blocks
        },
    )


def segment(random, warps, trips, body, last_mask=0xFFFFFFFF):
    """Return a random segment of a body of `body` instructions; the last warp has the lanes of `last_mask`."""
    mask = random.integers(0, 2**32, (warps, body), dtype=np.uint32)
    mask[random.random((warps, body)) < 0.3] = 0
    mask[-1] &= np.uint32(last_mask)
    return Segment(
        trips=trips,
        pc=random.integers(0, 99, body, dtype=np.int32),
        op=random.integers(0, 4, body, dtype=np.uint8),
        space=random.integers(0, 2, body, dtype=np.uint8),
        size=random.integers(1, 17, body, dtype=np.uint8),
        gap=random.integers(0, 9, body, dtype=np.int32),
        loop_exit=random.integers(0, EVERY_ITERATION + 1, body).astype(np.uint8),
        needs=random.integers(0, 2**64, (warps, body), dtype=np.uint64),
        mask=mask,
        base=random.integers(4096, 16384, (warps, body, WARP)),
        step=random.integers(-300, 300, body),
        cache_op=cache_ops(random, body),
    )


def cache_ops(random, n):
    """Return random cache operators of n instructions, or None."""
    if random.random() < 0.5:
        return None
    return random.choice(np.array([0, *CACHE_OP_NAMES], np.uint8), n)


def cache_op(part, i):
    return 0 if part.cache_op is None else part.cache_op[i].item()


def write_out(trace):
    """Return {(block, warp): rows} by plain loops; a row has all fields, {lane: address} last."""
    result = {}
    for block in trace.blocks:
        source = trace.block(block)
        for warp in range(trace.launch.block_warps):
            rows = rows_of_columns(source, warp) if isinstance(source, Columns) else rows_of_program(source, warp)
            result[block, warp] = list(rows)
    return result


def rows_of_columns(columns, warp):
    for i in range(columns.warp_start[warp], columns.warp_start[warp + 1]):
        held = columns.addresses[columns.address_start[i] : columns.address_start[i + 1]].tolist()
        lanes = active(columns.op[i], columns.mask[i])
        yield (
            *(getattr(columns, name)[i].item() for name in ("pc", "op", "space", "size", "gap")),
            columns.needs[i].item(),
            columns.mask[i].item(),
            columns.loop_exit[i].item(),
            cache_op(columns, i),
            dict(zip(lanes, held, strict=True)),
        )


def rows_of_program(program, warp):
    for part in program:
        for trip in range(part.trips):
            for i in range(len(part.op)):
                if part.mask[warp, i]:
                    yield (
                        *(getattr(part, name)[i].item() for name in ("pc", "op", "space", "size", "gap")),
                        part.needs[warp, i].item(),
                        part.mask[warp, i].item(),
                        part.loop_exit[i] == EVERY_ITERATION or (bool(part.loop_exit[i]) and trip == part.trips - 1),
                        cache_op(part, i),
                        {
                            lane: int(part.base[warp, i, lane] + trip * part.step[i])
                            for lane in active(part.op[i], part.mask[warp, i])
                        },
                    )


def active(op, mask):
    return [lane for lane in range(WARP) if op != Op.BARRIER and int(mask) >> lane & 1]
