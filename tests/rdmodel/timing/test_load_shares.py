"""Each load instruction waits as often as it misses itself, not as often as all loads do on average."""

import json

import pytest

import rdmodel as rd
from rdmodel import presets
from rdmodel.timing.latency import mean_latencies
from rdmodel.timing.traffic import fetching_share, load_shares, missing_share
from tracegen import cuda

COLUMNS = """.version 8.0 .target sm_80 .address_size 64
.visible .entry columns(.param .u64 a, .param .u64 b) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
  mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd4, %r2, 1048576; add.u64 %rd1, %rd1, %rd3; add.u64 %rd1, %rd1, %rd4;
  mov.u32 %r3, 0; mov.f32 %f4, 0f00000000;
L: ld.global.f32 %f1, [%rd1]; HITS fma.rn.f32 %f4, %f1, %f2, %f4;
  st.global.f32 [%rd2+1024], %f4; add.u64 %rd1, %rd1, 1024; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 256; @%p1 bra L;
  ret;
}"""
"""Each block reads 1 KB of its own in each iteration, and again and again the same numbers, where HITS has loads."""

SAME = " ".join(f"ld.global.f32 %f{number}, [%rd2+{64 * number}];" for number in (5, 6, 7)) + " mov.f32 %f2, %f5;"


def columns(hits):
    arrays = ["float[2097152]:zeros", "float[2048]:zeros"]
    return cuda.trace(COLUMNS.replace("HITS", hits), "columns", 8, 256, arrays)


def test_loads_that_hit_take_nothing_from_the_latency_of_one_that_misses():
    alone = rd.time(columns("mov.f32 %f2, 0f3f800000;"), "a100")
    beside = rd.time(columns(SAME), "a100")
    assert alone.bound == beside.bound == "latency"
    assert beside.cycles == pytest.approx(alone.cycles, rel=0.05)


def test_shares_of_instructions_sum_to_those_of_all_loads():
    found = rd.predict(columns(SAME), "a100", sms=1, origins=True)
    rows = {row.pc: row.counts for row in found.by("instruction").rows}
    shares = load_shares(found)
    assert [each.pc for each in shares] == sorted(pc for pc, counts in rows.items() if counts.requests)
    assert len(shares) == 4
    assert max(each.missing for each in shares) == 1 and sorted(each.missing for each in shares)[2] < 0.1
    for name, total in (("fetching", fetching_share(found)), ("missing", missing_share(found))):
        mean = sum(getattr(each, name) * rows[each.pc].requests for each in shares) / found.requests
        assert mean == pytest.approx(total, abs=0.02)


def test_an_instruction_that_was_not_seen_has_the_latency_of_all_loads():
    gpu = presets.gpu("a100")
    found = rd.time(columns(SAME), gpu)
    latencies = mean_latencies(found.traffic, gpu, presets.rates_of(gpu)[0])
    own = [latencies[f"load_global:{each.pc}"] for each in found.traffic.load_shares]
    assert min(own) < latencies["load_global"] < max(own)
    assert "load_global:9999" not in latencies


def test_shares_of_instructions_are_no_part_of_the_output():
    assert "load_shares" not in json.dumps(rd.time(columns(SAME), "a100").to_dict())
