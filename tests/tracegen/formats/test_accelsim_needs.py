"""Test the loads that the instructions of an Accel-Sim trace wait for, by the registers that they name."""

import pytest

from rdmodel.trace import ALL_NEEDS, Op
from tests.support.accelsim_traces import PUT, QUAD, WIDE, A, B, header, one_warp, warp_text
from tests.support.trace_files import file_writer
from tracegen.formats.accelsim import read_accelsim

LOAD, STORE, ATOMIC, BARRIER = Op


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text or bytes to a file and returns its path."""
    return file_writer(tmp_path, "kernel-1.traceg")


def needs_of(written, *lines):
    """Return the needs of the memory instructions of one warp as sets of distances."""
    trace = read_accelsim(written(one_warp(*lines)))
    return [{i + 1 for i in range(64) if int(needs) >> i & 1} for needs in trace.columns.needs]


def test_a_store_waits_for_the_load_of_its_value_only(written):
    assert needs_of(written, A, B, PUT.format("R4")) == [set(), set(), {2}]
    assert needs_of(written, A, B, PUT.format("R5")) == [set(), set(), {1}]
    assert needs_of(written, A, B, PUT.format("R6")) == [set(), set(), set()]


def test_a_load_waits_for_the_load_of_its_address(written):
    assert needs_of(written, A, "0020 ffffffff 1 R6 LDG.E 1 R4 4 1 0x9000 4") == [set(), {1}]


def test_arithmetic_on_a_loaded_value_makes_everything_after_it_wait(written):
    add = "0018 ffffffff 1 R9 IADD3 3 R4 R255 R255 0"
    assert needs_of(written, A, add, B, PUT.format("R6")) == [set(), {1}, set()]
    assert read_accelsim(written(one_warp(A, add, B))).columns.gap.tolist() == [0, 1]


def test_shared_memory_that_takes_a_loaded_value_waits_too(written):
    put = "0018 ffffffff 0 STS.64 2 R20 R4 8 1 0x10 8"
    assert needs_of(written, A, B, put, PUT.format("R6")) == [set(), set(), {1, 2}]


def test_a_load_that_has_arrived_is_not_named_again(written):
    assert needs_of(written, A, PUT.format("R4"), PUT.format("R4")) == [set(), {1}, set()]


def test_overwriting_the_register_of_a_load_on_its_way_waits(written):
    assert needs_of(written, A, A, PUT.format("R4")) == [set(), {1}, {1}]
    assert needs_of(written, A, "0018 ffffffff 1 R4 MOV 0 0", B) == [set(), {1}]
    assert needs_of(written, A, "0018 ffffffff 1 R4 LDS 1 R9 4 1 0x0 4", B) == [set(), {1}]


def test_a_register_that_was_overwritten_says_nothing_about_the_load_any_more(written):
    assert needs_of(written, A, B, "0018 ffffffff 1 R4 MOV 0 0", B, PUT.format("R4")) == [set(), set(), {1, 2}, set()]


def test_wide_loads_write_several_registers_and_wide_stores_read_several(written):
    assert needs_of(written, WIDE, PUT.format("R5")) == [set(), {1}]
    assert needs_of(written, WIDE, PUT.format("R6")) == [set(), set()]
    assert needs_of(written, QUAD, PUT.format("R7")) == [set(), {1}]
    assert needs_of(written, QUAD, PUT.format("R8")) == [set(), set()]
    wide_put = "0030 ffffffff 0 STG.E.64 2 R2 R4 8 1 0x3000 8"
    assert needs_of(written, A, B, wide_put) == [set(), set(), {1, 2}]


def test_a_barrier_waits_for_what_was_stored_to_shared_memory(written):
    barrier = "0018 ffffffff 0 BAR.SYNC.DEFER_BLOCKING 1 R4 0"
    trace = read_accelsim(written(one_warp(A, barrier, B, PUT.format("R5"))))
    assert trace.columns.op.tolist() == [LOAD, BARRIER, LOAD, STORE]
    assert trace.columns.needs.tolist() == [0, 1, 0, 1]
    assert trace.columns.mask[1] == 0xFFFFFFFF
    assert trace.columns.size[1] == 0


def test_an_instruction_that_is_switched_off_waits_but_writes_nothing(written):
    off = "0018 00000000 1 R4 MOV 1 R5 0"
    assert needs_of(written, A, B, off, PUT.format("R4")) == [set(), set(), {1, 2}]
    off_load = "0018 00000000 1 R6 LDG.E 1 R5 4 1 0x0 0"
    trace = read_accelsim(written(one_warp(A, B, off_load, PUT.format("R6"))))
    assert trace.columns.gap.tolist() == [0, 0, 1]
    assert trace.columns.needs.tolist() == [0, 0, 1]


def test_nobody_waits_for_what_goes_to_the_zero_register(written):
    prefetch = "0010 ffffffff 1 R255 LDG.E 1 R2 4 1 0x1000 4"
    assert needs_of(written, prefetch, PUT.format("R255")) == [set(), set()]


def test_copies_into_shared_memory_are_waited_for_by_depbar(written):
    copy = "0010 ffffffff 0 LDGSTS.E.BYPASS.128 2 R6 R8 16 1 0x7000 16"
    depbar = "0018 ffffffff 0 DEPBAR.LE 0 0"
    assert needs_of(written, copy, A, B) == [set(), set(), set()]
    assert needs_of(written, copy, A, depbar, B) == [set(), set(), {2}]


def test_atomics_return_to_their_target_and_old_tracers_list_that_first(written):
    new = "0010 ffffffff 1 R4 ATOMG.E.ADD.STRONG.GPU 2 R2 R7 4 1 0x1000 4"
    old = "0010 ffffffff 0 ATOMG.E.ADD.STRONG.GPU 3 R4 R2 R7 4 1 0x1000 4"
    reduction = "0010 ffffffff 0 RED.E.ADD.STRONG.GPU 3 R4 R2 R7 4 1 0x1000 4"
    assert needs_of(written, A, new, PUT.format("R4")) == [set(), {1}, {1}]
    assert needs_of(written, A, old, PUT.format("R4")) == [set(), {1}, {1}]
    assert needs_of(written, A, reduction, PUT.format("R4")) == [set(), {1}, set()]


def test_a_file_without_registers_waits_for_everything(written):
    bare = "0010 ffffffff 0 LDG.E 0 4 1 0x1000 4"
    trace = read_accelsim(written(one_warp(bare, "0018 ffffffff 0 FADD 0 0", bare, bare)))
    assert trace.columns.needs.tolist() == [0, ALL_NEEDS, ALL_NEEDS]


def test_a_load_further_back_than_a_mask_reaches_is_not_named(written):
    store = PUT.format("R9")
    assert needs_of(written, A, *[store] * 63, PUT.format("R4"))[-1] == {64}
    assert needs_of(written, A, *[store] * 64, PUT.format("R4"))[-1] == set()


def test_no_load_is_on_its_way_when_a_warp_begins(written):
    two = f"{warp_text([A], 0)}\n{warp_text([PUT.format('R4')], 1)}"
    text = header(block="(64,1,1)") + f"#BEGIN_TB\nthread block = 0,0,0\n{two}\n#END_TB\n"
    assert read_accelsim(written(text)).columns.needs.tolist() == [0, 0]
