"""Conversions run at the rate of the units that execute them on each generation."""

import pytest

import rdmodel as rd
from rdmodel import presets
from rdmodel.trace.conversion_units import UNITS, by_unit, unit_of, unit_of_wide_conversions
from rdmodel.trace.work import ARITHMETIC_CLASSES
from tracegen import cuda

PTX = """.version 8.0 .target sm_80 .address_size 64
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p; .reg .f32 %f<9>; .reg .f64 %d<9>;
  mov.u32 %r1, 0; mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.y; mov.u32 %r4, %tid.z; mov.u32 %r5, %ctaid.x;
  ld.param.u64 %rd2, [out]; ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd2];
L: CONVERT
  add.u32 %r1, %r1, 1; setp.lt.u32 %p, %r1, 500; @%p bra L;
  ld.param.u64 %rd1, [out]; st.global.f32 [%rd1], %f1; ret;
}"""

TO_FLOAT = " ".join(f"cvt.rn.f32.s32 %f{i}, %r{i + 1};" for i in (1, 2, 3, 4)) * 2
TO_DOUBLE = " ".join(f"cvt.f64.f32 %d{i}, %f{i};" for i in (1, 2, 3, 4)) * 2
MULTIPLY_DOUBLES = " ".join(f"fma.rn.f64 %d{i}, %d{i}, %d{i}, %d{i};" for i in (5, 6, 7, 8)) * 2
TO_INT = " ".join(f"cvt.rzi.s32.f32 %r{i + 1}, %f{i};" for i in (1, 2, 3, 4)) * 2


def timed(convert, name):
    """Time 64 warps per SM, each of which converts 8 numbers in each of 500 iterations."""
    gpu = presets.gpu(name)
    blocks = gpu.sms * (gpu.max_warps // 8)
    return rd.time(cuda.trace(PTX.replace("CONVERT", convert), "k", blocks, 256, ["float[4]:zeros"]), gpu), gpu


@pytest.mark.parametrize(("name", "rate"), [("a100-40g", 16), ("rtx2080ti", 16), ("a4000", 64), ("h100", 64)])
def test_integers_become_floats_at_the_rate_of_the_units_that_do_it(name, rate):
    # The probe `rate.op op=i2f` measures 63 per cycle on an H100.
    found, gpu = timed(TO_FLOAT, name)
    converted = 4000 * 32 * gpu.max_warps / rate
    # The integer units also count the iterations and compare them.
    extra = 1000 * 32 * gpu.max_warps / 64 if rate == 64 else 0
    assert found.terms["int" if rate == 64 else "conversion"] == pytest.approx(converted + extra, rel=0.01)
    assert found.bound == ("int" if rate == 64 else "conversion")


@pytest.mark.parametrize("name", ["a100-40g", "a4000", "h100"])
def test_floats_become_integers_at_the_rate_of_special_functions(name):
    # The probe `rate.op op=f2i` measures 16 per cycle on an H100.
    found, gpu = timed(TO_INT, name)
    assert found.bound == "conversion"
    assert found.cycles == pytest.approx(4000 * 32 * gpu.max_warps / 16, rel=0.02)


@pytest.mark.parametrize(
    ("name", "rate", "unit"),
    [
        ("a100-40g", 16, "conversion"),
        ("h100", 16, "conversion"),
        ("rtx2080ti", 2, "fp64"),
        ("a4000", 2, "fp64"),
        ("titan-x-pascal", 4, "fp64"),
    ],
)
def test_conversions_to_64_bits_have_a_rate_of_their_own(name, rate, unit):
    found, gpu = timed(TO_DOUBLE, name)
    assert unit_of_wide_conversions(presets.rates_of(gpu)[0]) == unit
    assert found.bound == unit
    assert found.terms[unit] == pytest.approx(4000 * 32 * gpu.max_warps / rate)


@pytest.mark.parametrize(("name", "together"), [("a100-40g", False), ("a4000", True)])
def test_few_units_for_double_precision_also_convert(name, together):
    # `validation.tuning` has times of a kernel with six conversions for seven operations.
    found, gpu = timed(TO_DOUBLE + MULTIPLY_DOUBLES, name)
    rates, _ = presets.rates_of(gpu)
    converted, multiplied = (4000 * 32 * gpu.max_warps / rates[each] for each in ("conversion_64", "fp64"))
    assert found.terms["fp64"] == pytest.approx(multiplied + together * converted)
    assert found.terms["conversion"] == pytest.approx(0 if together else converted)


@pytest.mark.parametrize(("name", "shared"), [("a100-40g", False), ("h100", False), ("a4000", True)])
def test_a_warp_that_is_alone_has_all_units_that_the_sub_cores_share(name, shared):
    gpu = presets.gpu(name)
    rates, _ = presets.rates_of(gpu)
    per_instruction = 32 / rates["fp64"] * (1 if shared else gpu.core.schedulers)
    each = [
        rd.time(
            cuda.trace(PTX.replace("CONVERT", MULTIPLY_DOUBLES * 8), "k", gpu.sms, threads, ["float[4]:zeros"]), gpu
        )
        for threads in (32, 128)
    ]
    cycles = [found.cycles - found.terms["launch"] for found in each]
    assert cycles[0] == pytest.approx(32000 * per_instruction, rel=0.1)
    assert cycles[1] / cycles[0] == pytest.approx(4 if shared else 1, rel=0.1)


def test_conversions_of_both_widths_wait_for_the_same_units_where_double_precision_has_many():
    found, gpu = timed(TO_DOUBLE + TO_INT, "a100-40g")
    assert found.terms["conversion"] == pytest.approx(4000 * 32 * gpu.max_warps * (1 / 16 + 1 / 16))
    found, gpu = timed(TO_DOUBLE + TO_INT, "a4000")
    assert found.terms["conversion"] == pytest.approx(4000 * 32 * gpu.max_warps / 16)
    assert found.terms["fp64"] == pytest.approx(4000 * 32 * gpu.max_warps / 2)


PACKED = " ".join(f"fma.rn.f32x2 %rd{i}, %rd{i}, %rd{i}, %rd{i};" for i in (3, 4, 5, 6)) * 2


@pytest.mark.parametrize(("name", "instructions"), [("b200", 1), ("rtx5090", 2)])
def test_packed_numbers_of_single_precision_take_the_units_of_two(name, instructions):
    gpu = presets.gpu(name)
    found, _ = timed(PACKED, name)
    plain, _ = timed("", name)
    rates, _ = presets.rates_of(gpu)
    multiplied = 4000 * gpu.max_warps
    assert found.terms["fp32"] - plain.terms["fp32"] == pytest.approx(2 * 32 * multiplied / rates["fp32"])
    assert found.terms["issue slots"] - plain.terms["issue slots"] == pytest.approx(instructions * multiplied / 4)
    assert found.work.flops["fp32"] == 32 * 4 * found.work.instructions["packed_fp32"]


def test_every_class_of_conversions_has_a_unit_before_and_since():
    for name, (unit, since) in UNITS.items():
        assert {name, unit, "conversion"} <= set(ARITHMETIC_CLASSES)
        assert unit_of(name, since) == unit
        assert unit_of(name, (since[0] - 1, 9)) == "conversion"


def test_instructions_are_added_to_those_of_the_same_units_and_none_is_lost():
    classes = {"int": 3, "conversion": 5, "int_to_fp32": 7, "pack_fp16": 11, "fp32": 13}
    assert by_unit(classes, (8, 6)) == {"int": 3 + 7 + 11, "conversion": 5, "fp32": 13}
    assert by_unit(classes, (8, 0)) == {"int": 3 + 11, "conversion": 5 + 7, "fp32": 13}
    assert by_unit(classes, (7, 5)) == {"int": 3, "conversion": 5 + 7 + 11, "fp32": 13}
    assert by_unit({}, (9, 0)) == {}
    assert by_unit({"packed_fp32": 3, "fp32": 1}, (10, 0)) == {"fp32": 7}
