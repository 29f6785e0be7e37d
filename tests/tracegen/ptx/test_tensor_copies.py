"""Test copies of parts of tensors that are no plain boxes, and copies to other blocks of a cluster."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from rdmodel.errors import ConfigError, TraceError
from rdmodel.trace import Op
from tests.support.ptx_kernels import module_of
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.isa.tensor_map import pixel_map, tensor_map

REGISTERS = """
    .reg .b64 %rd<9>; .reg .b32 %r<17>; .reg .b16 %h<5>; .reg .pred %p<5>; .reg .b64 %x, %map, %out; .reg .b32 %rank;
    .shared .align 128 .b8 s[65536]; .shared .align 8 .b64 m;
    ld.param.u64 %x, [x]; mov.b64 %map, map; cvta.param.u64 %map, %map;
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 32, %r1;
    mul.wide.u32 %rd1, %r3, 4; add.s64 %out, %x, %rd1; setp.eq.u32 %p1, %r1, 0; mov.u32 %rank, %cluster_ctarank;
    @%p1 mbarrier.init.shared.b64 [m], 1; bar.sync 0;
"""
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p3, [m], 0; @!%p3 bra W;"


def launch(body: str, map=bytes(128), *, cluster: int = 1, values: bool = False, bytes_of_x: int = 1 << 18):
    """Return the columns of the blocks of one cluster of k(x, map), x, and the address of x."""
    head = ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 x, .param .b8 map[128])"
    directive = f" .reqnctapercluster {cluster}" if cluster > 1 else ""
    machine = LoadedModule(module_of(f"{head}{directive}\n{{{REGISTERS}{body}\n ret;\n}}"))
    buffer = machine.allocate(np.zeros(bytes_of_x, np.uint8), "x")
    given = map(buffer.base) if callable(map) else map
    launched = machine.launch("k", cluster, 32, [buffer, given], values=values, max_instructions=10**5)
    return [launched.run(block) for block in range(cluster)], buffer.array.view(np.uint32), buffer.base


def accessed(columns, base: int, op: Op = Op.LOAD) -> list[int]:
    lanes = np.repeat(columns.op == op, np.diff(columns.address_start))
    return (columns.addresses[lanes] - base).tolist()


def pieces(rows) -> list[int]:
    """The 16-byte pieces of rows (start, bytes)."""
    return [start + at for start, size in rows for at in range(0, size, 16)]


# ---- pixels

SHAPE = (3, 9, 11, 64)  # images, height, width, channels of two bytes
STRIDES = (9 * 11 * 128, 11 * 128, 128)


def naive_pixels(start, offset, *, lower, upper, steps, channels, pixels):
    """The rows of a column of pixels: start = (c, w, h, n), all other numbers along height and width."""
    (c, w0, h0, n0), (off_w, off_h) = start, offset
    heights = range(lower[0], SHAPE[1] - 1 + upper[0] + 1, steps[0])
    widths = range(lower[1], SHAPE[2] - 1 + upper[1] + 1, steps[1])
    order = [(n, h, w) for n, h, w in product(range(n0, n0 + 9), heights, widths)]
    first = order.index((n0, h0, w0))
    rows = []
    for n, h, w in order[first : first + pixels]:
        y, x = h + off_h, w + off_w
        if n < SHAPE[0] and 0 <= y < SHAPE[1] and 0 <= x < SHAPE[2]:
            address = n * STRIDES[0] + y * STRIDES[1] + x * STRIDES[2] + 2 * c
            rows.append((address, 2 * min(channels, SHAPE[3] - c)))
    return rows


@pytest.mark.parametrize(
    ("start", "offset", "corners"),
    [
        ((0, -1, -1, 0), (0, 0), {"lower": (-1, -1), "upper": (-1, -1)}),
        ((16, 3, 2, 1), (2, 1), {"lower": (-1, -1), "upper": (-1, -1)}),
        ((32, 4, 8, 2), (0, 0), {"lower": (0, 0), "upper": (0, 0)}),
        ((0, 0, 0, 0), (1, 2), {"lower": (0, 0), "upper": (-2, -2), "steps": (2, 2)}),
        ((48, 1, -1, 1), (1, 1), {"lower": (-1, -1), "upper": (-1, -1), "steps": (3, 2)}),
    ],
)
def test_a_column_of_pixels_runs_along_the_width_the_height_and_the_images(start, offset, corners):
    steps = corners.get("steps", (1, 1))
    box = {"lower": corners["lower"], "upper": corners["upper"], "channels": 32, "pixels": 40}

    def encoded(base):
        return pixel_map(base, "f16", shape=SHAPE, strides=STRIDES, steps=(1, *steps, 1), **box)

    body = f"""@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], {40 * 64};
    mov.u16 %h1, {offset[0]}; mov.u16 %h2, {offset[1]};
    mov.u32 %r4, {start[0]}; mov.u32 %r5, {start[1]}; mov.u32 %r6, {start[2]}; mov.u32 %r7, {start[3]};
    @%p1 cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes
      [s], [%map, {{%r4, %r5, %r6, %r7}}], [m], {{%h1, %h2}}; {WAIT}"""
    (columns,), _, base = launch(body, encoded)
    assert accessed(columns, base) == pieces(naive_pixels(start, offset, steps=steps, **box))


def test_a_column_of_pixels_is_stored_without_offsets():
    box = {"lower": (0, 0), "upper": (0, 0), "channels": 8, "pixels": 13}

    def encoded(base):
        return pixel_map(base, "f16", shape=SHAPE, strides=STRIDES, **box)

    body = "@%p1 cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%map, {0, 5, 8, 2}], [s];"
    (columns,), _, base = launch(body, encoded)
    expected = pieces(naive_pixels((0, 5, 8, 2), (0, 0), steps=(1, 1), **box))
    assert accessed(columns, base, Op.STORE) == expected
    assert len(expected) == 6  # the tensor ends with this row


@pytest.mark.parametrize("form", ["im2col::w", "im2col::w::128"])
def test_pixels_along_the_width_alone_are_not_followed(form):
    body = f"""@%p1 cp.async.bulk.tensor.4d.shared::cta.global.{form}.mbarrier::complete_tx::bytes
      [s], [%map, {{0, 0, 0, 0}}], [m], {{1, 2}};"""
    with pytest.raises(TraceError, match=rf"{form}\.\S+ cannot be executed: pixels along the width alone"):
        launch(body)


def test_boxes_and_pixels_need_their_own_maps():
    body = """@%p1 cp.async.bulk.tensor.4d.shared::cluster.global.MODE.mbarrier::complete_tx::bytes
      [s], [%map, {0, 0, 0, 0}], [m]OFFSETS;"""
    box = lambda base: tensor_map(base, "f16", shape=SHAPE, strides=STRIDES, box=(1, 1, 1, 8))  # noqa: E731
    with pytest.raises(TraceError, match="the tensor map describes no tensor of this rank"):
        launch(body.replace("MODE", "im2col").replace("OFFSETS", ", {0, 0}"), box)


# ---- rows, steps and packed elements


def matrix(base, **options):
    """A matrix of 40 rows of 100 halves, 208 bytes apart."""
    return tensor_map(base, "f16", shape=(40, 100), strides=(208,), **{"box": (1, 32), **options})


def test_four_rows_are_gathered_by_their_numbers():
    body = f"""@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 256; mov.u32 %r4, 80; mov.u32 %r5, 7; mov.u32 %r6, 40;
    @%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes
      [s], [%map, {{%r4, %r5, 39, 0, %r6}}], [m]; {WAIT}"""
    (columns,), _, base = launch(body, matrix)
    # The row has 20 halves left; row 40 is outside.
    assert accessed(columns, base) == pieces([(208 * row + 160, 40) for row in (7, 39, 0)])


def test_four_rows_are_scattered():
    body = "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%map, {0, 3, 1, 4, 1}], [s];"
    (columns,), _, base = launch(body, matrix)
    assert accessed(columns, base, Op.STORE) == pieces([(208 * row, 64) for row in (3, 1, 4, 1)])


def test_rows_are_gathered_from_maps_of_single_rows_only():
    body = """@%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes
      [s], [%map, {0, 1, 2, 3, 4}], [m];"""
    with pytest.raises(TraceError, match="the tensor map describes no tensor"):
        launch(body, lambda base: matrix(base, box=(2, 32)))


def test_steps_leave_out_rows():
    body = f"""@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], {4 * 64}; mov.u32 %r4, 34;
    @%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
      [s], [%map, {{8, %r4}}], [m]; {WAIT}"""
    (columns,), _, base = launch(body, lambda base: matrix(base, box=(10, 32), steps=(3, 1)))
    assert accessed(columns, base) == pieces([(208 * row + 16, 64) for row in (34, 37)])


@pytest.mark.parametrize(
    ("element", "row", "shared"), [("b4x16", 64, 64), ("b4x16_p64", 64, 128), ("b6x16_p32", 96, 128)]
)
def test_packed_elements_have_four_or_six_bits_in_memory(element, row, shared):
    def encoded(base):
        return tensor_map(base, element, shape=(40, 512), strides=(512,), box=(2, 128))

    body = f"""@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], {2 * shared};
    @%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [s], [%map, {{128, 5}}], [m];
    {WAIT}"""
    (columns,), _, base = launch(body, encoded)
    assert accessed(columns, base) == pieces([(512 * line + row, row) for line in (5, 6)])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: matrix(0, steps=(9, 1)), r"steps=\(9, 1\): must be 1 to 8, and 1 along the last dimension"),
        (lambda: matrix(0, steps=(1, 2)), r"steps=\(1, 2\): must be 1 to 8, and 1 along the last dimension"),
        (lambda: matrix(0, box=(1,)), r"box=\(1,\): must have 2 sizes"),
        (lambda: pixel_map(0, "f16", shape=(4, 8), strides=(16,), lower=(), upper=(), channels=1, pixels=1),
         "must have three to five dimensions"),
        (lambda: pixel_map(0, "f16", shape=SHAPE, strides=STRIDES, lower=(0, 0), upper=(0, 1 << 15), channels=1,
                           pixels=1), "must be -32768 to 32767"),
        (lambda: pixel_map(0, "f16", shape=SHAPE, strides=STRIDES, lower=(0, 0), upper=(0, 0), channels=1,
                           pixels=1025), "1 to 1024 pixels"),
    ],
)  # fmt: skip
def test_values_that_a_map_cannot_have_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


# ---- copies to other blocks


def test_one_load_brings_its_data_to_all_blocks_of_a_mask():
    # Block 2 loads for blocks 0, 2 and 3; block 1 does not wait.
    body = f"""{MEET} setp.ne.u32 %p2, %rank, 1; @!%p2 bra DONE; setp.eq.u32 %p4, %rank, 2;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 256; mov.u16 %h1, 13;
    @!%p1 bra READY; @!%p4 bra READY;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
      [s], [%map, {{0, 2}}], [m], %h1;
    READY: {WAIT} st.global.u32 [%out], 1; DONE: {MEET}"""
    columns, _, base = launch(body, lambda base: matrix(base, box=(4, 32)), cluster=4)
    loads = [accessed(found, base) for found in columns]
    assert loads == [[], [], pieces([(208 * row, 64) for row in range(2, 6)]), []]
    assert [len(accessed(found, base, Op.STORE)) for found in columns] == [32, 0, 32, 32]


def test_a_block_copies_its_shared_memory_to_another_one():
    body = f"""shl.b32 %r4, %r1, 2; mov.u32 %r5, s; add.u32 %r6, %r5, %r4; mad.lo.u32 %r7, %rank, 100, %r1;
    st.shared.u32 [%r6], %r7; {MEET} @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 128; {MEET}
    add.u32 %r8, %rank, 1; rem.u32 %r8, %r8, 4; add.u32 %r9, %r5, 1024; mapa.shared::cluster.u32 %r10, %r9, %r8;
    mov.u32 %r11, m; mapa.shared::cluster.u32 %r12, %r11, %r8;
    @%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r10], [%r5], 128, [%r12];
    {WAIT} ld.shared.u32 %r13, [%r6+1024]; st.global.u32 [%out], %r13; {MEET}"""
    _, x, _ = launch(body, cluster=4, values=True)
    expected = [[100 * ((rank - 1) % 4) + t for t in range(32)] for rank in range(4)]
    assert x[:128].reshape(4, 32).tolist() == expected


def test_asynchronous_stores_and_updates_complete_their_bytes():
    body = f"""shl.b32 %r4, %r1, 2; mov.u32 %r5, s; add.u32 %r6, %r5, %r4; mov.u32 %r7, 5; st.shared.u32 [%r6], %r7;
    {MEET} @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 256; {MEET}
    xor.b32 %r8, %rank, 1; mapa.shared::cluster.u32 %r9, %r6, %r8; mov.u32 %r10, m;
    mapa.shared::cluster.u32 %r11, %r10, %r8; mad.lo.u32 %r12, %rank, 100, %r1;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r9+4096], %r12, [%r11];
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r9], %r12, [%r11];
    {WAIT} ld.shared.u32 %r13, [%r6]; ld.shared.u32 %r14, [%r6+4096]; shl.b32 %r14, %r14, 16; or.b32 %r13, %r13, %r14;
    st.global.u32 [%out], %r13; {MEET}"""
    _, x, _ = launch(body, cluster=2, values=True)
    sent = [[100 * (1 - rank) + t for t in range(32)] for rank in range(2)]
    assert x[:64].reshape(2, 32).tolist() == [[(n << 16) | (5 + n) for n in row] for row in sent]


def test_a_pair_of_blocks_shares_the_barrier_of_its_first_block_and_its_commits():
    # Both blocks load for the barrier of the first one, which commits a product to both of them.
    body = f""".shared .align 8 .b64 full; .reg .b64 %tensor;
    @%p1 mbarrier.init.shared.b64 [full], 1; {MEET}
    setp.eq.u32 %p2, %rank, 0; @!%p1 bra READY;
    mov.u32 %r4, full; and.b32 %r5, %r4, 0xFEFFFFFF;
    @%p2 mbarrier.arrive.expect_tx.shared.b64 _, [full], 512;
    cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes
      [s], [%map, {{0, %rank}}], [%r5];
    @!%p2 bra READY;
    F: mbarrier.try_wait.parity.shared.b64 %p3, [full], 0; @!%p3 bra F;
    mov.u16 %h1, 3;
    tcgen05.mma.cta_group::2.kind::f16 [%r6], %tensor, %tensor, %r7, %p1;
    tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [m], %h1;
    READY: {WAIT} st.global.u32 [%out], 1; {MEET}"""
    columns, _, base = launch(body, lambda base: matrix(base, box=(4, 32)), cluster=2)
    loads = [accessed(found, base) for found in columns]
    assert loads == [pieces([(208 * row, 64) for row in range(rank, rank + 4)]) for rank in range(2)]
    assert [len(accessed(found, base, Op.STORE)) for found in columns] == [32, 32]
