"""Kernels that access memory near their allocations fail, or find zeros there if the replay is lenient."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel.cli.main import main
from rdmodel.errors import TraceError
from rdmodel.trace import Op
from tests.support.gather_recordings import INDEX, X, add_launch, begin_recording, end_recording
from tracegen.ptx.emulator.device_memory import MARGIN
from tracegen.recording.memory import AddressSpace
from tracegen.recording.replay import launches


@pytest.fixture
def recording(tmp_path):
    """Return a function that records a gather whose loads of `x` begin at an address."""

    def recorded(x):
        folder = tmp_path / "out"
        writer = begin_recording(folder)
        writer.add_content(INDEX, np.arange(256, dtype=np.int32).tobytes())
        add_launch(writer, x)
        end_recording(writer)
        return folder

    return recorded


@pytest.mark.parametrize("x", [X - 64, X + 1024 - 64, X + 2000, INDEX - 4096, INDEX - MARGIN])
def test_loads_near_allocations_are_errors_unless_the_replay_is_lenient(recording, x):
    folder = recording(x)
    (trace,) = launches(folder)
    with pytest.raises(TraceError, match=r"thread .* of block .*; a device may not notice .* lenient=True"):
        trace.block(0)
    (trace,) = launches(folder, lenient=True)
    columns = trace.columns
    loads = columns.addresses[np.repeat(columns.op == Op.LOAD, np.diff(columns.address_start))]
    assert {x + 4 * n for n in range(32)} <= set(loads.tolist())


def test_loads_far_from_all_allocations_stay_errors(recording):
    (trace,) = launches(recording(INDEX - MARGIN - 128), lenient=True)
    with pytest.raises(TraceError, match=r"128 bytes before memory outside allocations, thread [^;]*$"):
        trace.block(0)


def test_the_command_takes_the_option(recording, capfd):
    folder = str(recording(X - 64))
    assert main(["predict", folder, "--json"]) == 2
    assert "--lenient" in capfd.readouterr().err
    assert main(["predict", folder, "--lenient", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["kernel"] == "gather"


GAPS = st.one_of(st.integers(0, 4), st.sampled_from([MARGIN - 1, MARGIN, 2 * MARGIN, 2 * MARGIN + 1, 5 * MARGIN]))


@given(st.lists(st.tuples(GAPS, st.integers(1, 9)), min_size=1, max_size=5))
def test_margins_fill_the_free_memory_within_their_reach_and_nothing_else(layout):
    space, end, allocated = AddressSpace(), 3 * MARGIN, []
    for gap, size in layout:
        space.add(end + gap, np.ones(size, np.uint8), "device")
        allocated.append((end + gap, end + gap + size))
        end += gap + size
    memory = space.device_memory(copies=False, margins=True)
    ranges = [(buffer.base, buffer.base + buffer.bytes) for buffer in memory.buffers]
    assert ranges == sorted(ranges)
    assert all(before[1] <= after[0] for before, after in pairwise(ranges))
    assert set(allocated) <= set(ranges)
    edges = sorted(
        {edge + d for pair in allocated for at in pair for edge in (at - MARGIN, at, at + MARGIN) for d in (-1, 0)}
    )
    for address in edges:
        near = any(begin - MARGIN <= address < stop + MARGIN for begin, stop in allocated)
        assert any(begin <= address < stop for begin, stop in ranges) == near
