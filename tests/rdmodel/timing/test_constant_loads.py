"""Loads from constant memory take time where they are instructions, and none where they are operands."""

import pytest

import rdmodel as rd
from rdmodel import presets
from tracegen import cuda

PTX = """.version 8.0 .target sm_80 .address_size 64
.const .align 4 .b8 w[4096];
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<5>; .reg .b32 %r<5>; .reg .pred %p<3>; .reg .f32 %f<9>;
  mov.u32 %r1, 0; mov.u32 %r2, %tid.x; mov.f32 %f1, 0f00000000; mov.u64 %rd2, w; mul.wide.u32 %rd3, PLACE, 4;
  add.u64 %rd2, %rd2, %rd3; setp.lt.u32 %p1, %r2, 7;
L: LOADS
  add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 500; @%p bra L;
  ld.param.u64 %rd1, [out]; st.global.f32 [%rd1], %f1; ret;
}""".replace("%p, ", "%p2, ").replace("@%p ", "@%p2 ")

LOAD = "ld.const.f32 %f2, [{place}+{at}]; add.f32 %f1, %f1, %f2;"
STRAIGHT = " ".join(LOAD.format(place="w", at=4 * i) for i in range(8))
BRANCHES = " ".join(f"@%p1 bra B{i}; {LOAD.format(place='w', at=4 * i)} B{i}:" for i in range(8))
INDEXED = " ".join(LOAD.format(place="%rd2", at=4 * i) for i in range(8))


def timed(loads, name, place="%r2"):
    """Time 64 warps per SM that load 8 words in each of 500 iterations; return the term for one iteration of a warp."""
    gpu = presets.gpu(name)
    text = PTX.replace("LOADS", loads).replace("PLACE", place)
    found = rd.time(cuda.trace(text, "k", gpu.sms * (gpu.max_warps // 8), 256, ["float[4]:zeros"]), gpu)
    return found.terms["constant loads"] / (500 * gpu.max_warps), found


@pytest.mark.parametrize(("name", "cycles"), [("a4000", 0), ("l40", 0), ("h100", 16), ("b200", 16), ("rtx5090", 16)])
def test_loads_in_short_branches_are_instructions_since_9_0(name, cycles):
    # validation/h100/tuning.csv: no launch makes more than one in two cycles, and 23 launches make nearly as many.
    loads, found = timed(BRANCHES, name)
    assert loads == pytest.approx(cycles)
    assert (found.bound == "constant loads") == (cycles > 0)


@pytest.mark.parametrize("name", ["a4000", "h100"])
def test_loads_in_straight_code_are_operands(name):
    assert timed(STRAIGHT, name)[0] == 0


@pytest.mark.parametrize("name", ["a4000", "h100"])
def test_loads_at_the_places_of_threads_take_a_pass_for_each_word(name):
    # 32 lanes of a warp read 32 words; four lanes each read one of 8 words; all lanes of the block read one word.
    assert timed(INDEXED, name)[0] == pytest.approx(8 * 2 * 32)
    eight = INDEXED.replace("%rd2", "%rd4")
    shift = "shr.u32 %r3, %r2, 2; and.b32 %r3, %r3, 7; mul.wide.u32 %rd4, %r3, 4; add.u64 %rd4, %rd4, %rd2; "
    assert timed(shift + eight, name, place="%r1")[0] == pytest.approx(8 * 2 * 8)
    assert timed(INDEXED, name, place="%r1")[0] == 0


def test_operands_of_current_gpus_take_an_issue_slot_for_neighbouring_words():
    # 500 iterations of 8 loads, 8 sums and a loop of three instructions.
    slots = {
        name: timed(STRAIGHT, name)[1].terms["issue slots"] * presets.gpu(name).core.schedulers
        / (500 * presets.gpu(name).max_warps)
        for name in ("l40", "h100", "b200")
    }  # fmt: skip
    assert slots["h100"] - slots["l40"] == pytest.approx(8 / 2, abs=0.1)
    assert slots["b200"] - slots["l40"] == pytest.approx(8 / 4, abs=0.1)
