"""Test the PTX parser on instructions, operands, labels and scopes: every construct with its values."""

from __future__ import annotations

import struct

import pytest

from tests.support.ptx_modules import HEAD, parse_body, read
from tracegen.ptx import (
    Address,
    Float,
    Integer,
    Name,
    Not,
    Pair,
    Register,
    Vector,
    parse,
)

R, N = Register, Name


def parse_operands(statement):
    (instruction,) = parse_body(statement + ";").body
    return instruction.operands


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
