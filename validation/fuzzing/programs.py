"""Change PTX modules and launch files by their words, so that most of them still get past the parser."""

from __future__ import annotations

import re
from random import Random

from validation.fuzzing.mutation import Case, Shaper

_INSTRUCTION = re.compile(rb"(?m)^[ \t]*(?:\w+:[ \t]*)?(@!?%\w+[ \t]+)?([a-z][\w.:]*)([ \t]+[^;\n]*)?;")
"""A guard, an opcode, and operands."""

_REGISTER = re.compile(rb"%([a-z]+)\d+")
_OPERAND = re.compile(rb"%[a-z]+\d+|(?<![\w%])-?\d+(?![\w.])")
_MODIFIER = re.compile(rb"\.[\w:]+")
_WIDTHS = (b".u8", b".s8", b".b16", b".u32", b".s32", b".b32", b".u64", b".b64", b".s64", b".f32", b".f64", b".f16")
_NUMBERS = (
    b"0",
    b"1",
    b"-1",
    b"2",
    b"4",
    b"7",
    b"16",
    b"32",
    b"33",
    b"64",
    b"4096",
    b"65536",
    b"2147483647",
    b"-2147483648",
)
_DIRECTIVES = (b".maxntid 64", b".reqntid 64, 1, 1", b".reqnctapercluster 2", b".explicitcluster", b".maxnreg 32")
_MAX_CHANGES = 4


def instructions(name: str) -> Shaper:
    """Return a shaper that changes operands, modifiers, guards, opcodes and the order of a PTX module."""

    def shape(case: Case, rng: Random) -> Case:
        data = case[name]
        for _ in range(rng.randint(1, _MAX_CHANGES)):
            found = list(_INSTRUCTION.finditer(data))
            data = rng.choice(_CHANGES)(data, found, rng)
        return {**case, name: data}

    return shape


def _operand(data: bytes, found: list[re.Match[bytes]], rng: Random) -> bytes:
    """Let an operand be another register of its kind, or another number."""
    one = rng.choice(found)
    operands = list(_OPERAND.finditer(data, *one.span()))
    if not operands:
        return data
    old = rng.choice(operands)
    kind = _REGISTER.fullmatch(old[0])
    if kind is None:
        new = rng.choice(_NUMBERS)
    else:
        same = [match[0] for match in _REGISTER.finditer(data) if match[1] == kind[1]]
        new = rng.choice(same)
    return data[: old.start()] + new + data[old.end() :]


def _modifier(data: bytes, found: list[re.Match[bytes]], rng: Random) -> bytes:
    """Exchange, drop or add a modifier of an opcode; it is a type, or a modifier of another opcode."""
    one, other = rng.choice(found), rng.choice(found)
    offered = [*_MODIFIER.findall(other[2]), rng.choice(_WIDTHS)]
    held = list(_MODIFIER.finditer(data, *one.span(2)))
    if not held:
        return data
    old, kind = rng.choice(held), rng.random()
    new = b"" if kind < 0.1 else rng.choice(offered)
    return data[: old.start() if kind < 0.9 else old.end()] + new + data[old.end() :]


def _opcode(data: bytes, found: list[re.Match[bytes]], rng: Random) -> bytes:
    """Give an instruction the opcode of one with as many operands."""
    one = rng.choice(found)
    like = [other for other in found if (other[3] or b"").count(b",") == (one[3] or b"").count(b",")]
    return data[: one.start(2)] + rng.choice(like)[2] + data[one.end(2) :]


def _guard(data: bytes, found: list[re.Match[bytes]], rng: Random) -> bytes:
    """Guard an instruction by a predicate, or remove its guard."""
    one = rng.choice(found)
    if one[1]:
        return data[: one.start(1)] + data[one.end(1) :]
    predicates = re.findall(rb"%p\d+", data)
    guard = rng.choice((b"@", b"@!")) + rng.choice(predicates) + b" " if predicates else b""
    return data[: one.start(2)] + guard + data[one.start(2) :]


def _order(data: bytes, found: list[re.Match[bytes]], rng: Random) -> bytes:
    """Drop an instruction, or put it behind another one, once or twice."""
    one, other = rng.choice(found), rng.choice(found)
    text = data[one.start(2) : one.end()]
    at = other.end()
    data = data[:at] + b"\n\t" + text + data[at:]
    if rng.random() < 0.5:
        return data
    start = one.start(2) + (len(text) + 2 if at <= one.start(2) else 0)
    return data[:start] + data[start + len(text) :]


def _directive(data: bytes, found: list[re.Match[bytes]], rng: Random) -> bytes:
    """Add a directive of the launch to the kernels."""
    return re.sub(rb"\n\{", b"\n" + rng.choice(_DIRECTIVES) + b"\n{", data)


_CHANGES = (_operand, _operand, _operand, _modifier, _modifier, _opcode, _opcode, _guard, _order, _order, _directive)

_VALUES = (
    *(b"0", b"1", b"-1", b"2", b"64", b"256", b"1024", b"1025", b"2147483647", b"4294967296", b"true", b"1.5", b"nan"),
    *(b"[2, 2]", b"[1, 2, 3]", b"[2, 2, 2, 2]", b"[]", b'"2"', b'"k"', b'"x"', b'"&x"', b'"&y"', b'["&x", "&y"]'),
    *(b'"float[n]"', b'"float[n, n]:iota"', b'"double[2*n]:zeros"', b'"int[n]:random:1:9"', b'"uchar4[8, 8]"'),
    *(b'{ ptr = "&x", n = 4 }', b'{ texels = "float[8, 8]", address = "wrap", normalized = true }', b"{}"),
    *(b'{ dtype = [["p", "<u8"], ["n", "<i4"]], p = "&x", n = 4 }', b'"@x.npy"', b'"symbol:w"', b'"int8[3]:ones"'),
)


def settings(name: str) -> Shaper:
    """Return a shaper that changes lines ``field = value`` of a TOML file: values, names, order and tables."""

    def shape(case: Case, rng: Random) -> Case:
        lines = case[name].split(b"\n")
        for _ in range(rng.randint(1, _MAX_CHANGES)):
            fields = [at for at, line in enumerate(lines) if b"=" in line and not line.startswith(b"source")]
            if not fields:
                break
            at, other, kind = rng.choice(fields), rng.choice(fields), rng.random()
            head, _, _ = lines[at].partition(b"=")
            if kind < 0.6:
                lines[at] = head + b"= " + rng.choice(_VALUES)
            elif kind < 0.75:
                lines[at] = lines[at].partition(b"=")[0] + b"=" + lines[other].partition(b"=")[2]
            elif kind < 0.9:
                lines.insert(rng.randrange(len(lines) + 1), lines.pop(at))
            else:
                del lines[at]
        return {**case, name: b"\n".join(lines)}

    return shape
