"""Numbers in texts: ASCII digits, 64 bits, nothing else that Python takes for a number."""

from __future__ import annotations

import pytest

from rdmodel.common.numerals import LARGEST_INTEGER, read_decimal, read_integer


@pytest.mark.parametrize("text", ["0", "-0", "+7", "007", "-12", str(LARGEST_INTEGER), f"-{LARGEST_INTEGER}", "0" * 99])
def test_whole_numbers_are_read_as_python_reads_them(text):
    assert read_integer(text) == int(text[-30:]) == read_integer(str(read_integer(text)))


FOREIGN_DIGITS = ["\u0663", "\uff13", "\xb2"]


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1\n", "1_0", "0x10", "1e3", "1.0", "--1", "inf", *FOREIGN_DIGITS])
def test_other_texts_are_no_whole_numbers(text):
    with pytest.raises(ValueError, match=r"^a whole number$"):
        read_integer(text)


@pytest.mark.parametrize("text", [str(LARGEST_INTEGER + 1), f"-{LARGEST_INTEGER + 1}", "9" * 9000])
def test_numbers_of_more_than_64_bits_are_refused(text):
    with pytest.raises(ValueError, match=r"a whole number of at most 2\^63 - 1"):
        read_integer(text)


@pytest.mark.parametrize("text", ["1", "-1.5", ".5", "2.", "1e-3", "+1E6"])
def test_finite_numbers_are_read_as_python_reads_them(text):
    assert read_decimal(text) == float(text)


@pytest.mark.parametrize("text", ["", "nan", "inf", "-infinity", "1e999", "1_0.5", " 1", "0x1p3", ".", *FOREIGN_DIGITS])
def test_other_texts_are_no_finite_numbers(text):
    with pytest.raises(ValueError, match=r"^a finite number$"):
        read_decimal(text)
