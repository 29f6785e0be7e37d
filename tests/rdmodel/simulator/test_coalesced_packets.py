"""Messages that carry what a transaction needs (`crossbar.packets`), in machines whose lines have no sectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
from rdmodel.errors import ConfigError
from rdmodel.policies import BypassAll, Linear, StreamingBypass
from rdmodel.reference.machine.messages import aligned_piece
from tests.support.engine_checks import MEMORIES, MOSTLY_LOADS, SEEDS, check, check_trace, whole
from tests.support.examples import examples
from tests.support.presets import FERMI
from tests.support.random_machines import Mix, changed, random_blocks, random_gpu, random_policies
from tests.support.random_traces import column_traces, program_traces

COALESCED = {"crossbar": {"packets": "coalesced"}}
SMALL = changed(rd.presets.gpu(FERMI), **COALESCED)
MIX = {"sectors": 4, "ops": MOSTLY_LOADS}


@examples(120)
@given(SEEDS, st.integers(1, 3), st.integers(1, 4), st.integers(0, 6), MEMORIES)
def test_random_machines_equal_the_reference_cycle_for_cycle(seed, sms, warps, blocks, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, 128, **COALESCED)
    check(random, gpu, random_blocks(random, blocks, warps, Mix(sectors=4)), 2, sms, memory)


@examples(80)
@given(SEEDS, st.integers(1, 2), st.integers(1, 4), MEMORIES)
def test_policies_that_bypass_equal_the_reference(seed, sms, warps, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, 128, **COALESCED, core={"store_acks": bool(random.integers(2))})
    blocks = random_blocks(random, 5, warps, Mix(**MIX, most=16, pool=tuple(range(16))))
    check(random, gpu, blocks, 2, sms, memory, (*random_policies(random), BypassAll())[:1])


@examples(40)
@given(SEEDS, st.integers(20, 150), st.integers(1, 4), MEMORIES)
def test_closed_l1s_write_whole_lines_back(seed, period, warps, memory):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, 128, **COALESCED)
    blocks = random_blocks(random, 4, warps, Mix(**MIX, most=20, pool=tuple(range(16)), local=0.7, empty=0))
    check(random, gpu, blocks, 2, 1, memory, (StreamingBypass(period=period, threshold=0.0, caches="l1"),))


@examples(40)
@given(st.one_of(column_traces(), program_traces()).map(whole), SEEDS, st.booleans(), st.booleans())
def test_random_traces_equal_the_reference_through_the_public_door(trace, seed, stores, past):
    random = np.random.default_rng(seed)
    gpu = random_gpu(random, line=int(random.choice([32, 128])), **COALESCED)
    check_trace(trace, gpu, sms=2, stores=stores, policies=[BypassAll()] if past else [])


def strided(words: int) -> rd.Trace:
    """Return a block of 32 threads, each of which loads a word and stores it, `words` words from its neighbour."""
    import tracegen

    def copy(k, A, B):
        k.load(A, words * k.x)
        k.store(B, words * k.x)

    return tracegen.trace(copy, grid=1, block=32, arrays={"A": 32 * words, "B": 32 * words})


@pytest.mark.parametrize(
    ("words", "messages", "bytes_each"),
    [(1, 1, 128), (2, 2, 128), (4, 4, 128), (8, 8, 128), (16, 16, 128), (32, 32, 32), (64, 32, 32)],
)
def test_a_message_carries_the_smallest_aligned_piece_with_all_words(words, messages, bytes_each):
    found = rd.simulate(strided(words), SMALL, sms=1, policies=[BypassAll()]).traffic
    assert (found.read_messages, found.write_messages) == (messages, messages)
    assert found.response_bytes == messages * (8 + bytes_each)
    assert found.request_bytes == messages * (8 + 8 + bytes_each)


def test_what_enters_the_l1_is_a_whole_line():
    found = rd.simulate(strided(32), SMALL, sms=1)
    assert found.traffic.response_bytes == 32 * (8 + 128)
    assert found.traffic.request_bytes == 32 * (8 + 8 + 32)


def test_small_answers_arrive_earlier():
    lines, pieces = (rd.simulate(strided(32), gpu, sms=1, policies=[BypassAll()]) for gpu in (FERMI, SMALL))
    assert lines.cycles > pieces.cycles and lines.l2.reads == pieces.l2.reads and lines.dram == pieces.dram


@pytest.mark.parametrize("policies", [[], [BypassAll()]])
def test_kernels_that_use_whole_lines_take_the_same_cycles(policies):
    old, new = (rd.simulate(strided(1), gpu, sms=1, policies=policies) for gpu in (FERMI, SMALL))
    assert (old.cycles, old.traffic, old.l2) == (new.cycles, new.traffic, new.l2)


def test_pieces_are_the_smallest_aligned_powers_of_two():
    for asked in range(1, 1 << 8):
        groups = [((1 << width) - 1) << at for width in (1, 2, 4, 8) for at in range(0, 8, width)]
        assert aligned_piece(asked) == next(group for group in groups if asked & ~group == 0)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"crossbar": {"packets": "small"}}, "unknown value for packets: 'small'; known: lines, coalesced"),
        ({**COALESCED, "l1": {"line": 2048, "index": Linear()}}, "l1.line=2048: must be from 32 to 1024 with"),
        (
            {**COALESCED, "l1": {"sector": 32, "stores": "through"}, "l2": {"sector": 32}},
            "crossbar.packets='coalesced'",
        ),
    ],
)
def test_machines_without_such_messages_are_refused(parts, said):
    with pytest.raises(ConfigError, match=said):
        rd.simulate(strided(1), changed(rd.presets.gpu(FERMI), **parts))


def test_the_field_can_be_set_from_a_shell(run):
    code, out, _ = run("simulate", "atax.1", "--gpu", FERMI, "--set", "crossbar.packets=coalesced", *SIZES, "--json")
    assert code == 0 and '"packets": "coalesced"' in out


SIZES = ("--param", "NX=64", "--param", "NY=64", "--sms", "1")
