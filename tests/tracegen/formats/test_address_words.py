"""Addresses in the texts of NVBit and PPT-GPU, in and out of the tools' usual form, against regular expressions."""

import functools
import operator
import re

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.trace import LAST_ADDRESS
from tests.support import nvbit_texts, ppt_texts
from tests.support.examples import examples
from tests.support.trace_files import file_writer
from tracegen import formats
from tracegen.formats import compressed
from tracegen.formats._nvbit import read_words

WORD = re.compile(r"0[xX]0*([0-9a-fA-F]{1,16})")
HEADER = nvbit_texts.header(grid=(1, 1, 1), block=(32, 1, 1))
USUAL = [0x7F8A_0180_0000 + 4 * lane for lane in range(32)]
DAMAGE = ["", "0x", "x1", "0x7f8a0180000g", "0x7f8a018000:0", "1000", "0x1\t", "0x1\0", "0x\xe9", "0x1_", "-0x1"]
FORMS = ["0x{:016x}", "0x{:x}", "0X{:016X}", "0x{:X}", "0x{:015x}", "0x{:017x}", "0x{:040x}"]

relaxed = examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text to a file and returns its path."""
    return file_writer(tmp_path, "words.txt")


def words(numbers, most):
    """Return strategies of lists of words: up to `most` of them differ from the usual addresses in the usual form."""
    number = st.one_of(st.sampled_from(numbers), st.integers(1, LAST_ADDRESS), st.integers(1, 2**20))
    word = st.one_of(
        st.builds(lambda form, value: form.format(value), st.sampled_from(FORMS), number),
        st.sampled_from(DAMAGE),
    )
    good = st.builds(lambda form, value: form.format(value), st.sampled_from(FORMS[:-2]), number)
    changes = st.dictionaries(st.integers(0, 31), st.one_of(good, word), max_size=most)
    usual = st.sampled_from(FORMS[:2]).map(lambda form: [form.format(value) for value in USUAL])
    return st.builds(lambda line, new: [new.get(i, line[i]) for i in range(32)], usual, changes)


def separators(usual):
    """Return strategies of lists of what follows each word: at most two differ from `usual`."""
    other = st.sampled_from(["", "  ", "\t", "\r", " \r", ","])
    changes = st.dictionaries(st.integers(0, 31), other, max_size=2)
    return changes.map(lambda new: [new.get(i, usual) for i in range(32)])


nvbit_lines = st.builds(
    lambda w, s, end: "".join(a + b for a, b in zip(w, s, strict=True)) + end,
    words([0, 0, USUAL[5], LAST_ADDRESS, LAST_ADDRESS + 1, 2**64 - 1, 2**64], 6),
    st.one_of(st.just([" "] * 32), separators(" ")),
    st.sampled_from(["", "", "\r", "  "]),
)


@relaxed
@given(line=nvbit_lines, chunk=st.sampled_from([300, 1 << 20]))
@example(line=" ".join(f"0x{value:016x}" for value in USUAL), chunk=300)
@example(line="0x0000000000000000 " * 31 + "0x00007f8a01800000 ", chunk=300)
def test_a_line_of_nvbit_has_32_words_with_one_blank_between_them(written, line, chunk):
    good = nvbit_texts.record(USUAL)
    path = written((HEADER + good + good[: good.index("0x0000" + "7f")] + line + "\n" + good).encode("latin-1"))
    found = line.rstrip(" \r").split(" ")
    fits = len(found) == 32 and all(WORD.fullmatch(word) for word in found)
    values = [int(word, 16) for word in found] if fits else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressed, "CHUNK_BYTES", chunk)
        if fits and max(values) <= LAST_ADDRESS:
            columns = formats.read(path, format="nvbit").columns
            active = [value for value in values if value]
            assert columns.addresses.tolist() == USUAL + active + USUAL
            assert columns.mask[1] == sum(1 << lane for lane, value in enumerate(values) if value) or not active
        else:
            problem = "addresses must be at most" if fits else "expected 32 hexadecimal addresses"
            with pytest.raises(TraceError, match=rf"words\.txt:3: {problem}"):
                formats.read(path, format="nvbit")


def ppt_problem(words):
    """Return the message about the first bad word of a record, or None."""
    for i, word in enumerate(words):
        match = WORD.fullmatch(word)
        if match is None:
            return "expected an opcode and addresses"
        if not 0 < int(match[1], 16) <= LAST_ADDRESS:
            return "addresses must be 0x1 to"
        if i == 32:
            return "more than 32 addresses"
    return None


ppt_lines = st.builds(
    lambda w, s, count, more: "".join(a + b for a, b in zip(w[:count] + more, s + [" "] * 2, strict=False)),
    words([0, USUAL[5], LAST_ADDRESS, LAST_ADDRESS + 1, 2**64 - 1, 2**64], 6),
    st.one_of(st.just([" "] * 32), separators(" ")),
    st.sampled_from([1, 2, 31, 32, 32]),
    st.sampled_from([[], [], ["0x7f8a01800100"]]),
)


@relaxed
@given(line=ppt_lines, chunk=st.sampled_from([300, 1 << 20]))
@example(line="0x ", chunk=300)
@example(line="0x1 0x 0x2 ", chunk=300)
@example(line="0x12345678 0x1234567 ", chunk=300)
def test_a_record_of_ppt_gpu_has_words_with_blanks_between_them(written, line, chunk):
    good = "\n=====\n" + ppt_texts.record(addresses=USUAL)
    path = written((f"{good}\n=====\nLDG.E.SYS {line}{good}").encode("latin-1"), "kernel_1_block_0.mem")
    found = [word for word in re.split(r"[ \r]+", line) if word]
    problem = ppt_problem(found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressed, "CHUNK_BYTES", chunk)
        if problem is None:
            columns = formats.read(path, block=(32, 1, 1)).columns
            assert columns.addresses.tolist() == USUAL + [int(word, 16) for word in found] + USUAL
        else:
            with pytest.raises(TraceError, match=rf"kernel_1_block_0\.mem:5: {problem}"):
                formats.read(path, block=(32, 1, 1))


def leading_groups(text, digits):
    """Return the values of the groups of four words of one length at the start of a text, at most eight groups."""
    word = rb"0[xX]([0-9a-fA-F]{%d}) " % digits
    values = []
    while len(values) < 32 and len(text) >= 4 * (digits + 3) + 16:
        match = re.match(word * 4, text)
        if match is None:
            break
        values += [int(number, 16) for number in match.groups()]
        text = text[match.end() :]
    return values


@relaxed
@given(
    digits=st.integers(1, 16),
    numbers=st.lists(st.one_of(st.just(0), st.integers(0, 2**64 - 1)), max_size=40),
    upper=st.booleans(),
    damage=st.one_of(st.none(), st.tuples(st.integers(0, 1 << 12), st.integers(0, 255))),
    tail=st.integers(0, 40),
)
def test_words_of_one_length_are_read_alike_with_and_without_wide_instructions(digits, numbers, upper, damage, tail):
    form = f"0{digits}{'X' if upper else 'x'}"
    text = bytearray("".join(f"0x{number % 16**digits:{form}} " for number in numbers).encode() + b"\n" * tail + b"M")
    if damage:
        text[damage[0] % len(text)] = damage[1]
    expected = leading_groups(bytes(text), digits)
    for by_hand in (False, True):
        values, bits, zeros = read_words(bytes(text), digits, by_hand)
        assert [value % 2**64 for value in values] == expected
        if len(values) == 32:
            assert bits == functools.reduce(operator.or_, expected)
            assert zeros == sum(1 << i for i, value in enumerate(expected) if value == 0)


@pytest.mark.parametrize("by_hand", [False, True])
def test_no_character_but_a_digit_passes_for_one_in_a_group(by_hand):
    good = b"0x0123456789abcdef " * 4 + b"\n" * 20
    for at in range(19):
        for code in range(256):
            text = bytearray(good)
            text[19 + at] = code
            found = [value % 2**64 for value in read_words(bytes(text), 16, by_hand)[0]]
            assert found == leading_groups(bytes(text), 16)
