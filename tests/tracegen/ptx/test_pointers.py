"""A load that decides about addresses needs the stores to its own array only."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.ptx_kernels import HEAD, module_of
from tracegen.arrays import ALIGNMENT, BASE
from tracegen.ptx.emulator.device_memory import DeviceMemory
from tracegen.ptx.emulator.emulated_launch import LoadedModule

REGISTERS = """
    .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<3>; .reg .b64 %a, %b, %out;
    ld.param.u64 %a, [a]; ld.param.u64 %b, [b];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4;
    add.s64 %rd2, %a, %rd1; add.s64 %out, %b, %rd1;
"""


def executed(body: str, *, same: bool = False, values: bool = False) -> tuple[list[int], list[int]]:
    """Return a and b (256 numbers each; one array if `same`) after k(a, b), whose stores run only if they matter."""
    machine = LoadedModule(
        module_of(f"{HEAD}.visible .entry k(.param .u64 a, .param .u64 b) {{{REGISTERS}{body}\n ret;}}")
    )
    a, b = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    first = machine.allocate(a, "a")
    second = first if same else machine.allocate(b, "b")
    machine.launch("k", 1, 32, [first, second], values=values).run(0)
    return a.tolist(), b.tolist()


GATHER = "ld.global.u32 %r2, [%rd2]; mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %a, %rd3; ld.global.u32 %r3, [%rd4];"


def test_a_store_to_another_array_is_left_out():
    assert executed(f"{GATHER} st.global.u32 [%out], 7;")[1] == [0] * 256
    assert executed(f"{GATHER} st.global.u32 [%out], 7;", values=True)[1] == [7] * 32 + [0] * 224


@pytest.mark.parametrize(
    "store",
    [
        "st.global.u32 [%rd2+64], 7;",
        "mov.b64 {%r4, %r5}, %a; mov.b64 %rd5, {%r4, %r5}; st.global.u32 [%rd5], 7;",
        "setp.lt.u32 %p1, %r1, 99; selp.b64 %rd5, %a, %b, %p1; st.global.u32 [%rd5], 7;",
        "sub.s64 %rd5, %a, %b; add.s64 %rd6, %b, %rd5; st.global.u32 [%rd6], 7;",
    ],
)
def test_a_store_that_may_reach_the_array_is_executed(store):
    assert 7 in executed(f"{GATHER} {store}")[0][8:] + executed(f"{GATHER} {store}")[0][:1]


def test_one_array_that_is_given_twice_is_one_array():
    assert executed(f"{GATHER} st.global.u32 [%out], 7;", same=True)[0][:32] == [7] * 32


@pytest.mark.parametrize(
    "pointer",
    [
        "ld.global.u64 %rd5, [%b];",
        "ld.global.v2.u32 {%r4, %r5}, [%b]; mov.b64 %rd5, {%r4, %r5};",
        "ld.global.u32 %r4, [%b]; ld.global.u32 %r5, [%b+4]; cvt.u64.u32 %rd5, %r4; cvt.u64.u32 %rd6, %r5;"
        " shl.b64 %rd6, %rd6, 32; or.b64 %rd5, %rd5, %rd6;",
    ],
)
def test_a_pointer_that_was_loaded_may_reach_any_array(pointer):
    save = "st.global.u64 [%b], %a; bar.sync 0;"
    assert executed(f"{save} {pointer} {GATHER} st.global.u32 [%rd5+800], 7;")[0][200] == 7


def test_an_index_that_was_loaded_stays_in_its_array():
    scatter = "ld.global.u32 %r4, [%rd2]; cvt.u64.u32 %rd5, %r4; shl.b64 %rd5, %rd5, 2; add.s64 %rd6, %b, %rd5;"
    assert executed(f"{GATHER} {scatter} st.global.u32 [%rd6], 7;")[1] == [0] * 256


# ---- numbers of 64 bits from memory

TABLE = "ld.param.u64 %rd8, [table]; shl.b64 %rd5, %rd1, 1; add.s64 %rd5, %rd8, %rd5;"
"""Let rd5 be the place of the number of a thread in the table."""

SCATTERS = {
    "scaled and added": "ld.global.u64 %rd6, [%rd5]; shl.b64 %rd6, %rd6, 2; add.s64 %rd7, %b, %rd6;",
    "added as bytes": "ld.global.u64 %rd6, [%rd5]; add.s64 %rd7, %rd6, %b;",
    "multiplied and added": "ld.global.u64 %rd6, [%rd5]; mad.lo.s64 %rd7, %rd6, 4, %b;",
    "subtracted from another one": "ld.global.u64 %rd6, [%rd5]; sub.s64 %rd6, %rd1, %rd6; add.s64 %rd7, %b, %rd6;",
    "taken through shared memory": """.shared .b64 s[32]; ld.global.u64 %rd6, [%rd5]; st.shared.u64 [s], %rd6;
        ld.shared.u64 %rd6, [s]; add.s64 %rd7, %b, %rd6;""",
    "stored and loaded again": """.reg .b64 %c; add.s64 %c, %rd8, 256; ld.global.u64 %rd6, [%rd5];
        st.global.u64 [%c], %rd6; ld.global.u64 %rd6, [%c]; add.s64 %rd7, %b, %rd6;""",
    "shuffled by halves": """ld.global.u64 %rd6, [%rd5]; mov.b64 {%r4, %r5}, %rd6;
        shfl.sync.bfly.b32 %r4, %r4, 1, 31, -1; shfl.sync.bfly.b32 %r5, %r5, 1, 31, -1; mov.b64 %rd6, {%r4, %r5};
        add.s64 %rd7, %b, %rd6;""",
}
"""Ways from the number in the table to an address in b."""


def order_dependent(body: str, table: np.ndarray) -> bool:
    """Whether k(a, b, table), which gathers from a, changes what decides, where a holds the indices."""
    parameters = ".param .u64 a, .param .u64 b, .param .u64 table"
    machine = LoadedModule(
        module_of(f"{HEAD}.visible .entry k({parameters}) {{{REGISTERS}{TABLE}{body}{GATHER} ret;}}")
    )
    arrays = [np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32), table]
    return machine.launch("k", 2, 32, [machine.allocate(x, "x") for x in arrays], values=False).order_dependent


@pytest.mark.parametrize("way", [way for way in SCATTERS if way != "stored and loaded again"])
def test_an_index_of_64_bits_stays_in_its_array(way):
    assert not order_dependent(f"{SCATTERS[way]} st.global.u32 [%rd7], 7;", np.arange(64))


@pytest.mark.parametrize("way", SCATTERS)
def test_a_number_from_a_table_of_addresses_may_be_one(way):
    addresses = np.arange(64)
    addresses[63] = BASE + 8  # one is enough
    assert order_dependent(f"{SCATTERS[way]} st.global.u32 [%rd7], 7;", addresses)


@pytest.mark.parametrize("offset", ["", "add.s64 %rd6, %rd6, %rd1;", "add.s64 %rd6, %rd1, %rd6;"])
def test_a_store_through_a_table_of_pointers_may_reach_any_array(offset):
    body = f"ld.global.u64 %rd6, [%rd5]; {offset} st.global.u32 [%rd6], 7;"
    assert order_dependent(body, np.full(64, BASE))
    # Without a known pointer, there is no array for the address to stay in.
    assert order_dependent(body, np.arange(64))


@pytest.mark.parametrize("number", [BASE - ALIGNMENT, BASE, BASE + 1023, BASE + 1024])
def test_addresses_beside_an_array_are_addresses(number):
    scatter = f"{SCATTERS['added as bytes']} st.global.u32 [%rd7], 7;"
    assert order_dependent(scatter, np.full(64, number))
    assert not order_dependent(scatter, np.full(64, number - (1 << 20)))
    assert not order_dependent(scatter, np.full(64, -number))


@pytest.mark.parametrize(
    "store",
    [
        "st.global.u64 [%rd8], %a;",
        "st.global.v2.u32 [%rd8], {%r4, %r5};",
        "st.global.u32 [%rd8+4], %r5;",
        "atom.global.exch.b64 %rd6, [%rd8], %a;",
        ".shared .b64 s[4]; st.shared.u64 [s], %a; ld.shared.u64 %rd6, [s]; st.global.u64 [%rd8], %rd6;",
        ".shared .b64 s[4]; st.shared.u64 [s], %a; ld.shared.v2.u32 {%r6, %r7}, [s]; st.global.u32 [%rd8], %r6;",
        ".local .b64 l[4]; st.local.u64 [l], %a; ld.local.u64 %rd6, [l]; st.global.u64 [%rd8], %rd6;",
        "add.s64 %rd6, %a, 64; st.global.u64 [%b], %rd6; ld.global.u64 %rd7, [%b]; st.global.u64 [%rd8], %rd7;",
    ],
)
def test_a_table_in_which_the_kernel_stores_addresses_holds_addresses(store):
    scatter = f"{SCATTERS['added as bytes']} st.global.u32 [%rd7], 7;"
    saved = f"mov.b64 {{%r4, %r5}}, %a; {store}"
    # What a kernel stores at a known place is no reason to fear for the indices in a; the scattered 7 is.
    assert not order_dependent(saved, np.arange(64))
    assert order_dependent(f"{saved}{scatter}", np.arange(64))


def test_a_list_whose_links_are_addresses_may_lead_anywhere():
    walk = "mov.b64 %rd6, %b; L: ld.global.u64 %rd6, [%rd6]; setp.ne.s64 %p1, %rd6, 0; @%p1 bra L;"
    assert not order_dependent(walk, np.zeros(64, np.int64))
    assert order_dependent(f"st.global.u64 [%b], %rd8; {walk} st.global.u32 [%rd6], 7;", np.zeros(64, np.int64))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (np.zeros((), np.int64), False),
        (np.zeros(0, np.float64), False),
        (np.full((), BASE), True),
        (np.frombuffer(b"xy", np.uint8), False),
        (np.full((2, 3), BASE + 5, np.uint64), True),
        (np.full(9, BASE, np.uint32), False),
        (np.array([1, 2, BASE, 0], np.uint32), True),
        (np.array([1, BASE, 0, 2], np.uint32), False),
        (np.arange(3 << 20), False),
        (np.append(np.arange(3 << 20), BASE), True),
        (np.array([1 << 40, -1, -BASE]), False),
    ],
)
def test_aligned_words_in_the_range_of_an_array_may_be_addresses(content, expected):
    memory = DeviceMemory(BASE)
    memory.allocate(np.zeros(64, np.uint8), "first")
    assert memory.may_hold_addresses(memory.allocate(content, "content")) == expected


def test_the_words_of_an_array_are_aligned_as_its_address():
    memory = DeviceMemory(BASE)
    memory.allocate(np.zeros(64, np.uint8), "first")
    content = np.frombuffer(bytes(4) + BASE.to_bytes(8, "little") + bytes(3), np.uint8)
    assert memory.may_hold_addresses(memory.place(content, "a", (1 << 40) + 4))
    assert not memory.may_hold_addresses(memory.place(content, "b", 1 << 41))
