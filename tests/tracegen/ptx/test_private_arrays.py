"""Scratch arrays, of which each block has a part of its own, pass nothing from one block to another.

Compilers keep tensor maps there that a kernel makes for its copies.
"""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel.integrations.ptx_launch import PtxLaunch
from tests.support.ptx_kernels import module_of
from tracegen.cuda.session import OrderedTrace, trace_of_launch
from tracegen.ptx.emulator.emulated_launch import EmulatedLaunch, LoadedModule

BLOCKS = 4
NUMBERS = 8192
"""Numbers of x and y: 64 rows of 128."""

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k("
REGISTERS = """
    .reg .b64 %rd<9>, %x, %y, %index, %own, %map, %other; .reg .b32 %r<9>, %tile; .reg .pred %p<5>;
    .shared .align 1024 .b8 s[8192]; .shared .align 8 .b64 m;
    ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; ld.param.u64 %index, [index]; ld.param.u64 %own, [scratch];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd1, %r2, 256; add.s64 %own, %own, %rd1;
    setp.eq.u32 %p1, %r1, 0; mov.u64 %map, s; mov.u64 %other, s; mov.u32 %tile, s; add.u32 %tile, %tile, 1024;
    mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %own, %rd2;
"""

PARAMETERS = ", ".join(f".param .u64 {name}" for name in ("x", "y", "index", "scratch"))


def launch(body: str, *, private: bool = True, same: bool = False, values: bool = False) -> tuple[EmulatedLaunch, dict]:
    """Return a launch of k(x, y, index, scratch), whose scratch array may be private, and its arrays."""
    machine = LoadedModule(module_of(f"{HEAD}{PARAMETERS}) {{{REGISTERS}{body} ret;}}"))
    arrays = {"x": np.arange(NUMBERS, dtype=np.uint32), "y": np.zeros(NUMBERS, np.uint32)}
    arrays |= {"index": np.arange(NUMBERS, dtype=np.uint32)[::-1].copy(), "scratch": np.zeros(BLOCKS * 64, np.uint32)}
    placed = {
        name: machine.allocate(data, name, private=private and name == "scratch") for name, data in arrays.items()
    }
    args = [placed["x"], placed["x" if same else "y"], placed["index"], placed["scratch"]]
    return machine.launch("k", BLOCKS, 32, args, values=values, max_instructions=10**5), arrays


def dependences(body: str, **options: bool) -> tuple[bool, bool]:
    """Return whether addresses depend on data, and on the order of the blocks."""
    launched, _ = launch(body, **options)
    return launched.data_dependent, launched.order_dependent


def accesses(body: str, **options: bool) -> list[list]:
    """Return the accesses of each block, which are the same in any order, and the same as of the ordered trace."""
    backwards, ordered = trace_of_launch(launch(body, **options)[0], "k"), OrderedTrace(launch(body, **options)[0])
    assert not isinstance(backwards, OrderedTrace)
    found = {}
    for block in reversed(range(BLOCKS)):
        columns, others = backwards.block(block), ordered.block(block)
        for name in ("op", "size", "mask", "addresses"):
            np.testing.assert_array_equal(getattr(columns, name), getattr(others, name))
        found[block] = [columns.op.tolist(), columns.addresses.tolist()]
    return [found[block] for block in range(BLOCKS)]


# ---- numbers

KEEP = "add.u32 %r3, %r1, %r2; st.global.u32 [%rd3], %r3; bar.sync 0; ld.global.u32 %r4, [%rd3+FROM];"
KEPT = KEEP.replace("FROM", "0") + "mul.wide.u32 %rd4, %r4, 4; add.s64 %rd5, %x, %rd4; ld.global.u32 %r5, [%rd5];"


def test_blocks_with_scratch_of_their_own_may_be_executed_in_any_order():
    assert dependences(KEPT) == (False, False)
    found = accesses(KEPT)
    base = launch(KEPT)[0].launch.arrays[0].base
    assert [addresses[-32:] for _, addresses in found] == [
        [base + 4 * (block + lane) for lane in range(32)] for block in range(BLOCKS)
    ]


def test_an_array_that_is_not_private_passes_data_to_other_blocks():
    assert dependences(KEPT, private=False) == (True, True)


def test_other_arrays_still_pass_data_to_other_blocks():
    change = "st.global.u32 [%index], %r1; ld.global.u32 %r4, [%index+4]; mul.wide.u32 %rd4, %r4, 4;"
    gather = f"{change} add.s64 %rd5, %x, %rd4; ld.global.u32 %r5, [%rd5];"
    assert dependences(KEPT + gather) == (True, True)


def test_an_unknown_pointer_does_not_reach_what_is_private():
    store = "shl.b64 %rd6, %rd2, 9; st.global.u32 [%rd6], 7;"
    assert dependences(KEPT + store) == (False, False)
    assert dependences(KEPT + store, private=False) == (True, True)


def test_results_that_pass_through_scratch_are_computed():
    store = "shl.b64 %rd6, %rd1, 1; add.s64 %rd6, %rd6, %rd2; add.s64 %rd6, %y, %rd6; st.global.u32 [%rd6], %r4;"
    launched, arrays = launch(KEEP.replace("FROM", "0") + store, values=True)
    for block in range(BLOCKS):
        launched.run(block, record=False)
    assert arrays["y"][: 128 * BLOCKS].reshape(BLOCKS, 128)[:, :32].tolist() == [
        [block + lane for lane in range(32)] for block in range(BLOCKS)
    ]


@pytest.mark.parametrize("lenient", [False, True])
def test_compilers_say_which_parameter_is_scratch(lenient):
    def made(*, private: bool):
        given = PtxLaunch(f"{HEAD}{PARAMETERS}) {{{REGISTERS}{KEPT} ret;}}", "k", lenient=lenient)
        arrays = [np.zeros(NUMBERS, np.uint32) for _ in range(4)]
        given.add(*(given.address("xyis"[at], array, private=private and at == 3) for at, array in enumerate(arrays)))
        return given.trace(BLOCKS, 32)

    assert made(private=True).any_order
    assert isinstance(made(private=False), OrderedTrace)


# ---- tensor maps

FIELDS = [
    ("rank", "b32", "", "1"), ("elemtype", "b32", "", "2"), ("global_dim", "b32", "0, ", "128"),
    ("global_dim", "b32", "1, ", "64"), ("box_dim", "b32", "0, ", "32"), ("box_dim", "b32", "1, ", "4"),
    ("global_stride", "b64", "0, ", "512"), ("element_stride", "b32", "0, ", "1"),
    ("element_stride", "b32", "1, ", "1"), ("swizzle_mode", "b32", "", "0"), ("fill_mode", "b32", "", "0"),
    ("interleave_layout", "b32", "", "0"),
]  # fmt: skip
REPLACE = "@{guard} tensormap.replace.tile.{field}.shared::cta.b1024.{type} [%map], {index}{value};\n"
COPY = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [{to}], [{map}], 128;\n"


def make_map(address: str, to: str = "%own", *, without: str = "", guard: str = "%p1", map: str = "%map") -> str:
    """Return code that makes a tensor map of boxes of 4 rows of 32 numbers; `guard` is that of its fill mode."""
    fields = [("global_address", "b64", "", address), *(field for field in FIELDS if field[0] != without)]
    replaced = [
        REPLACE.format(guard=guard if field == "fill_mode" else "%p1", field=field, type=type, index=index, value=value)
        for field, type, index, value in fields
    ]
    return "".join(replaced) + COPY.format(to=to, map=map)


ZEROS = "cvt.u32.u64 %r8, %rd2; mov.u32 %r7, s; add.u32 %r7, %r7, %r8; st.shared.u32 [%r7], 0; bar.warp.sync -1;\n"
START = "@%p1 mbarrier.init.shared.b64 [m], 1; bar.sync 0;\n"
MOVE = """mul.lo.u32 %r3, %r2, 4;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 512;
    @%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%tile], [%own, {0, %r3}], [m];
    W: mbarrier.try_wait.parity.shared.b64 %p3, [m], 0; @!%p3 bra W;
    add.s64 %rd6, %own, 128; ld.shared.u32 %r5, [%tile]; st.shared.u32 [%tile], %r5;
    @%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd6, {0, %r3}], [%tile];
"""
"""A copy of 4 rows from the tensor of the first map to that of the second one."""

BOTH = f"{ZEROS}{make_map('%x')} bar.sync 0; add.s64 %rd5, %own, 128; {ZEROS}{make_map('%y', '%rd5')}"


@pytest.mark.parametrize("same", [False, True])
def test_copies_through_maps_that_each_block_makes_depend_on_no_data(same):
    body = BOTH + START + MOVE
    assert dependences(body, same=same) == (False, False)
    launched, _ = launch(body, same=same)
    x, y, _, scratch = (array.base for array in launched.launch.arrays)
    rows = [[4 * (128 * row + 4 * part) for row in range(4) for part in range(8)] for _ in range(BLOCKS)]
    for block, (_, addresses) in enumerate(accesses(body, same=same)):
        maps = [scratch + 256 * block + 4 * word for word in range(64)]
        boxes = [array + 2048 * block + place for array in (x, x if same else y) for place in rows[block]]
        assert addresses == maps + boxes


def test_maps_in_an_array_that_is_not_private_depend_on_the_order():
    assert dependences(BOTH + START + MOVE, private=False) == (True, True)


GATHER = "ld.global.u32 %r4, [FROM]; mul.wide.u32 %rd4, %r4, 4; add.s64 %rd4, TO, %rd4; ld.global.u32 %r6, [%rd4];"


def test_a_copy_through_a_map_changes_the_arrays_whose_addresses_the_kernel_writes_into_maps():
    body = BOTH + START + MOVE
    read_index, read_y = (GATHER.replace("FROM", name).replace("TO", "%x") for name in ("%index", "%y"))
    assert dependences(body + read_index) == (True, False)
    assert dependences(body + read_y) == (True, True)
    unknown = "shl.b64 %rd7, %rd2, 9;" + body.replace("b64 [%map], %y", "b64 [%map], %rd7")
    assert dependences(unknown) == (False, False)
    assert dependences(unknown + read_index) == (True, True)


PARTIAL = {
    "lacks a field": make_map("%x", without="swizzle_mode"),
    "lacks its sizes": make_map("%x", without="box_dim"),
    "lacks its rank": make_map("%x", without="rank"),
    "has a field from other threads": make_map("%x", guard="%p2"),
    "has a field that other threads leave out": make_map("%x", guard="!%p1"),
    "is copied from elsewhere": make_map("%x", map="%other"),
    "has another part copied": make_map("%x", map="%map+128"),
    "is copied after a jump": make_map("%x").replace("tensormap.cp", "@%p2 bra C; mov.u32 %r4, 0; C: tensormap.cp"),
    "is copied after its place changes": make_map("%x").replace("tensormap.cp", "add.s64 %map, %map, 0; tensormap.cp"),
    "is finished in a loop": f"R: {make_map('%x')}".replace("tensormap.cp", "@%p2 bra R; tensormap.cp"),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTIAL)
def test_a_map_with_fields_from_elsewhere_depends_on_all_that_shared_memory_holds(name):
    tile = START + MOVE.replace("%rd6, %own, 128", "%rd6, %own, 0")
    assert dependences(make_map("%x") + tile) == (False, False)
    assert dependences(PARTIAL[name] + tile) == (True, True)  # the copy may have brought the map
