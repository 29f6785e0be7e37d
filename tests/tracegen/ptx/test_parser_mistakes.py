"""Test the PTX parser on bad text: every mistake with its message, bounds, and mutated files."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from tests.support.examples import examples
from tests.support.ptx_modules import FILES, HEAD, read
from tracegen.ptx import (
    Module,
    PtxError,
    parse,
)

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
        (HEAD + ".entry k() {\nmov {{1}}, 1; }", "f.ptx:5: expected an operand that is not a vector, found '{'"),
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


@examples(300)
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
