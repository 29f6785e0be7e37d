"""Columns and traces: what they hold, and that every inconsistency is one line that says where."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.trace import (
    Columns,
    Launch,
    Op,
    Segment,
    Trace,
    check_blocks,
    slice_warps,
)
from tests.support.raw_columns import LOAD, changed, launch, make_raw, three_warps

DTYPES = {
    "warp_start": "int64",
    "pc": "int32",
    "op": "uint8",
    "space": "uint8",
    "size": "uint8",
    "gap": "int32",
    "needs": "uint64",
    "loop_exit": "bool",
    "mask": "uint32",
    "address_start": "int64",
    "addresses": "int64",
}


# ---- what columns are


def test_columns_of_any_integer_type_come_out_typed_contiguous_and_read_only():
    raw = {name: np.repeat(column, 2)[::2] for name, column in three_warps().items()}
    assert not raw["addresses"].flags.contiguous
    columns = Columns(**raw)
    columns.check()
    for name, dtype in DTYPES.items():
        column = getattr(columns, name)
        assert (name, column.dtype) == (name, np.dtype(dtype))
        assert column.flags.c_contiguous
        assert not column.flags.writeable
        assert column.tolist() == raw[name].tolist()
    assert [field.name for field in fields(Columns)] == [*DTYPES, "cache_op"]
    assert (len(columns), columns.warps) == (5, 3)


def test_columns_cannot_be_changed_but_leave_the_array_they_were_made_from_alone():
    raw = three_warps()
    columns = Columns(**raw)
    with pytest.raises(ValueError, match="read-only"):
        columns.addresses[0] = 1
    with pytest.raises(FrozenInstanceError):
        columns.pc = raw["pc"]
    assert raw["addresses"].flags.writeable


def test_columns_of_the_right_type_are_not_copied():
    raw = {name: np.array(column, DTYPES[name]) for name, column in three_warps().items()}
    columns = Columns(**raw)
    assert all(np.shares_memory(getattr(columns, name), raw[name]) for name in DTYPES)


def test_a_trace_without_any_instruction_is_fine():
    trace = Trace(launch(), Columns(**make_raw([[], [], []])))
    assert (len(trace), len(trace.block(0))) == (0, 0)


# ---- values that a column cannot hold


@pytest.mark.parametrize(
    ("name", "value", "dtype"),
    [
        ("op", 300, int),
        ("op", -1, int),
        ("space", 256, int),
        ("size", 260, int),
        ("mask", -1, int),
        ("mask", 1 << 32, int),
        ("needs", -1, int),
        ("pc", 1 << 31, int),
        ("gap", -(1 << 31) - 1, int),
        ("addresses", 1 << 63, np.uint64),
        ("loop_exit", 2, int),
        ("size", 4.5, float),
        ("mask", float("nan"), float),
        ("pc", float("inf"), float),
        ("gap", 1e30, float),
    ],
)
def test_a_value_that_would_change_on_the_way_in_is_refused(name, value, dtype):
    shown = np.array([value], dtype)[0]
    with pytest.raises(TraceError) as error:
        changed(name, 1, value, dtype)
    assert str(error.value) == f"column {name}: {shown} at 1 does not fit {DTYPES[name]}"


@pytest.mark.parametrize("value", [8.0, 8.5, float("nan"), float("inf"), 2.0**63])
@pytest.mark.parametrize("name", ["addresses", "needs", "warp_start", "address_start"])
def test_floats_are_no_addresses_because_they_may_have_lost_their_low_bits(name, value):
    with pytest.raises(TraceError, match=f"^column {name}: must be whole numbers of type .*, not float64$"):
        changed(name, 1, value, float)


@pytest.mark.parametrize("column", [["0", "4"], [None, 4], [2**64, 4], [1j, 4], [[1], [2, 3]], ["2026-01-01"]])
def test_what_is_not_a_number_at_all_is_refused(column):
    with pytest.raises(TraceError, match=r"^column pc: must be "):
        Columns(**{**three_warps(), "pc": column})


@given(st.integers(-(2**70), 2**70), st.sampled_from(["op", "size", "gap", "mask", "needs", "addresses"]))
def test_a_column_holds_a_whole_number_exactly_or_refuses_it(value, name):
    bounds = np.iinfo(DTYPES[name])
    if bounds.min <= value <= bounds.max:
        columns = Columns(**{**three_warps(), name: [value]})
        assert getattr(columns, name).tolist() == [value]
    else:
        with pytest.raises(TraceError, match=f"^column {name}: [^\n]*$"):
            Columns(**{**three_warps(), name: [value]})


# ---- columns that disagree


@pytest.mark.parametrize(
    ("name", "row", "value", "message"),
    [
        ("op", 1, 4, "warp 0, instruction 1: op 4 is not one of 0 to 3"),
        ("space", 4, 4, "warp 2, instruction 2: space 4 is not one of 0 to 3"),
        ("gap", 2, -3, "warp 2, instruction 0: gap -3 is negative"),
        ("size", 0, 0, "warp 0, instruction 0: size 0 is not 1 to 16 bytes"),
        ("size", 4, 17, "warp 2, instruction 2: size 17 is not 1 to 16 bytes"),
        ("mask", 1, 0, "warp 0, instruction 1: no active lane (mask 0)"),
        ("mask", 2, 0b111, "warp 2, instruction 0: 2 addresses disagree with its active mask"),
        ("op", 4, Op.BARRIER, "warp 2, instruction 2: 2 addresses disagree with its active mask"),
        ("op", 3, Op.LOAD, "warp 2, instruction 1: 0 addresses disagree with its active mask"),
        ("addresses", 5, -8, "warp 2, instruction 0: address -8 is negative"),
        (
            "addresses",
            7,
            2**63 - 15,
            "warp 2, instruction 2: address 9223372036854775793 is above 9223372036854775792",
        ),
        ("warp_start", 0, 1, "column warp_start: must rise from 0 to 5"),
        ("warp_start", 1, 6, "column warp_start: must rise from 0 to 5"),
        ("warp_start", 3, 4, "column warp_start: must rise from 0 to 5"),
        ("address_start", 2, -1, "column address_start: must rise from 0 to 8"),
        ("address_start", 5, 9, "column address_start: must rise from 0 to 8"),
    ],
)
def test_an_inconsistency_is_named_by_warp_and_instruction(name, row, value, message):
    with pytest.raises(TraceError) as error:
        Trace(launch(), changed(name, row, value))
    assert str(error.value) == message


def test_the_size_of_a_barrier_does_not_matter():
    changed("size", 3, 0).check()


@pytest.mark.parametrize("name", [name for name in DTYPES if name not in ("warp_start", "addresses")])
def test_a_column_of_another_length_is_refused(name):
    raw = three_warps()
    with pytest.raises(TraceError, match=r"^column \w+: shape \(\d,\), expected \(\d,\)$"):
        Columns(**{**raw, name: raw[name][:-1]}).check()


def test_a_column_of_two_dimensions_is_refused():
    raw = three_warps()
    with pytest.raises(TraceError, match=r"^column addresses: shape \(1, 8\), expected"):
        Columns(**{**raw, "addresses": raw["addresses"][None]}).check()


# ---- traces


def test_warps_and_blocks_must_agree_with_the_launch():
    with pytest.raises(TraceError, match=r"^3 warps, but 2 blocks of 3 warps need 6$"):
        Trace(launch(blocks=2), Columns(**three_warps()))


def test_a_block_is_its_warps_numbered_from_zero_and_shares_the_addresses():
    raw = make_raw([[{**LOAD, "addresses": [8 * w, 8 * w + 4]}] * w for w in range(6)])
    trace = Trace(launch(blocks=9, warps=2), Columns(**raw), blocks=[1, 4, 8])
    block = trace.block(4)
    block.check()
    assert block.warp_start.tolist() == [0, 2, 5]
    assert block.addresses.tolist() == [16, 20] * 2 + [24, 28] * 3
    assert block.address_start.tolist() == [0, 2, 4, 6, 8, 10]
    assert np.shares_memory(block.addresses, trace.columns.addresses)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.data())
def test_a_slice_holds_the_same_rows(lengths, data):
    columns = Columns(**make_raw([[LOAD] * n for n in lengths]))
    first = data.draw(st.integers(0, len(lengths)))
    last = data.draw(st.integers(first, len(lengths)))
    part = slice_warps(columns, first, last)
    part.check()
    assert np.diff(part.warp_start).tolist() == lengths[first:last]
    lo = sum(lengths[:first])
    assert part.pc.tolist() == list(range(lo, lo + sum(lengths[first:last])))


def test_a_block_that_the_trace_does_not_hold_is_named():
    trace = Trace(launch(blocks=9), Columns(**three_warps()), blocks=[5])
    with pytest.raises(TraceError, match=r"^block 6 is not in the trace of k: it holds 1 of 9 blocks$"):
        trace.block(6)


@pytest.mark.parametrize(
    "blocks", [[0, 0], [1, 0], [-1], [10], [0.5], [float("nan")], [2**64], ["a"], [[0]], range(8, 11)]
)
def test_blocks_that_are_no_ascending_ids_of_the_grid_are_refused(blocks):
    with pytest.raises(TraceError, match=r"^blocks: must be ascending block ids below 10$"):
        check_blocks(launch(blocks=10), blocks)


@pytest.mark.parametrize("blocks", [[], [0, 9], range(0, 10, 3), range(0), np.array([2, 3])])
def test_blocks_that_are_ascending_ids_are_kept(blocks):
    assert list(check_blocks(launch(blocks=10), blocks)) == list(blocks)


def test_a_segment_counts_its_instructions_over_trips_and_active_warps():
    zeros = np.zeros(2, np.uint8)
    mask = np.array([[1, 0], [7, 7], [0, 0]], np.uint32)
    base = np.zeros((3, 2, 32), np.int64)
    segment = Segment(
        trips=5, pc=zeros, op=zeros, space=zeros, size=zeros, gap=zeros, loop_exit=zeros, step=zeros,
        needs=mask, mask=mask, base=base,
    )  # fmt: skip
    assert segment.instructions == 15


def test_a_segment_of_other_lanes_is_the_same_but_for_what_is_given():
    columns = {
        name: np.arange(2) + i for i, name in enumerate(("pc", "op", "space", "size", "gap", "loop_exit", "step"))
    }
    lanes = {
        "base": np.zeros((1, 2, 32), np.int64),
        "needs": np.ones((1, 2), np.uint64),
        "mask": np.ones((1, 2), np.uint32),
    }
    other = {name: column + 1 for name, column in lanes.items()}
    segment = Segment(trips=5, **columns, **lanes)
    for replaced in ({"base"}, {"base", "needs"}, {"base", "mask"}, set(lanes)):
        found = segment.with_lanes(**{name: other[name] for name in replaced})
        assert found.trips == 5
        assert all(getattr(found, name) is column for name, column in columns.items())
        assert all(getattr(found, name) is (other if name in replaced else lanes)[name] for name in lanes)


def test_a_trace_is_stored_unless_it_makes_its_blocks():
    class OnDemand(Trace):
        def block(self, block: int) -> Columns:
            return super().block(block)

    shape, columns = Launch(kernel="k", grid=(1, 1, 1), block=(96, 1, 1)), Columns(**three_warps())
    assert Trace(shape, columns).stored
    assert not OnDemand(shape, columns).stored


def test_a_plain_trace_knows_no_parameters_and_shortens_nothing():
    trace = Trace(Launch(kernel="k", grid=(1, 1, 1), block=(96, 1, 1)), Columns(**three_warps()))
    assert trace.params == {}
    assert trace.shortened(0.5) is None
    assert trace.any_order
