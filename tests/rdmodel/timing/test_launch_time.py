"""Check times that can be worked out by hand, the laws of a time, and errors."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel import presets
from rdmodel.cli import main
from rdmodel.gpu.latency import dram_latency, unloaded_latency
from rdmodel.timing.latency import mean_latencies
from rdmodel.timing.launch_time import CountedBlocks, choose_blocks, time_from_counts
from rdmodel.timing.traffic import LaunchTraffic
from rdmodel.timing.uneven import WarpLoads
from rdmodel.trace import Launch, Work
from tests.support.examples import examples
from tests.support.times import of_blocks
from tracegen import cuda

PTX = """.version 8.0 .target sm_80 .address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c) {
  .reg .b64 %rd<9>; .reg .b32 %r<5>; .reg .f32 %f<4>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r1, 256, %r2; mul.wide.u32 %rd4, %r3, 4;
  add.u64 %rd5, %rd1, %rd4; add.u64 %rd6, %rd2, %rd4; add.u64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5]; ld.global.f32 %f2, [%rd6]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd7], %f3; ret;
}
.visible .entry chase(.param .u64 next, .param .u64 out) {
  .reg .b64 %rd<6>; .reg .b32 %r<4>; .reg .pred %p;
  ld.param.u64 %rd1, [next]; mov.u32 %r1, 0; mov.u64 %rd2, %rd1;
L: ld.global.u64 %rd2, [%rd2]; add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 1000; @%p bra L;
  ld.param.u64 %rd3, [out]; st.global.u64 [%rd3], %rd2; ret;
}
.visible .entry flops(.param .u64 out) {
  .reg .b64 %rd<3>; .reg .b32 %r<4>; .reg .pred %p; .reg .f32 %f<9>;
  mov.u32 %r1, 0; mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F800000; mov.f32 %f3, 0f3F800000; mov.f32 %f4, 0f3F800000;
L: fma.rn.f32 %f1, %f1, %f1, %f1; fma.rn.f32 %f2, %f2, %f2, %f2; fma.rn.f32 %f3, %f3, %f3, %f3;
  fma.rn.f32 %f4, %f4, %f4, %f4; fma.rn.f32 %f1, %f1, %f1, %f1; fma.rn.f32 %f2, %f2, %f2, %f2;
  fma.rn.f32 %f3, %f3, %f3, %f3; fma.rn.f32 %f4, %f4, %f4, %f4;
  add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 500; @%p bra L;
  ld.param.u64 %rd1, [out]; st.global.f32 [%rd1], %f1; ret;
}"""

A100 = presets.gpu("a100-40g")


def test_a_vector_sum_is_bound_by_the_dram_at_its_efficiency():
    blocks = 108 * 8 * 64
    n = 256 * blocks
    found = rd.time(cuda.trace(PTX, "add", blocks, 256, [f"float[{n}]:zeros"] * 3), A100)
    rates, _ = presets.rates_of(A100)
    # A third of the bytes is written: 4 x 1/3 x 2/3 of the loss that as many writes as reads have.
    reached = rates["dram_efficiency"] / 9 + 8 / 9 * rates["dram_mixed_efficiency"]
    launched = rates["launch_latency"] / 1000
    assert found.milliseconds == pytest.approx(launched + 1000 * 3 * 4 * n / (1555.2e9 * reached), rel=0.01)
    assert (found.bound, found.resident_warps, found.waves, found.tail_share) == ("DRAM", 64, 64, 0)
    assert found.explanation.startswith("bound by: DRAM 98 %, ")
    assert found.explanation.endswith("; occupancy 64 of 64 warps (threads)")


def test_arithmetic_alone_runs_at_the_rate_of_its_lanes():
    found = rd.time(cuda.trace(PTX, "flops", 108 * 8, 256, ["float[4]:zeros"]), A100)
    # 64 warps of 4,000 multiply-adds, at 2 warps per cycle.
    assert of_blocks(found) == pytest.approx(64 * 4000 / 2, rel=0.02)
    assert found.bound == "fp32"
    assert found.shares["fp32"] == pytest.approx(1, abs=0.03)


def test_a_pointer_chase_takes_a_latency_per_step():
    # Each element holds the address of the first one.
    trace = cuda.trace(PTX, "chase", 1, 1, [np.full(8, 1 << 28), "int64[1]:zeros"], base=1 << 28)
    found = rd.time(trace, A100)
    assert of_blocks(found) == pytest.approx(1000 * A100.core.hit_latency, rel=0.05)
    assert (found.bound, found.limiter, found.resident_warps) == ("latency", "grid", 1)


def test_a_trace_without_arithmetic_is_timed_by_its_accesses():
    found = rd.time(tracegen.kernel("gemm", NI=64, NJ=64, NK=64), "rtx3070")
    assert found.cycles >= max(found.terms.values()) * (1 - 1e-9)
    assert found.to_dict()["bound"] == found.bound
    assert found.milliseconds == pytest.approx(found.cycles / (found.clock * 1000))


LAUNCH = Launch(kernel="k", grid=(4096, 1, 1), block=(256, 1, 1), registers=32)


class Nothing:
    """A trace of a launch, of which only the chain of its instructions is known."""

    def __init__(self, blocks=4096, cycles=500.0):
        self.launch = Launch(kernel="k", grid=(blocks, 1, 1), block=(256, 1, 1), registers=32)
        self._cycles = cycles

    def chains(self, block, latencies, together):
        return [(self._cycles + 10 * latencies["load_global"], {"fp32": 50.0, "int": 20.0}, 10.0)]

    def crowding(self, block, latencies, resident):
        return None


def work(**changes):
    """The work of a block of 8 warps."""
    values = {"fp32": 400, "int": 160, "load_global": 80} | changes
    return Work(
        blocks=1, warps=8, instructions=values, requests={"load_global": values["load_global"]},
        tag_lookups={"load_global": values["load_global"]}, sectors={"load_global": 4 * values["load_global"]},
    )  # fmt: skip


def traffic(blocks=4096, dram=8e3):
    return LaunchTraffic(
        missing_share=0.5, fetching_share=0.4,
        l2_read_bytes=1e4 * blocks, l2_write_bytes=1e3 * blocks, dram_read_share=0.4,
        dram_wait_share=0.4,
        dram_bytes=dram * blocks,
    )  # fmt: skip


def timed(gpu=A100, blocks=4096, cycles=500.0, dram=8e3, **changes):
    return time_from_counts(
        Nothing(blocks, cycles),
        gpu,
        traffic(blocks, dram),
        CountedBlocks([0], [1.0], [work(**changes)], [80.0], [(0.0, 0.0)], [WarpLoads.even(8)]),
    )


@examples(25)
@given(
    st.sampled_from(presets.names()), st.floats(0, 1e5), st.floats(0, 2e5), st.integers(0, 5000), st.integers(1, 5000)
)
def test_a_time_is_at_least_each_of_its_terms_and_at_most_their_sum(name, cycles, dram, fp32, blocks):
    gpu = presets.gpu(name)
    found = timed(gpu, blocks, cycles, dram, fp32=fp32)
    assert max(found.terms.values()) <= found.cycles * (1 + 1e-6)
    # The last wave may be partly empty, so that its SMs are used longer than on average.
    assert found.cycles <= sum(found.terms.values()) * (1 + found.resident_blocks * gpu.sms / blocks) * (1 + 1e-6)


@pytest.mark.parametrize("rate", ["dram_efficiency", "l2_efficiency", "fp32", "issue", "requests", "l1_bytes"])
def test_more_of_a_resource_is_never_slower_and_of_the_binding_one_faster(rate):
    rates, _ = presets.rates_of(A100)
    less = presets.like(A100, {f"rates.{rate}": rates[rate] / 10})
    assert timed(less).cycles >= timed().cycles
    binding = {"dram_efficiency": "DRAM", "l2_efficiency": "L2", "fp32": "fp32"}.get(rate)
    if binding is not None:
        slow = timed(less, fp32=4000)
        assert slow.bound == binding
        assert slow.cycles == pytest.approx(slow.terms[binding], rel=0.15)


@pytest.mark.parametrize(("name", "waits"), [("a6000", True), ("h100-sxm", True), ("a100-40g", False), ("p100", False)])
def test_multiply_adds_wait_for_their_operands_where_a_sub_core_begins_one_per_cycle(name, waits):
    gpu = presets.gpu(name)
    multiplied = Work(
        blocks=1, warps=8, instructions={"fp32": 400, "int": 80}, operations={"fp32_fma": 9600, "fp32_add": 3200}
    )

    def issue(stalls):
        counted = CountedBlocks(
            [0], [1.0], [multiplied], [80.0], [(0.0, 0.0)], [WarpLoads.even(8)], operand_stalls=stalls
        )
        found = time_from_counts(Nothing(4096, 500.0), gpu, traffic(), counted)
        return found.terms["issue slots"]

    # Three in four instructions of single precision are multiply-adds.
    assert issue(0.25) / issue(0.0) == pytest.approx((480 + 0.25 * 300) / 480 if waits else 1.0)


def test_twice_the_grid_of_full_waves_takes_twice_as_long():
    wave = 108 * 8
    one, two = (of_blocks(timed(blocks=waves * wave, dram=0.0)) for waves in (3, 6))
    assert two == pytest.approx(2 * one)


def test_loads_wait_for_the_slowest_level_that_they_reach():
    rates, _ = presets.rates_of(A100)
    found = mean_latencies(traffic(), A100, rates)
    behind = unloaded_latency(A100) + 0.4 * dram_latency(A100)
    assert found["load_global"] == pytest.approx((33 + behind) / 2)
    assert (found["atomic"], found["load_local"], found["fp32"]) == (behind, 33, rates["fp32_latency"])


def test_the_command_prints_the_time_what_binds_it_and_json(capsys, tmp_path):
    path = tmp_path / "add.ptx"
    path.write_text(PTX)
    arguments = ["time", str(path), "--kernel", "add", "--grid", "4096", "--block", "256"]
    arguments += [part for at in range(3) for part in ("--arg", f"{at}=float[1048576]:zeros")]
    assert main([*arguments, "--gpu", "rtx3070"]) == 0
    out = capsys.readouterr().out
    assert "add on rtx3070: " in out
    assert "bound by: DRAM " in out
    assert main([*arguments, "--gpu", "rtx3070", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["bound"] == "DRAM"
    assert math.isclose(plain["milliseconds"], plain["cycles"] / plain["clock"] / 1000)
    assert plain["occupancy"] == {"blocks": 6, "warps": 48, "max_warps": 48, "limiter": "threads"}
    assert main([*arguments, "--sample", "0"]) == 2
    assert "sample=0: must be at least 1" in capsys.readouterr().err


def test_options_that_make_no_sense_are_refused():
    trace = tracegen.kernel("atax.1", NX=64, NY=64)
    with pytest.raises(rd.ConfigError, match="l2: not an option of time"):
        rd.time(trace, l2=True)
    with pytest.raises(rd.ConfigError, match="value for caches: 'all'"):
        rd.time(trace, caches="all")
    with pytest.raises(rd.TraceError, match="trace"):
        rd.time("atax.1")
    mine = rd.GPU(name="mine", sms=1, max_threads=1024, max_blocks=8, max_warps=32, l1=presets.gpu("gtx470-16k").l1)
    with pytest.raises(rd.ConfigError, match="architecture=''"):
        rd.time(trace, mine)


@examples(30)
@given(st.tuples(*[st.integers(1, 40)] * 2, st.integers(1, 3)), st.integers(1, 6))
def test_the_chosen_blocks_stand_for_the_grid_and_for_its_edges(grid, sample):
    class Held:
        launch = Launch(kernel="k", grid=grid, block=(32, 1, 1))
        blocks = range(launch.blocks)

    chosen = choose_blocks(Held(), sample)
    x, y, z = grid
    assert sum(chosen.values()) == pytest.approx(x * y * z)
    assert all(0 <= block < x * y * z for block in chosen)
    last_row = sum(weight for block, weight in chosen.items() if block // x % y == y - 1)
    assert last_row == pytest.approx(x * z) or y == 1
