"""Test integer instructions of PTX against Python's unbounded integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.ptx_kernels import compute

EDGES = [0, 1, 2, 7, 31, 32, 33, 63, 64, 127, 128, 255, 256, (1 << 15) - 1, 1 << 15, (1 << 16) - 1, (1 << 31) - 1]
EDGES += [1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
words = st.one_of(st.sampled_from(EDGES), st.integers(0, (1 << 64) - 1))
rows = st.lists(st.tuples(words, words, words), min_size=1, max_size=40)
few = examples(8, least=2)

REGISTER = {16: "h", 32: "x", 64: "w"}


def cut(value: int, width: int) -> int:
    return value % (1 << width)


def signed(value: int, width: int) -> int:
    value = cut(value, width)
    return value - (1 << width) if value >> (width - 1) else value


def read(value: int, type_name: str) -> int:
    width = int(type_name[1:])
    return signed(value, width) if type_name[0] == "s" else cut(value, width)


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def divide(a, b, width):
    return quotient(a, b) if b else -1


def remainder(a, b, width):
    return a - b * quotient(a, b) if b else a


ORACLES = {
    "add": lambda a, b, w: a + b,
    "sub": lambda a, b, w: a - b,
    "mul.lo": lambda a, b, w: a * b,
    "mul.hi": lambda a, b, w: a * b >> w,
    "min": lambda a, b, w: min(a, b),
    "max": lambda a, b, w: max(a, b),
    "div": divide,
    "rem": remainder,
}
BITWISE = {
    "and": lambda a, b, w: a & b,
    "or": lambda a, b, w: a | b,
    "xor": lambda a, b, w: a ^ b,
}
UNARY = {
    "abs.s": lambda a, w: abs(signed(a, w)),
    "neg.s": lambda a, w: -a,
    "not.b": lambda a, w: ~a,
    "cnot.b": lambda a, w: int(cut(a, w) == 0),
}


def binary(op: str, type_name: str, a, b) -> list[int]:
    r = REGISTER[int(type_name[1:])]
    return [int(v) for v in compute(f"{op}.{type_name} %{r}d, %{r}a, %{r}b;", a, b)[0]]


@pytest.mark.parametrize("type_name", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("op", ORACLES)
@few
@given(rows)
def test_arithmetic_has_the_width_and_sign_of_its_type(op, type_name, values):
    a, b, _ = zip(*values, strict=True)
    w = int(type_name[1:])
    wanted = [cut(ORACLES[op](read(x, type_name), read(y, type_name), w), w) for x, y in zip(a, b, strict=True)]
    assert binary(op, type_name, a, b) == wanted


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("op", BITWISE)
@few
@given(rows)
def test_bitwise_operations(op, width, values):
    a, b, _ = zip(*values, strict=True)
    assert binary(op, f"b{width}", a, b) == [cut(BITWISE[op](x, y, width), width) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("op", UNARY)
@few
@given(rows)
def test_unary_operations(op, width, values):
    a = [v[0] for v in values]
    r = REGISTER[width]
    found = compute(f"{op}{width} %{r}d, %{r}a;", a)[0]
    assert found.tolist() == [cut(UNARY[op](x, width), width) for x in a]


@pytest.mark.parametrize("type_name", ["u16", "s16", "u32", "s32"])
@few
@given(rows)
def test_wide_products_are_twice_as_wide(type_name, values):
    a, b, c = zip(*values, strict=True)
    w = int(type_name[1:])
    r, d = REGISTER[w], REGISTER[2 * w]
    products = [read(x, type_name) * read(y, type_name) for x, y in zip(a, b, strict=True)]
    found = compute(f"mul.wide.{type_name} %{d}d, %{r}a, %{r}b;", a, b)[0]
    assert found.tolist() == [cut(p, 2 * w) for p in products]
    found = compute(f"mad.wide.{type_name} %{d}d, %{r}a, %{r}b, %{d}c;", a, b, c)[0]
    assert found.tolist() == [cut(p + z, 2 * w) for p, z in zip(products, c, strict=True)]


@pytest.mark.parametrize("type_name", ["u32", "s32", "u64", "s64"])
@few
@given(rows)
def test_mad_and_sad(type_name, values):
    a, b, c = zip(*values, strict=True)
    w = int(type_name[1:])
    r = REGISTER[w]
    pairs = [(read(x, type_name), read(y, type_name), z) for x, y, z in values]
    for op, oracle in {
        "mad.lo": lambda x, y, z: x * y + z,
        "mad.hi": lambda x, y, z: (x * y >> w) + z,
        "sad": lambda x, y, z: abs(x - y) + z,
    }.items():
        found = compute(f"{op}.{type_name} %{r}d, %{r}a, %{r}b, %{r}c;", a, b, c)[0]
        assert found.tolist() == [cut(oracle(*p), w) for p in pairs]


@pytest.mark.parametrize("type_name", ["u16", "s16", "u32", "s32", "b32", "u64", "s64"])
@few
@given(rows)
def test_shifts_stop_at_the_width(type_name, values):
    a, b, _ = zip(*values, strict=True)
    w = int(type_name[1:])
    r = REGISTER[w]
    amounts = [cut(y, 32) for y in b]
    right = [cut(read(x, type_name) >> min(n, 200), w) for x, n in zip(a, amounts, strict=True)]
    assert compute(f"shr.{type_name} %{r}d, %{r}a, %xb;", a, b)[0].tolist() == right
    left = [cut(x << n, w) if n < w else 0 for x, n in zip(a, amounts, strict=True)]
    assert compute(f"shl.b{w} %{r}d, %{r}a, %xb;", a, b)[0].tolist() == left


@few
@given(rows)
def test_funnel_shifts(values):
    a, b, c = zip(*values, strict=True)
    both = [cut(y, 32) << 32 | cut(x, 32) for x, y, _ in values]
    for mode, amount in {"clamp": lambda n: min(cut(n, 32), 32), "wrap": lambda n: n & 31}.items():
        n = [amount(z) for z in c]
        left = compute(f"shf.l.{mode}.b32 %xd, %xa, %xb, %xc;", a, b, c)[0]
        assert left.tolist() == [cut(v << k >> 32, 32) for v, k in zip(both, n, strict=True)]
        right = compute(f"shf.r.{mode}.b32 %xd, %xa, %xb, %xc;", a, b, c)[0]
        assert right.tolist() == [cut(v >> k, 32) for v, k in zip(both, n, strict=True)]


def extract(value: int, position: int, length: int, type_name: str) -> int:
    """The definition of bfe: bit by bit."""
    width = int(type_name[1:])
    top = min(position + length - 1, width - 1)
    sign = value >> top & 1 if type_name[0] == "s" and length else 0
    bits = [value >> (position + i) & 1 if i < length and position + i < width else sign for i in range(width)]
    return sum(bit << i for i, bit in enumerate(bits))


@pytest.mark.parametrize("type_name", ["u32", "s32", "u64", "s64"])
@few
@given(st.lists(st.tuples(words, st.integers(0, 300), st.integers(0, 300)), min_size=1, max_size=40))
def test_bit_fields_are_extracted_and_inserted(type_name, values):
    a, b, c = zip(*values, strict=True)
    w = int(type_name[1:])
    r = REGISTER[w]
    found = compute(f"bfe.{type_name} %{r}d, %{r}a, %xb, %xc;", a, b, c)[0]
    assert found.tolist() == [extract(cut(x, w), p & 255, n & 255, type_name) for x, p, n in values]
    found = compute(f"bfi.b{w} %{r}d, %{r}a, -3, %xb, %xc;", a, b, c)[0]
    wanted = []
    for x, p, n in values:
        place = sum(1 << i for i in range(p & 255, min((p & 255) + (n & 255), w)))
        wanted.append(cut(cut(-3, w) & ~place | (x << (p & 255)) & place, w))
    assert found.tolist() == wanted


amounts = st.one_of(st.integers(0, 40), words)


@few
@given(st.lists(st.tuples(words, amounts, amounts), min_size=1, max_size=40))
def test_bit_masks_and_extended_numbers_are_clamped_or_wrapped(values):
    a, b, c = zip(*values, strict=True)
    for mode, bound in {"clamp": lambda n: min(cut(n, 32), 32), "wrap": lambda n: n & 31}.items():
        places, widths = ([bound(n) for n in each] for each in (b, c))
        found = compute(f"bmsk.{mode}.b32 %xd, %xb, %xc;", a, b, c)[0]
        assert found.tolist() == [cut((1 << n) - 1 << p, 32) for p, n in zip(places, widths, strict=True)]
        for type_name in ("u32", "s32"):
            found = compute(f"szext.{mode}.{type_name} %xd, %xa, %xc;", a, b, c)[0]
            assert found.tolist() == [extract(cut(x, 32), 0, n, type_name) for x, n in zip(a, widths, strict=True)]


@pytest.mark.parametrize("width", [32, 64])
@few
@given(rows)
def test_bits_are_counted_and_reversed(width, values):
    a = [v[0] for v in values]
    r = REGISTER[width]
    texts = [f"{cut(x, width):0{width}b}" for x in a]
    assert compute(f"popc.b{width} %xd, %{r}a;", a)[0].tolist() == [t.count("1") for t in texts]
    assert compute(f"clz.b{width} %xd, %{r}a;", a)[0].tolist() == [width - len(t.lstrip("0")) for t in texts]
    assert compute(f"brev.b{width} %{r}d, %{r}a;", a)[0].tolist() == [int(t[::-1], 2) for t in texts]
    for type_name in (f"u{width}", f"s{width}"):
        found = compute(f"bfind.{type_name} %xd, %{r}a;", a)[0].tolist()
        values = [read(x, type_name) for x in a]
        assert found == [cut((~v if v < 0 else v).bit_length() - 1, 32) for v in values]


@few
@given(rows, st.integers(0, 255))
def test_lop3_looks_every_bit_up(values, table):
    a, b, c = zip(*values, strict=True)
    found = compute(f"lop3.b32 %xd, %xa, %xb, %xc, {table};", a, b, c)[0].tolist()
    wanted = [
        sum((table >> ((x >> i & 1) << 2 | (y >> i & 1) << 1 | z >> i & 1) & 1) << i for i in range(32))
        for x, y, z in values
    ]
    assert found == wanted


@few
@given(rows)
def test_prmt_picks_bytes(values):
    a, b, c = zip(*values, strict=True)
    found = compute("prmt.b32 %xd, %xa, %xb, %xc;", a, b, c)[0].tolist()
    wanted = []
    for x, y, z in values:
        data = (cut(y, 32) << 32 | cut(x, 32)).to_bytes(8, "little")
        picked = [(z >> (4 * i)) & 15 for i in range(4)]
        out = [(255 if data[p & 7] & 128 else 0) if p & 8 else data[p & 7] for p in picked]
        wanted.append(int.from_bytes(bytes(out), "little"))
    assert found == wanted


@pytest.mark.parametrize(
    ("mode", "pick"),
    [
        ("f4e", lambda c, i: c + i),
        ("b4e", lambda c, i: (c - i) % 8),
        ("rc8", lambda c, i: c),
        ("ecl", max),
        ("ecr", min),
        ("rc16", lambda c, i: 2 * (c & 1) + (i & 1)),
    ],
)
def test_prmt_has_modes(mode, pick):
    data = bytes(range(0x10, 0x18))
    low, high = (int.from_bytes(data[i : i + 4], "little") for i in (0, 4))
    found = compute(f"prmt.b32.{mode} %xd, %xa, %xb, %xc;", [low] * 4, [high] * 4, range(4))[0]
    assert [list(int(v).to_bytes(4, "little")) for v in found] == [
        [data[pick(c, i)] for i in range(4)] for c in range(4)
    ]


def parts(value: int, type_name: str, width: int) -> list[int]:
    """Return the parts of a 32-bit word, the lowest first, as numbers of a type."""
    return [read(value >> first, f"{type_name[0]}{width}") for first in range(0, 32, width)]


TYPES = pytest.mark.parametrize("types", [("u32", "u32"), ("s32", "s32"), ("u32", "s32"), ("s32", "u32")])


@TYPES
@few
@given(rows)
def test_dot_products_of_bytes_and_of_halves_are_added_to_a_number(types, values):
    a, b, c = zip(*values, strict=True)
    modifiers = ".".join(types)
    found = compute(f"dp4a.{modifiers} %xd, %xa, %xb, %xc;", a, b, c)[0].tolist()
    assert found == [
        cut(z + sum(p * q for p, q in zip(parts(x, types[0], 8), parts(y, types[1], 8), strict=True)), 32)
        for x, y, z in values
    ]
    for half, first in (("lo", 0), ("hi", 2)):
        found = compute(f"dp2a.{half}.{modifiers} %xd, %xa, %xb, %xc;", a, b, c)[0].tolist()
        wanted = []
        for x, y, z in values:
            (low, high), scale = parts(x, types[0], 16), parts(y, types[1], 8)[first:]
            wanted.append(cut(z + low * scale[0] + high * scale[1], 32))
        assert found == wanted


@TYPES
@few
@given(rows)
def test_absolute_differences_of_bytes_are_added_to_a_number(types, values):
    a, b, c = zip(*values, strict=True)
    found = compute(f"vabsdiff4.u32.{'.'.join(types)}.add %xd, %xa, %xb, %xc;", a, b, c)[0].tolist()
    assert found == [
        cut(z + sum(abs(p - q) for p, q in zip(parts(x, types[0], 8), parts(y, types[1], 8), strict=True)), 32)
        for x, y, z in values
    ]


def test_a_sum_may_replace_one_of_its_operands_and_obeys_its_guard():
    body = "setp.ne.u32 %p1, %xb, 0; mov.u32 %xd, %xa; @%p1 dp4a.u32.u32 %xd, %xd, %xb, %xd;"
    found = compute(body, [0x01020304, 0x01020304], [0x01010101, 0], [0, 0])[0].tolist()
    assert found == [0x01020304 + 10, 0x01020304]


@few
@given(rows)
def test_carries_make_128_bit_sums_and_differences(values):
    a, b, c = zip(*values, strict=True)
    body = "add.cc.u64 %wd, %wa, %wb; addc.u64 %wd, %wc, 5;"
    wanted = [cut(z + 5 + (x + y >> 64), 64) for x, y, z in values]
    assert compute(body, a, b, c)[0].tolist() == wanted
    body = "sub.cc.u32 %xd, %xa, %xb; subc.cc.u32 %xd, %xc, 5; subc.u32 %xd, 0, 0;"
    wanted = []
    for x, y, z in values:
        difference = (cut(z, 32) << 32 | cut(x, 32)) - (5 << 32 | cut(y, 32))
        wanted.append(cut(-1, 32) if difference < 0 else 0)
    assert compute(body, a, b, c)[0].tolist() == wanted


@few
@given(rows)
def test_products_of_64_bits_from_32_bit_pieces_with_carries(values):
    a, b, _ = zip(*values, strict=True)
    body = """
    shr.u64 %in4, %wa, 32; cvt.u32.u64 %xc, %in4;
    mul.lo.u32 %t, %xa, %xb; mad.lo.cc.u32 %t, %xa, %xb, %t; madc.hi.u32 %xd, %xa, %xb, %xc;
    """
    wanted = []
    for x, y in zip(a, b, strict=True):
        low = cut(x, 32) * cut(y, 32)
        carry = cut(low, 32) * 2 >> 32
        wanted.append(cut((low >> 32) + (x >> 32) + carry, 32))
    assert compute(body, a, b)[0].tolist() == wanted


COMPARE = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


@pytest.mark.parametrize("type_name", ["u16", "s16", "u32", "s32", "u64", "s64"])
@few
@given(rows)
def test_setp_compares(type_name, values):
    a, b, _ = zip(*values, strict=True)
    b = tuple(x if i % 3 == 0 else y for i, (x, y) in enumerate(zip(a, b, strict=True)))
    r = REGISTER[int(type_name[1:])]
    names = COMPARE | ({k: COMPARE[v] for k, v in UNSIGNED.items()} if type_name[0] == "u" else {})
    for how, oracle in names.items():
        found = compute(f"setp.{how}.{type_name} %pd, %{r}a, %{r}b;", a, b)[0].tolist()
        assert found == [oracle(read(x, type_name), read(y, type_name)) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("boolean", ["and", "or", "xor"])
def test_setp_combines_with_a_predicate_and_writes_the_opposite_too(boolean):
    a, b, c = [1, 1, 2, 2], [2, 2, 1, 1], [0, 1, 0, 1]
    combine = {"and": lambda x, y: x and y, "or": lambda x, y: x or y, "xor": lambda x, y: x != y}[boolean]
    first, second = compute(f"setp.lt.{boolean}.s32 %pd|%pq, %xa, %xb, %pc;", a, b, c, outputs=2)
    assert first.tolist() == [combine(x < y, bool(z)) for x, y, z in zip(a, b, c, strict=True)]
    assert second.tolist() == [combine(not x < y, bool(z)) for x, y, z in zip(a, b, c, strict=True)]
    found = compute(f"setp.lt.{boolean}.s32 %pd, %xa, %xb, !%pc;", a, b, c)[0]
    assert found.tolist() == [combine(x < y, not z) for x, y, z in zip(a, b, c, strict=True)]


def test_selections():
    a, b, c = [1, 2, 3], [10, 20, 30], [0, 1, -1]
    assert compute("selp.b32 %xd, %xa, %xb, %pc;", a, b, c)[0].tolist() == [10, 2, 3]
    assert compute("slct.b32.s32 %xd, %xa, %xb, %xc;", a, b, c)[0].tolist() == [1, 2, 30]
    assert compute("set.lt.u32.s32 %xd, %xc, 1;", a, b, c)[0].tolist() == [0xFFFFFFFF, 0, 0xFFFFFFFF]


@pytest.mark.parametrize("source", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("to", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("saturate", [False, True])
def test_integers_are_converted_into_each_other(source, to, saturate):
    a = [*EDGES, 200, 1 << 40, (1 << 64) - 200, (1 << 64) - (1 << 33)]
    found = compute(f"cvt{'.sat' if saturate else ''}.{to}.{source} %wd, %wa;", a)[0].tolist()
    width, sign = int(to[1:]), to[0] == "s"
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if sign else (0, (1 << width) - 1)
    values = [read(x, source) for x in a]
    if saturate:
        values = [min(max(v, low), high) for v in values]
    assert found == [cut(read(v, to), 64) for v in values]


def test_vectors_are_packed_and_unpacked():
    body = "mov.b32 {%ha, %hb}, %xa; mov.b32 %xd, {%hb, %ha};"
    assert compute(body, [0x12345678])[0].tolist() == [0x56781234]
    body = "mov.b64 {%xa, %xb}, %wa; mov.b64 %wd, {%xb, %xa};"
    assert compute(body, [0x123456789ABCDEF0])[0].tolist() == [0x9ABCDEF012345678]
    assert compute("mov.b64 {_, %xd}, %wa;", [0x123456789ABCDEF0])[0].tolist() == [0x12345678]


def test_predicates_are_computed_like_bits():
    a, b = [0, 0, 1, 1], [0, 1, 0, 1]
    assert compute("and.pred %pd, %pa, %pb;", a, b)[0].tolist() == [0, 0, 0, 1]
    assert compute("or.pred %pd, %pa, %pb;", a, b)[0].tolist() == [0, 1, 1, 1]
    assert compute("xor.pred %pd, %pa, %pb;", a, b)[0].tolist() == [0, 1, 1, 0]
    assert compute("not.pred %pd, %pa;", a)[0].tolist() == [1, 1, 0, 0]
