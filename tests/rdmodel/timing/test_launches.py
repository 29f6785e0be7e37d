"""Check the time of a launch beside its blocks, of the start of blocks, and of the ends of a grid."""

import pytest

import rdmodel as rd
from rdmodel import presets
from rdmodel.gpu.overrides import override
from rdmodel.timing.demands import Demand
from rdmodel.timing.latency import Phase
from rdmodel.timing.waves import Block, idle_at_ends, time_of_grid, time_of_wave
from tests.support.times import of_blocks
from tracegen import cuda

STORE = """.version 8.0 .target sm_80 .address_size 64
.visible .entry k(.param .u64 a) { .reg .b64 %rd<3>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [a]; mov.u32 %r1, 0; st.global.u32 [%rd1], %r1; ret; }"""


def launched(blocks, gpu, block=32):
    return rd.time(cuda.trace(STORE, "k", blocks, block, ["int[4]:zeros"]), gpu)


@pytest.mark.parametrize("name", ["a100-80g", "h200", "l40", "k40c-16k"])
def test_a_launch_of_a_block_that_does_nothing_takes_the_time_of_a_launch(name):
    rates, _ = presets.rates_of(presets.gpu(name))
    found = launched(1, name)
    assert found.bound == "launch"
    assert 1000 * found.milliseconds == pytest.approx(rates["launch_latency"], abs=0.5)


def test_the_time_of_a_launch_can_be_left_out():
    gpu = override(presets.gpu("a100-80g"), {"rates.launch_latency": "0"})
    found = launched(1, gpu)
    assert found.terms["launch"] == 0.0
    assert found.cycles == pytest.approx(launched(1, "a100-80g").cycles - 2.4 * gpu.clock)


@pytest.mark.parametrize("name", ["a100-80g", "h200"])
def test_many_small_blocks_start_one_after_the_other_whatever_the_number_of_sms(name):
    gpu = presets.gpu(name)
    rates, _ = presets.rates_of(gpu)
    found = launched(1_000_000, gpu)
    assert found.bound == "block starts"
    assert of_blocks(found) == pytest.approx(1e6 / rates["block_starts"], rel=0.02)
    more = override(gpu, {"sms": str(2 * gpu.sms)})
    assert launched(1_000_000, more).cycles == pytest.approx(found.cycles, rel=0.02)


def block(dram, cycles, latency=600.0):
    return Block(
        warps=4,
        phases=[[Phase(cycles, 1.0, 4.0)]],
        demands=lambda active: [Demand("fp32", "core", 8.0, 4.0), Demand("DRAM", "DRAM", dram, 1 / active)],
        barriers=False,
        dram_latency=latency,
    )


def test_the_dram_of_a_grid_that_it_binds_is_idle_for_a_latency_at_its_ends():
    busy = block(dram=4000.0, cycles=800.0)
    wave, alone = time_of_wave(busy, 8, 10)
    assert wave == pytest.approx(8 * 4000, rel=0.01)
    assert idle_at_ends(busy, 8, 10, wave, alone) == pytest.approx(600, abs=0.01 * wave)
    grid = time_of_grid(busy, 3 * 80, 10, 8)
    assert grid.cycles == pytest.approx(3 * wave + idle_at_ends(busy, 8, 10, wave, alone))


def test_a_grid_that_waits_for_latencies_has_these_in_its_time_already():
    waiting = block(dram=10.0, cycles=800.0)
    assert idle_at_ends(waiting, 8, 10, *time_of_wave(waiting, 8, 10)) == 0.0


def test_blocks_that_are_short_wait_no_longer_than_they_are():
    short = block(dram=4000.0, cycles=50.0)
    wave, alone = time_of_wave(short, 8, 10)
    assert 0 < idle_at_ends(short, 8, 10, wave, alone) <= alone < 600
