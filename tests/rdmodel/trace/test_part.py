"""Some blocks of a trace as a trace of their own, in Python and on the command line."""

import json

import numpy as np
import pytest

import tracegen
from rdmodel.errors import TraceError
from rdmodel.trace import Columns, locate_block, storage
from rdmodel.trace.part import PartialTrace
from tests.support.builders import load, make_trace

TRACE = make_trace([[[load(block), load(block + 8)], [load(block + 16)]] for block in range(6)], 2)


def addresses(content):
    assert isinstance(content, Columns)
    return content.addresses.tolist()


def test_the_blocks_are_those_of_the_whole_trace_and_others_are_missing():
    part = PartialTrace(TRACE, [1, 4])
    assert list(part.blocks) == [1, 4]
    assert (part.launch, len(part)) == (TRACE.launch, 6)
    for block in part.blocks:
        assert addresses(part.block(block)) == addresses(TRACE.block(block))
        assert locate_block(part, block) == (TRACE.columns, 2 * block)
        assert part.count_lanes(block) == TRACE.count_lanes(block)
    for ask in (part.block, part.count_lanes, part.locate):
        with pytest.raises(TraceError, match="block 2 is not in the trace"):
            ask(2)


def test_blocks_that_the_trace_lacks_are_left_out():
    held = PartialTrace(TRACE, [0, 3, 5])
    assert list(PartialTrace(held, range(4)).blocks) == [0, 3]


def test_a_part_is_saved_as_a_trace(tmp_path):
    storage.save(PartialTrace(TRACE, [2, 5]), tmp_path / "part")
    saved = storage.load(tmp_path / "part")
    assert list(saved.blocks) == [2, 5]
    for block in (2, 5):
        assert addresses(saved.block(block)) == addresses(TRACE.block(block))


def test_a_part_of_a_trace_of_loops_counts_their_iterations():
    loops = tracegen.kernel("gemm", NI=64, NJ=64, NK=16)
    part = PartialTrace(loops, [1])
    assert len(part) == sum(segment.instructions for segment in loops.block(1))


@pytest.mark.parametrize(
    ("options", "blocks"),
    [
        ((), [0, 1, 2, 3, 4, 5]),
        (("--blocks", "2", "--model-sms", "all"), [0, 1]),
        (("--sms", "3"), [0, 3]),
        (("--sms", "3", "--all"), [0, 1, 2, 3, 4, 5]),
    ],
)
def test_a_recorded_trace_is_cut_where_options_choose_blocks(run, tmp_path, options, blocks):
    storage.save(TRACE, tmp_path / "whole")
    status, out, err = run("trace", str(tmp_path / "whole"), *options, "-o", str(tmp_path / "part"))
    assert (status, err) == (0, "")
    assert f"wrote {len(blocks)} of 6 blocks" in out
    saved = storage.load(tmp_path / "part")
    assert list(saved.blocks) == blocks
    assert np.array_equal(saved.block(blocks[-1]).addresses, TRACE.block(blocks[-1]).addresses)
    if "--all" not in options:
        summary = json.loads(run("info", str(tmp_path / "whole"), *options, "--json")[1])
        assert summary["blocks_held"] == len(blocks)
