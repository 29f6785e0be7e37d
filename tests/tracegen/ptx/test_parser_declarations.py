"""Test the PTX parser on modules, variables and functions: every construct with its values."""

from __future__ import annotations

import struct

import pytest

from tests.support.ptx_modules import HEAD, parse_body, read
from tracegen.ptx import (
    Variable,
    parse,
)


def parse_variable(declaration):
    (variable,) = parse(HEAD + declaration).variables.values()
    return variable


# ---- Modules


def test_the_head_says_version_target_and_address_size():
    module = parse(".version 7.5\n.target sm_86, debug, map_f64_to_f32\n.address_size 64")
    assert (module.version, module.target, module.address_size) == ("7.5", "sm_86", 64)
    assert module.directives == (".target debug", ".target map_f64_to_f32")


def test_a_missing_address_size_is_32_as_in_the_isa():
    assert parse(".version 1.4 .target sm_13").address_size == 32


def test_comments_blanks_and_line_ends_of_any_kind_separate_tokens():
    plain = parse(HEAD + ".entry k() { add.s32 %r1, %r2, 3; }")
    spaced = parse(
        ".version/* 9.9 */8.0//x\r\n.target\tsm_80\r\n.address_size 64 /**/ .entry k(){\tadd.s32/*;*/%r1,\f%r2,3;}\0\0"
    )
    assert plain.functions["k"].body[0].operands == spaced.functions["k"].body[0].operands
    assert spaced.version == "8.0"


def test_files_are_kept_by_number_and_debug_sections_passed_over():
    module = parse(read("axpy"))
    assert module.files == {1: "axpy.cu", 2: "vector.h"}
    assert module.kernels == ["axpy"] and not module.variables and not module.directives


def test_unknown_directives_of_a_module_are_kept():
    module = parse(HEAD + '.pragma "unroll";\n.alias f, g;\n.strange 1 2\n.block a {\n1 { 2 } }\n.entry k() { ret; }')
    assert module.directives == ('.pragma "unroll"', ".alias f, g", ".strange 1 2", ".block a { 1 { 2 } }")
    assert module.kernels == ["k"]


def test_kernels_are_listed_in_order_and_without_device_functions():
    module = parse(HEAD + ".visible .entry b() { ret; } .func f() { ret; } .weak .entry a() { ret; }")
    assert module.kernels == ["b", "a"]
    assert not module.functions["f"].entry


# ---- Variables


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        (".global .u32 x;", ("x", "global", "u32", None, 0, None)),
        (".visible .global .align 16 .b8 x[24];", ("x", "global", "b8", 24, 16, None)),
        (".const .f32 x[3][4];", ("x", "const", "f32", 12, 0, None)),
        (".weak .shared .align 4 .b8 _Z$1[4 * 8 + 1];", ("_Z$1", "shared", "b8", 33, 4, None)),
        (".global .v4 .f32 x;", ("x", "global", "f32", 4, 16, None)),
        (".global .v2 .f64 x[3];", ("x", "global", "f64", 6, 16, None)),
        (".global .attribute(.managed) .align 8 .u64 x;", ("x", "global", "u64", None, 8, None)),
        (".global .texref x;", ("x", "global", "texref", None, 0, None)),
        (".global .samplerref x = { addr_mode_0 = wrap };", ("x", "global", "samplerref", None, 0, None)),
        (".const.u32 x=5;", ("x", "const", "u32", None, 0, b"\5\0\0\0")),
        (".global .u8 x[] = {1, 2, 3};", ("x", "global", "u8", 3, 0, b"\1\2\3")),
    ],
)
def test_a_variable_has_space_type_count_alignment_and_value(declaration, expected):
    v = parse_variable(declaration)
    assert (v.name, v.space, v.type, v.count, v.alignment, v.initial) == expected
    assert not v.addresses and not v.extern and v.line == 4


def test_dynamic_shared_memory_is_an_extern_array_without_count():
    v = parse_variable(".extern .shared .align 16 .b8 dynamic[];")
    assert (v.extern, v.count, v.alignment, v.space) == (True, 0, 16, "shared")


def test_one_declaration_can_name_several_variables():
    module = parse(HEAD + ".global .s16 a = -1, b[2] = {1, -2}, c;")
    assert [(v.name, v.initial) for v in module.variables.values()] == [
        ("a", b"\xff\xff"),
        ("b", struct.pack("<2h", 1, -2)),
        ("c", None),
    ]


def test_a_definition_replaces_an_extern_declaration_and_outlives_a_later_one():
    text = HEAD + ".extern .global .u32 x; .global .u32 x = 1; .extern .global .u32 x;"
    assert parse(text).variables["x"].initial == b"\1\0\0\0"


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("b8", "0, 255, -128, 0x7f", bytes([0, 255, 128, 127])),
        ("u32", "0xFFFFFFFF, 017, 0b101, 9U", struct.pack("<4I", 2**32 - 1, 15, 5, 9)),
        ("s64", "-9223372036854775808, 18446744073709551615", struct.pack("<2q", -(2**63), -1)),
        ("f32", "0f3F800000, 1.5, -2, .5, 1e3, -0f3F800000", struct.pack("<6f", 1, 1.5, -2, 0.5, 1000, -1)),
        ("f64", "0d3FF0000000000000, -2.5, 0f3F800000", struct.pack("<3d", 1, -2.5, 1)),
        ("f16", "1.0, -0.5", struct.pack("<2e", 1, -0.5)),
        ("f32", "0f7FC00001, 0fFF800000", struct.pack("<2I", 0x7FC00001, 0xFF800000)),
        (
            "b32",
            "0f3F800000, 1 << 4 | 3, -(2 + 3) * 2, ~0, !5, WARP_SZ",
            struct.pack("<6i", 0x3F800000, 19, -10, -1, 0, 32),
        ),
        ("s32", "7 / -2, -7 % 3, 1 + 2 * 3, (1 + 2) * 3, 8 >> 1 + 1", struct.pack("<5i", -3, -1, 7, 9, 2)),
        ("s32", "1 < 2, 2 <= 1, 3 == 3, 3 != 3, 1 && 0, 1 || 0, 6 & 3 ^ 1", struct.pack("<7i", 1, 0, 1, 0, 0, 1, 3)),
    ],
)
def test_initial_values_are_little_endian_bytes(kind, values, expected):
    assert parse_variable(f".global .{kind} x[{values.count(',') + 1}] = {{{values}}};").initial == expected


def test_nested_braces_fill_rows_and_an_open_first_dimension_counts_them():
    v = parse_variable(".global .s32 x[][2][2] = { {{1}, {2, 3}}, {{}, {4}}, {{5}} };")
    assert v.count == 12
    assert v.initial == struct.pack("<9i", 1, 0, 2, 3, 0, 0, 4, 0, 5)


def test_an_initialiser_ends_at_its_last_value_whatever_the_size_of_the_array():
    v = parse_variable(".global .b8 x[1000000000] = {1, 2};")
    assert (v.count, v.initial) == (10**9, b"\1\2")


def test_addresses_of_symbols_stand_beside_the_bytes_that_hold_their_offset():
    v = parse_variable(".global .u64 x[5] = {7, generic(a), generic(b)+4, f, c - 8};")
    assert v.initial == struct.pack("<5q", 7, 0, 4, 0, -8)
    assert v.addresses == {8: "a", 16: "b", 24: "f", 32: "c"}


# ---- Functions


def test_a_kernel_has_parameters_directives_and_registers():
    k = parse(read("axpy")).functions["axpy"]
    assert [(p.name[-1], p.space, p.type, p.count, p.alignment) for p in k.parameters] == [
        ("0", "param", "u64", None, 0),
        ("1", "param", "u64", None, 0),  # the alignment is that of what it points to
        ("2", "param", "f32", None, 0),
        ("3", "param", "u32", None, 0),
    ]
    assert k.directives == {"maxntid": "256, 1, 1", "minnctapersm": "2"}
    assert {"%p0": "pred", "%f9": "f32", "%r5": "b32", "%rd7": "b64"}.items() <= k.registers.items()
    assert len(k.registers) == 3 + 10 + 6 + 8
    assert k.entry and k.line == 7


def test_a_device_function_has_results_and_a_declaration_no_body():
    module = parse(read("calls"))
    twice, printf = module.functions["twice"], module.functions["vprintf"]
    assert [v.name for v in twice.results] == ["func_retval0"]
    assert [v.name for v in twice.parameters] == ["twice_param_0"]
    assert len(twice.body) == 4 and not twice.entry
    assert printf.body is None and len(printf.parameters) == 2


def test_a_declaration_behind_a_definition_changes_nothing():
    assert parse(HEAD + ".func f() { ret; } .func f();").functions["f"].body is not None


def test_parameters_can_be_aggregates_and_registers():
    f = parse(HEAD + ".func (.reg .u32 %res) f(.reg .f64 %a, .param .align 16 .b8 s[24]) { mov.u32 %res, 1; }")
    f = f.functions["f"]
    assert f.registers == {"%res": "u32", "%a": "f64"}
    assert f.parameters[1] == Variable("s", "param", "b8", 24, 16, line=4)


def test_directives_of_a_function_are_kept_by_name():
    k = parse(HEAD + '.entry k() .reqntid 8, 4 .pragma "a"; .strange x\n.explicitcluster { .pragma "b"; ret; }')
    assert k.functions["k"].directives == {
        "reqntid": "8, 4",
        "pragma": '"a"; "b"',
        "strange": "x",
        "explicitcluster": "",
    }


def test_registers_come_in_ranges_and_lists():
    k = parse_body(".reg .b32 %a<3>, %b; .reg .pred p, q; .reg .v2 .f32 %v;")
    assert k.registers == {
        "%a0": "b32", "%a1": "b32", "%a2": "b32", "%b": "b32", "p": "pred", "q": "pred", "%v": "v2.f32",
    }  # fmt: skip


def test_the_last_loc_is_the_source_of_an_instruction():
    k = parse(read("axpy")).functions["axpy"]
    text = read("axpy").splitlines()
    assert all(text[i.line - 1].strip().removeprefix("@%p1 ").startswith(i.opcode) for i in k.body)
    sources = [(i.opcode, i.source) for i in k.body]
    assert sources[0] == ("ld", (1, 3))
    assert ("setp", (1, 5)) in sources and sources[-1] == ("ret", (1, 7))
    assert [source for opcode, source in sources if opcode == "fma"] == [(2, 11), (2, 11)]
