"""The values that bulk copies move: into addresses and branches, and from and to tensors; unknown ones stay unknown."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import ConfigError, TraceError
from rdmodel.trace import Op
from tests.support.examples import examples
from tests.support.ptx_kernels import module_of
from tracegen.ptx.emulator.emulated_launch import LoadedModule
from tracegen.ptx.isa.tensor_map import pixel_map, tensor_map

REGISTERS = """
    .reg .b64 %rd<9>; .reg .b32 %r<17>; .reg .b16 %h<5>; .reg .f32 %f<9>; .reg .pred %p<5>; .reg .b64 %x, %y, %map;
    .shared .align 1024 .b8 s[32768]; .shared .align 8 .b64 m;
    ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; mov.b64 %map, map; cvta.param.u64 %map, %map;
    mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r9, s; add.u32 %r9, %r9, %r2;
    mul.wide.u32 %rd1, %r1, 4; add.s64 %rd2, %y, %rd1; setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared.b64 [m], 1; bar.sync 0;
"""
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p3, [m], 0; @!%p3 bra W;"
ROW = f"""@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 128;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%x], 128, [m]; {WAIT}"""
"""A copy of 32 numbers from x to shared memory."""

PRODUCT = """mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
    {%f1, %f2, %f3, %f4}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f2, %f3, %f4};"""
PLACE = "ld.shared.u32 %r3, [%r9]; mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %y, %rd3; ld.global.u32 %r4, [%rd4];"
"""A load of y at the number that shared memory has for the thread."""


class Launch:
    """A launch of k(x, y, map) on one warp, or on one cluster."""

    def __init__(self, body: str, x=None, y=None, map=bytes(128), *, values: bool = False, cluster: int = 1) -> None:
        head = ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 x, .param .u64 y, "
        directive = f" .reqnctapercluster {cluster}" if cluster > 1 else ""
        text = f"{head}.param .align 64 .b8 map[128]){directive}\n{{{REGISTERS}{body}\n ret;\n}}"
        machine = LoadedModule(module_of(text))
        self.x = machine.allocate(np.zeros(64, np.uint32) if x is None else x, "x")
        self.y = machine.allocate(np.zeros(1 << 13, np.uint32) if y is None else y, "y")
        given = map(self.x.base) if callable(map) else map
        args = [self.x, self.y, given]
        self.launched = machine.launch("k", cluster, 32, args, values=values, max_instructions=10**5)
        self.blocks = [self.launched.run(block) for block in range(cluster)]

    def places(self, op: Op = Op.LOAD) -> list[int]:
        """Return the elements of y that the first block accesses."""
        columns = self.blocks[0]
        lanes = np.repeat(columns.op == op, np.diff(columns.address_start))
        found = (columns.addresses[lanes] - self.y.base) // 4
        return found[(found >= 0) & (found < self.y.array.size)].tolist()


# ---- copies without tensor maps


def test_addresses_follow_from_values_that_a_copy_has_brought():
    x = np.random.default_rng(1).permutation(64).astype(np.uint32)
    launch = Launch(ROW + PLACE, x)
    assert launch.places() == x[:32].tolist()
    assert launch.launched.data_dependent
    assert not launch.launched.order_dependent


def test_a_branch_follows_values_that_a_copy_has_brought():
    x = np.arange(64, dtype=np.uint32) % 3
    body = ROW + "ld.shared.u32 %r3, [%r9]; setp.eq.u32 %p2, %r3, 1; @%p2 st.global.u32 [%rd2], 5;"
    assert Launch(body, x).places(Op.STORE) == list(range(1, 32, 3))


def test_a_copy_whose_values_nothing_needs_moves_nothing():
    launch = Launch(ROW + "ld.shared.u32 %r3, [%r9]; st.global.u32 [%rd2], %r3;", np.full(64, 7, np.uint32))
    assert not launch.launched.data_dependent
    assert not launch.y.array.any()


def test_a_copy_to_an_array_takes_the_values_that_were_stored_before():
    body = """mad.lo.u32 %r3, %r1, 3, 100; st.shared.u32 [%r9], %r3; bar.sync 0;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%x], [s+16], 96; bar.sync 0;"""
    x = np.zeros(64, np.uint32)
    Launch(body, x, values=True)
    assert x.tolist() == [100 + 3 * t for t in range(4, 28)] + [0] * 40
    again = Launch(body + ROW.replace("W:", "V:").replace("bra W", "bra V") + PLACE)
    assert again.places() == [100 + 3 * t for t in range(4, 28)] + [0] * 8
    assert again.launched.order_dependent


def test_a_mask_of_bytes_selects_what_a_copy_to_an_array_writes():
    body = """st.shared.u32 [%r9], 0x04030201; bar.sync 0; mov.u16 %h1, 0x8005;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%x], [s], 32, %h1;"""
    hinted = body.replace(".cp_mask", ".L2::cache_hint.cp_mask").replace("32, %h1", "32, %rd5, %h1")
    for copy in (body, hinted):
        x = np.full(64, 0xFFFFFFFF, np.uint32)
        Launch(copy, x, values=True)
        assert x[:9].tolist() == [0xFF03FF01, 0xFFFFFFFF, 0xFFFFFFFF, 0x04FFFFFF] * 2 + [0xFFFFFFFF]


IGNORING = f"""@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 128; mov.u32 %r5, LEFT;
    @%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [s], [%x], 128, %r5, RIGHT, [m];
    {WAIT} setp.ge.u32 %p2, %r1, FIRST; setp.le.and.u32 %p2, %r1, LAST, %p2; @!%p2 bra D; {PLACE} D:"""


def ignoring(left: int, right: int, first: int, last: int, *, size: int = 64) -> Launch:
    """Ignore bytes of a copy of 128 from `size` numbers, and follow the numbers of the threads `first` to `last`."""
    body = IGNORING
    for name, value in {"LEFT": left, "RIGHT": right, "FIRST": first, "LAST": last}.items():
        body = body.replace(name, str(value))
    return Launch(body, np.arange(200, 200 + size, dtype=np.uint32))


def test_a_copy_may_ignore_bytes_that_lie_outside_of_an_array():
    # The array ends 8 bytes before the copy; what is ignored counts as accessed in its piece of 16 bytes.
    launch = ignoring(4, 8, 1, 29, size=30)
    assert launch.places() == list(range(201, 230))
    first = launch.blocks[0].addresses[:8] - launch.x.base
    assert first.tolist() == list(range(0, 128, 16))
    with pytest.raises(TraceError, match=r"ignore_oob at address 0x\S+, across the end of x"):
        ignoring(4, 4, 1, 29, size=30)


@pytest.mark.parametrize("thread", [0, 31])
def test_bytes_that_a_copy_ignores_have_no_values(thread):
    with pytest.raises(TraceError, match=r"ld\.shared\.u32 in PTX line \d+ <- cp\.async\.bulk\.\S+\.ignore_oob"):
        ignoring(1, 1, thread, thread)
    assert ignoring(0, 0, thread, thread).places() == [200 + thread]


def test_a_copy_ignores_at_most_fifteen_bytes():
    with pytest.raises(TraceError, match=r"ignore_oob: must ignore 0 to 15 bytes on each side"):
        ignoring(16, 0, 1, 1)


def test_a_copy_may_be_strong():
    body = ROW.replace("cp.async.bulk.", "cp.async.bulk.relaxed.gpu.").replace("::bytes [s]", "::bytes.b128 [s]")
    assert Launch(body + PLACE, np.arange(64, dtype=np.uint32)).places() == list(range(32))


def test_values_that_are_not_computed_pass_through_copies_and_are_named_with_them():
    body = f"""{PRODUCT} setp.ge.u32 %p2, %r1, 8; st.shared.u32 [%r9], %r1; @%p2 st.shared.f32 [%r9], %f1; bar.sync 0;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%x], [s], 128; bar.sync 0;
    setp.lt.u32 %p2, %r1, LANES; @!%p2 bra D; add.s64 %rd5, %x, %rd1; ld.global.u32 %r3, [%rd5];
    mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %y, %rd3; ld.global.u32 %r4, [%rd4]; D:"""
    assert Launch(body.replace("LANES", "8")).places() == list(range(8))
    with pytest.raises(TraceError) as caught:
        Launch(body.replace("LANES", "9"))
    chain = (
        r"the address of ld\.global\.u32 depends on .* ld\.global\.u32 in PTX line \d+ <- cp\.async\.bulk\.global\S+ "
        r"in PTX line \d+ <- st\.shared\.f32 in PTX line \d+ <- mma\.sync\S+ .*thread \(8, 0, 0\)"
    )
    assert re.search(chain, str(caught.value)), str(caught.value)


def test_arrays_take_no_values_that_are_not_computed():
    body = f"""{PRODUCT} st.shared.f32 [%r9], %f1; bar.sync 0;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%x], [s], 128;"""
    with pytest.raises(TraceError, match=r"cp\.async\.bulk\.global\S+ stores a result that .* <- mma\.sync"):
        Launch(body, values=True)
    Launch(body.replace("[s], 128", "[s+128], 128"), values=True)


# ---- tensors


def expected_box(x: np.ndarray, corner, box, *, fill: int = 0) -> np.ndarray:
    """The box of a matrix at (row, column), with `fill` outside."""
    padded = np.full((x.shape[0] + 600, x.shape[1] + 600), fill, x.dtype)
    padded[300 : 300 + x.shape[0], 300 : 300 + x.shape[1]] = x
    row, column = corner[0] + 300, corner[1] + 300
    return padded[row : row + box[0], column : column + box[1]]


def swizzled(rows: np.ndarray, span: int) -> bytes:
    """The bytes of rows of `span` bytes: piece i of a line of 128 bytes trades places by the number of the line."""
    content = rows.tobytes()
    placed = bytearray(len(content))
    for at in range(0, len(content), 16):
        line, piece = at // 128, at % 128 // 16
        to = 128 * line + 16 * (piece ^ line % (span // 16))
        placed[to : to + 16] = content[at : at + 16]
    return bytes(placed)


@examples(60)
@given(
    corner=st.tuples(st.integers(-5, 45), st.integers(-40, 110)),
    rows=st.integers(1, 24),
    span=st.sampled_from([0, 32, 64, 128]),
    data=st.data(),
)
def test_a_box_lies_in_shared_memory_as_the_guide_describes(corner, rows, span, data):
    columns = span // 2 if span else 8 * data.draw(st.integers(1, 12))
    x = np.random.default_rng(rows).integers(1, 1 << 16, (40, 104)).astype(np.uint16)
    bytes_of_box = rows * columns * 2
    body = f"""@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], {bytes_of_box}; mov.u32 %r4, {corner[1]};
    mov.u32 %r5, {corner[0]}; mov.u32 %r6, s; mov.u32 %r7, 0;
    @%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [s], [%map, {{%r4, %r5}}], [m];
    {WAIT}
    L: ld.shared.u32 %r3, [%r9]; st.global.u32 [%rd2], %r3; add.u32 %r9, %r9, 128; add.s64 %rd2, %rd2, 128;
    add.u32 %r7, %r7, 128; setp.lt.u32 %p2, %r7, {bytes_of_box}; @%p2 bra L;"""

    def encoded(base):
        return tensor_map(base, "u16", shape=(40, 104), strides=(208,), box=(rows, columns), swizzle=span)

    launch = Launch(body, x.reshape(-1), None, encoded, values=True)
    box = expected_box(x, corner, (rows, columns))
    expected = swizzled(box, span) if span else box.tobytes()
    assert launch.y.array.tobytes()[:bytes_of_box] == expected


@pytest.mark.parametrize("span", [0, 64])
def test_a_box_is_stored_where_it_lies_inside_the_tensor(span):
    x = np.zeros((40, 104), np.uint16)
    body = """mov.u32 %r5, 0x10001; mad.lo.u32 %r3, %r1, %r5, 1; mov.u32 %r7, 0;
    L: st.shared.u32 [%r9], %r3; add.u32 %r9, %r9, 128; add.u32 %r3, %r3, 0x200020; add.u32 %r7, %r7, 1;
    setp.lt.u32 %p2, %r7, 8; @%p2 bra L; bar.sync 0; mov.u32 %r4, -8;
    @%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {%r4, 30}], [s];"""

    def encoded(base):
        return tensor_map(base, "u16", shape=(40, 104), strides=(208,), box=(16, 32), swizzle=span)

    Launch(body, x.reshape(-1), None, encoded, values=True)
    words = np.arange(256, dtype=np.uint32) * 0x10001 + np.uint32(1)
    placed = words.view(np.uint16).reshape(16, 32)
    if span:  # the order of the pieces is its own inverse
        placed = np.frombuffer(swizzled(placed, span), np.uint16).reshape(16, 32)
    expected = np.zeros_like(x)
    expected[30:40, :24] = placed[:10, 8:]
    assert x.tolist() == expected.tolist()


def load_box(element: str, offset: int, **options):
    """A launch that follows the number at byte `offset` of a box of 4 rows of 8 words, two of them above the tensor."""
    body = f"""@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 128; mov.u32 %r4, -2;
    @%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [s], [%map, {{0, %r4}}], [m];
    {WAIT} mov.u32 %r9, s; add.u32 %r9, %r9, {offset}; {PLACE}"""
    encoded = lambda base: tensor_map(base, element, shape=(8, 8), strides=(32,), box=(4, 8), **options)  # noqa: E731
    return Launch(body, np.arange(100, 164, dtype=np.uint32), None, encoded)


def test_what_lies_outside_a_tensor_is_zero_or_no_number():
    assert load_box("f32", 12).places()[0] == 0
    assert load_box("f32", 64 + 12).places()[0] == 103
    assert load_box("f32", 64 + 12, nan=True).places()[0] == 103
    with pytest.raises(TraceError, match=r"ld\.shared\.u32 in PTX line \d+ <- cp\.async\.bulk\.tensor"):
        load_box("f32", 12, nan=True)


@pytest.mark.parametrize("element", ["tf32", "f32.ftz", "tf32.ftz"])
def test_elements_that_change_on_their_way_have_no_values(element):
    with pytest.raises(TraceError, match=r"ld\.shared\.u32 in PTX line \d+ <- cp\.async\.bulk\.tensor"):
        load_box(element, 64)


def test_rows_that_do_not_fill_the_span_of_a_swizzle_have_no_values():
    assert load_box("f32", 64, swizzle=32).places()[0] == 100
    with pytest.raises(TraceError, match=r"ld\.shared\.u32 in PTX line \d+ <- cp\.async\.bulk\.tensor"):
        load_box("f32", 64, swizzle=64)


def test_gathered_rows_have_their_values():
    body = f"""@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 128; mov.u32 %r4, 8; mov.u32 %r5, 3; mov.u32 %r6, 9;
    @%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes
      [s], [%map, {{%r4, %r5, 1, %r6, 0}}], [m]; {WAIT} {PLACE}"""
    encoded = lambda base: tensor_map(base, "u32", shape=(8, 12), strides=(48,), box=(1, 8))  # noqa: E731
    x = np.arange(1, 97, dtype=np.uint32)
    rows = x.reshape(8, 12)
    expected = [[*rows[r, 8:], *[0] * 4] if r < 8 else [0] * 8 for r in (3, 1, 9, 0)]
    assert Launch(body, x, None, encoded).places() == np.concatenate(expected).tolist()


def test_pixels_have_their_values_and_the_border_has_zeros():
    body = f"""@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 128; mov.u32 %r4, 4; mov.u32 %r5, -1; mov.u16 %h1, 1;
    @%p1 cp.async.bulk.tensor.3d.shared::cta.global.im2col.mbarrier::complete_tx::bytes
      [s], [%map, {{%r4, %r5, 1}}], [m], {{%h1}}; {WAIT} {PLACE}"""

    def encoded(base):
        box = {"lower": (-1,), "upper": (-1,), "channels": 4, "pixels": 8}
        return pixel_map(base, "u32", shape=(3, 6, 8), strides=(192, 32), **box)

    x = np.arange(1, 145, dtype=np.uint32)
    images = x.reshape(3, 6, 8)
    # Windows begin at -1 to 4, and the offset is 1: pixels 0 to 5 of image 1, then 0 and 1 of image 2.
    expected = [images[1, w, 4:] for w in range(6)] + [images[2, w, 4:] for w in range(2)]
    assert Launch(body, x, None, encoded).places() == np.concatenate(expected).tolist()


def test_all_blocks_of_a_mask_have_the_values():
    body = f"""barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r5, %cluster_ctarank; setp.eq.u32 %p4, %r5, 1;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 128; mov.u16 %h1, 7; @!%p1 bra R; @!%p4 bra R;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [s], [%x], 128, [m], %h1;
    R: {WAIT} {PLACE} barrier.cluster.arrive; barrier.cluster.wait;"""
    x = np.random.default_rng(2).permutation(64).astype(np.uint32)
    launch = Launch(body, x, cluster=3)
    for columns in launch.blocks:
        assert ((columns.addresses[-32:] - launch.y.base) // 4).tolist() == x[:32].tolist()


def dependences(body: str) -> tuple[bool, bool]:
    """Whether addresses depend on data, and on the order of the blocks, beside a copy to the tensor in x."""
    store = "@%p1 cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%map, {0}], [s];"
    launch = Launch(body + store, None, None, lambda base: tensor_map(base, "u32", shape=(64,), strides=(), box=(32,)))
    return launch.launched.data_dependent, launch.launched.order_dependent


def test_a_copy_changes_the_tensor_that_its_map_describes_and_a_map_is_no_data():
    gather = "ld.global.u32 %r3, [FROM]; mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, TO, %rd3; ld.global.u32 %r4, [%rd4];"
    assert dependences("") == (False, False)
    assert dependences(gather.replace("FROM", "%y").replace("TO", "%x")) == (True, False)
    assert dependences(gather.replace("FROM", "%x").replace("TO", "%y")) == (True, True)


@pytest.mark.parametrize("swizzle", [16, 256, "128"])
def test_swizzles_that_no_map_has_are_refused(swizzle):
    with pytest.raises(ConfigError, match=r"swizzle=\S+: must be one of 0, 32, 64, 128"):
        tensor_map(0, "f16", shape=(8, 64), strides=(128,), box=(1, 8), swizzle=swizzle)
