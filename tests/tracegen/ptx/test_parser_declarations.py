"""Test the PTX parser: every construct with its values, every mistake with its message, and mutated files.

The files under data/ptx are written by hand in the style of compiler output.
"""

from __future__ import annotations

import re
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from tests.support.paths import DATA
from tracegen.ptx import (
    Address,
    Float,
    Integer,
    Module,
    Name,
    Not,
    Pair,
    PtxError,
    Register,
    Variable,
    Vector,
    parse,
)

FILES = sorted((DATA / "ptx").glob("*.ptx"))
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
R, N = Register, Name


def parse_body(body, head=HEAD):
    """Return the only kernel of a module, of which `body` starts on line 4."""
    return parse(f"{head}.entry k() {{ {body} }}").functions["k"]


def parse_operands(statement):
    (instruction,) = parse_body(statement + ";").body
    return instruction.operands


def parse_variable(declaration):
    (variable,) = parse(HEAD + declaration).variables.values()
    return variable


def read(name):
    return next(path.read_text() for path in FILES if path.stem == name)


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


# ---- Instructions


def test_an_opcode_is_split_into_its_modifiers():
    a, b, c = parse_body("ld.global.nc.v4.f32 {x,x,x,x}, [y]; cp.async.shared::cta.L2::128B x; exit;").body
    assert (a.opcode, a.modifiers) == ("ld", ("global", "nc", "v4", "f32"))
    assert (b.opcode, b.modifiers) == ("cp", ("async", "shared::cta", "L2::128B"))
    assert (c.opcode, c.modifiers, c.operands) == ("exit", (), ())


def test_unknown_opcodes_are_instructions_like_others():
    (i,) = parse_body("frobnicate .very.hard %r1, 2;").body
    assert (i.opcode, i.modifiers, i.operands) == ("frobnicate", ("very", "hard"), (R("%r1"), Integer(2)))


@pytest.mark.parametrize(
    ("guard", "register", "negated"), [("@%p1", "%p1", False), ("@!%p1", "%p1", True), ("@ ! q", "q", True)]
)
def test_a_guard_is_a_predicate_with_or_without_negation(guard, register, negated):
    (i,) = parse_body(f".reg .pred q; {guard} ret;").body
    assert (i.guard, i.negated) == (R(register), negated)


def test_an_unguarded_instruction_has_no_guard():
    assert parse_body("ret;").body[0].guard is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%r1", R("%r1")),
        ("%tid.x", R("%tid.x")),
        ("%clock64", R("%clock64")),
        ("_", N("_")),
        ("symbol", N("symbol")),
        ("$str$1", N("$str$1")),
        ("symbol+4", Address(N("symbol"), 4)),
        ("5", Integer(5)),
        ("-5", Integer(-5)),
        ("0xFFFFFFFFFFFFFFFF", Integer(2**64 - 1)),
        ("-2147483648", Integer(-(2**31))),
        ("0x1FU", Integer(31)),
        ("0", Integer(0)),
        ("(1 << 5) | 3", Integer(35)),
        ("WARP_SZ", Integer(32)),
        ("0f3F800000", Float(0x3F800000, 32)),
        ("-0f3F800000", Float(0xBF800000, 32)),
        ("0D4008000000000000", Float(0x4008000000000000, 64)),
        ("1.5", Float(int.from_bytes(struct.pack("<d", 1.5), "little"), 64)),
        ("-.5e1", Float(int.from_bytes(struct.pack("<d", -5.0), "little"), 64)),
        ("!%p1", Not(R("%p1"))),
        ("%p1|%p2", Pair(R("%p1"), R("%p2"))),
        ("%r1|_", Pair(R("%r1"), None)),
        ("_|%p2", Pair(None, R("%p2"))),
        ("{%r1, %r2}", Vector((R("%r1"), R("%r2")))),
        ("{%r1, _, 3, 0f00000000}", Vector((R("%r1"), None, Integer(3), Float(0, 32)))),
        ("[%rd1]", Address(R("%rd1"))),
        ("[%rd1+8]", Address(R("%rd1"), 8)),
        ("[%rd1+-8]", Address(R("%rd1"), -8)),
        ("[%rd1 - 8]", Address(R("%rd1"), -8)),
        ("[%rd1 + 4*8 - 1]", Address(R("%rd1"), 31)),
        ("[symbol]", Address(N("symbol"))),
        ("[symbol+4]", Address(N("symbol"), 4)),
        ("[123]", Address(None, 123)),
        ("[symbol].unified", Address(N("symbol"))),
    ],
)
def test_an_operand_stands_for(text, expected):
    assert parse_operands(f"op.b32 {text}") == (expected,)


def test_a_texture_address_is_an_address_and_its_coordinates():
    assert parse_operands("tex.2d {%a}, [t, s, {%x, %y}], %z") == (
        Vector((R("%a"),)), Address(N("t")), N("s"), Vector((R("%x"), R("%y"))), R("%z"),
    )  # fmt: skip


def test_names_without_percent_are_registers_where_they_are_declared():
    k = parse_body(".reg .b32 t<2>; mov.b32 t1, t2;")
    assert k.body[0].operands == (R("t1"), N("t2"))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("f", (Vector(()), N("f"), Vector(()))),
        ("f, (a, %r1, 5)", (Vector(()), N("f"), Vector((N("a"), R("%r1"), Integer(5))))),
        ("(r), f, (a)", (Vector((N("r"),)), N("f"), Vector((N("a"),)))),
        ("(r), f", (Vector((N("r"),)), N("f"), Vector(()))),
        ("(_), %rd1, (), proto", (Vector((None,)), R("%rd1"), Vector(()), N("proto"))),
        ("%rd1, proto", (Vector(()), R("%rd1"), Vector(()), N("proto"))),
    ],
)
def test_a_call_has_results_function_arguments_and_prototype(call, expected):
    (i,) = parse_body(f"call.uni {call};").body
    assert (i.opcode, i.modifiers, i.operands) == ("call", ("uni",), expected)


# ---- Labels and scopes


def test_a_label_stands_before_an_instruction_or_at_the_end():
    k = parse_body("A: add x, y; B: C: ret; D:")
    assert k.labels == {"A": 0, "B": 1, "C": 1, "D": 2}


def test_a_jump_may_go_forward_and_out_of_a_scope():
    k = parse_body("{ bra OUT; { bra IN; IN: ret; } } OUT: ret;")
    assert [i.operands for i in k.body[:2]] == [(N("OUT"),), (N("IN"),)]
    assert k.labels == {"IN": 2, "OUT": 3}


def test_branch_targets_form_a_table():
    k = parse(read("calls")).functions["dispatch"]
    assert k.tables == {"$L_brx_0": ("$L__BB1_1", "$L__BB1_2", "$L__BB1_1")}
    (jump,) = (i for i in k.body if i.opcode == "brx")
    assert jump.operands == (R("%r3"), N("$L_brx_0"))
    assert set(k.tables["$L_brx_0"]) <= set(k.labels)


def test_call_targets_and_prototypes_are_kept():
    k = parse_body("t: .calltargets f, g; p: .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn; ret;")
    assert k.tables == {"t": ("f", "g")}
    assert k.directives == {"callprototype": "p (.param .b32 _) _ (.param .b64 _) .noreturn"}


def test_call_sequences_share_parameters_of_one_form_and_have_others_of_their_own():
    k = parse(read("calls")).functions["dispatch"]
    params = {v.name: v.type for v in k.variables if v.space == "param"}
    assert params == {"param0": "b32", "retval0": "b32", "param0#2": "b64", "param1": "b64"}
    calls = [i.operands for i in k.body if i.opcode == "call"]
    assert calls == [
        (Vector((N("retval0"),)), N("twice"), Vector((N("param0"),))),
        (Vector((N("retval0"),)), R("%rd3"), Vector((N("param0"),)), N("prototype_1")),
        (Vector((N("retval0"),)), N("vprintf"), Vector((N("param0#2"), N("param1")))),
    ]
    assert [i.operands[0] for i in k.body if i.opcode == "st" and i.modifiers == ("param", "b64")] == [
        Address(N("param0#2")), Address(N("param1")),
    ]  # fmt: skip


def test_an_inner_register_hides_the_outer_one_only_inside():
    k = parse_body(".reg .b32 r; mov r, 0; { .reg .b64 r; mov r, 1; { .reg .b64 r; mov r, 2; } } mov r, 3;")
    assert [i.operands[0].name for i in k.body] == ["r", "r#2", "r#3", "r"]
    assert k.registers == {"r": "b32", "r#2": "b64", "r#3": "b64"}


def test_a_component_of_a_renamed_register_follows_it():
    k = parse_body(".reg .b32 r; { .reg .v2 .b32 r; mov r.x, r.y; }")
    assert k.body[0].operands == (R("r#2.x"), R("r#2.y"))


def test_a_function_may_hide_a_name_of_the_module():
    module = parse(HEAD + ".global .u32 x; .entry k() { mov a, x; { .shared .u32 x; mov a, x; } mov a, x; }")
    k = module.functions["k"]
    assert [i.operands[1] for i in k.body] == [N("x"), N("x#2"), N("x")]
    assert [(v.name, v.space) for v in k.variables] == [("x#2", "shared")]


def test_labels_of_inline_assembly_may_repeat():
    k = parse(read("reduce")).functions["reduce"]
    jumps = [
        (i.operands[0].name, k.labels[i.operands[0].name] - at) for at, i in enumerate(k.body) if i.opcode == "bra"
    ]
    assert jumps == [("DONE", 2), ("WAIT", -2), ("WAIT#2", -1)]
    assert {name: kind for name, kind in k.registers.items() if name[0] != "%"} == {
        "p": "pred",
        "t0": "b32",
        "t1": "b32",
    }


def test_variables_of_a_body_keep_space_and_size():
    k = parse(read("reduce")).functions["reduce"]
    assert [(v.name, v.space, v.type, v.count, v.alignment) for v in k.variables] == [
        ("_ZZ6reduceE4tile", "shared", "b8", 128, 4)
    ]
    d = parse(read("calls")).functions["dispatch"]
    assert ("__local_depot1", "local", 16, 8) in [(v.name, v.space, v.count, v.alignment) for v in d.variables]


# ---- Mistakes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f.ptx:1: expected '.version' at the start of a module, found the end of the text"),
        ("\x7fELF\0", "f.ptx:1: expected PTX, found the character '\\x7f'"),
        (".version 8.0\n", "f.ptx:2: expected '.target' in a module, found the end of the text"),
        (".version sm_80", "f.ptx:1: expected a version number, found 'sm_80'"),
        (HEAD + "hello;", "f.ptx:4: expected a directive, found 'hello'"),
        (HEAD + "\n/* x", "f.ptx:5: expected '*/' before the end of the text: a comment has no end"),
        (HEAD + '.file 1 "x\n', "f.ptx:4: expected '\"' before the end of the line: a string has no end"),
        (HEAD + ".section .debug_info { .b8 1", "f.ptx:4: expected a section closed by '}', found '.section'"),
        (HEAD + ".address_size 48", "f.ptx:4: expected 32 or 64 as .address_size, found 48"),
        (HEAD + ".global .u33 x;", "f.ptx:4: expected a type or '.align' for a variable in .global, found '.u33'"),
        (HEAD + ".global x;", "f.ptx:4: expected a type for a variable in .global, found 'x'"),
        (HEAD + ".global .align 3 .u32 x;", "f.ptx:4: expected a power of two up to 1048576 as alignment, found 3"),
        (HEAD + ".global .u32 x[2] = {1, 2, 3};", "f.ptx:4: expected at most 2 values between braces"),
        (
            HEAD + ".global .u32 x[2] = {{1}};",
            "f.ptx:4: expected a value: the array has no further dimension, found '{'",
        ),
        (HEAD + ".global .u8 x = 256;", "f.ptx:4: expected a value of type .u8, found 256"),
        (HEAD + ".global .u8 x = y;", "f.ptx:4: expected a value of type .u8, found 'y'"),
        (HEAD + ".global .f32 x = 1e300;", "f.ptx:4: expected a value of type .f32, found 1e+300"),
        (HEAD + ".global .u32 x = 1/0;", "f.ptx:4: expected a divisor other than 0"),
        (HEAD + ".global .u32 x = 08;", "f.ptx:4: expected an integer in PTX's notation, found '08'"),
        (HEAD + ".global .u64 x = 18446744073709551616;", "f.ptx:4: expected an integer of at most 64 bits, found"),
        (HEAD + ".global .u32 x; .global .u32 x;", "f.ptx:4: expected one definition of 'x', found another"),
        (HEAD + ".global .u8 x[1 << 62];", "f.ptx:4: expected at most 1099511627776 bytes in 'x'"),
        (HEAD + ".global .u8 x[-1];", "f.ptx:4: expected a size of at least 0, found -1"),
        (HEAD + ".entry k(.reg .u32 x", "f.ptx:4: expected ',' or ')' in the parameters, found the end of the text"),
        (HEAD + ".entry k(.param .u32 x, .param .u32 x) {}", "f.ptx:4: expected one parameter 'x', found another"),
        (HEAD + ".entry k() { ret; } .entry k() { ret; }", "f.ptx:4: expected one definition of 'k', found another"),
        (HEAD + ".entry k() {\nret;\n", "f.ptx:6: expected an instruction, found the end of the text"),
        (HEAD + ".entry k() {\nadd.s32 %r1 %r2; }", "f.ptx:5: expected ',' or ';' after an operand, found '%r2'"),
        (HEAD + ".entry k() {\n%r1 = 5; }", "f.ptx:5: expected an instruction, found '%r1'"),
        (HEAD + ".entry k() {\nld [%r1+%r2], 1; }", "f.ptx:5: expected an integer, found '%r2'"),
        (HEAD + ".entry k() {\nld [%r1, 1; }", "f.ptx:5: expected ']' to close an address, found ';'"),
        (HEAD + ".entry k() {\nmov {{1}}, 1; }", "f.ptx:5: expected an operand that is no vector, found '{'"),
        (HEAD + ".entry k() {\n@p ret; }", "f.ptx:5: expected a predicate register, found 'p'"),
        (HEAD + ".entry k() {\nbra NOWHERE;\n}", "f.ptx:5: expected a label of this function, found 'NOWHERE'"),
        (HEAD + ".entry k() {\nt: .branchtargets A; }", "f.ptx:5: expected a label of this function, found 'A'"),
        (HEAD + ".entry k() {\n{ IN: ret; } bra IN; }", "f.ptx:5: expected a label of this function, found 'IN'"),
        (HEAD + ".entry k() { A: A: ret; }", "f.ptx:4: expected one label 'A' in its scope, found another"),
        (
            HEAD + ".entry k() { .reg .b32 a, a; }",
            "f.ptx:4: expected one declaration of 'a' in its scope, found another",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(text, message):
    with pytest.raises(PtxError, match=re.escape(message)) as error:
        parse(text, "f.ptx")
    assert "\n" not in str(error.value)
    assert isinstance(error.value, TraceError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + ".entry k() { .reg .b32 %r<4000000000>; }", "registers in a text of this length"),
        (HEAD + ".entry k() " + "{" * 5000, "at most 100 nested scopes"),
        (HEAD + ".global .u32 x = " + "(" * 5000, "at most 32 nested parentheses"),
        (HEAD + ".global .u32 x" + "[1]" * 5000 + ";", "at most 8 dimensions"),
        (HEAD + ".global .u32 x[1] = " + "{" * 5000, "no further dimension"),
        (HEAD + ".global .u32 x[2][1000000000] = {{1}, {2}};", "at most 268435456 bytes of initial values"),
        (
            HEAD + "".join(f".func f{n}() {{ .reg .b32 %r<100000>; }}" for n in range(2)),
            "registers in a text of this length",
        ),
        (HEAD + ".global .u64 x = " + "9" * 100000 + ";", "at most 64 bits"),
        (HEAD + ".global .u64 x = " + "-" * 100000, "expected an integer"),
    ],
)
def test_what_a_file_claims_is_bounded(text, message):
    with pytest.raises(PtxError, match=re.escape(message)):
        parse(text)


# ---- Mutated files

TOKENS = st.sampled_from(
    [
        *'{}()[];,:@!|+-.%$_<>="/*\0',
        "/*",
        "//",
        ".reg",
        ".param",
        ".section",
        ".loc",
        ".entry",
        "call",
        "bra",
        "%r<9>",
        "0f",
        "1e9",
    ]
)


@st.composite
def mutated(draw):
    """One of the files with up to four deletions, copies, moves, insertions or changes of characters."""
    text = read(draw(st.sampled_from([path.stem for path in FILES])))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, max(0, len(text) - 1)))
        end = min(len(text), start + draw(st.sampled_from([1, 1, 4, 30, 400])))
        to = draw(st.integers(0, len(text)))
        kind = draw(st.sampled_from(["delete", "copy", "insert", "change", "truncate"]))
        if kind == "delete":
            text = text[:start] + text[end:]
        elif kind == "copy":
            text = text[:to] + text[start:end] + text[to:]
        elif kind == "insert":
            text = text[:to] + draw(TOKENS) + text[to:]
        elif kind == "change":
            text = text[:start] + draw(TOKENS) + text[end:]
        else:
            text = text[:end]
    return text


def is_module_or_error(text):
    try:
        return isinstance(parse(text), Module)
    except PtxError as error:
        return bool(re.fullmatch(r"<ptx>:\d+: expected .+", str(error)))


@settings(max_examples=300, deadline=None)
@given(mutated())
def test_a_mutated_file_gives_a_module_or_an_error(text):
    assert is_module_or_error(text)


@settings(deadline=None)
@given(st.text())
def test_any_text_behind_a_head_gives_a_module_or_an_error(text):
    assert is_module_or_error(HEAD + text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_truncation_gives_a_module_or_an_error(path):
    text = path.read_text()
    whole = parse(text)
    for end in range(0, len(text), 7):
        try:
            module = parse(text[:end])
        except PtxError:
            continue
        assert module.functions.keys() <= whole.functions.keys()


@pytest.mark.parametrize(
    "part",
    ["/* ", "/*/", '"', ".section ", ".section a {", ".section", "1", "a.", "::", "-(", "%", "/", "{", "@", "L:"],
)
def test_repetition_of_one_part_ends_soon_in_an_error(part):
    with pytest.raises(PtxError):
        parse(HEAD + ".entry k() { " + part * 50_000)


def test_an_error_starts_with_the_name_that_was_given():
    with pytest.raises(PtxError, match=r"^some file\.ptx:1: "):
        parse("x", name="some file.ptx")
