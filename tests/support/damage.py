"""Damage the text of a trace, as truncation, bad transfers and faulty tools do, for tests of readers."""

import random
import re

TOKENS = [
    b"0x",
    b"-1",
    b"0",
    b"18446744073709551616",
    b"9" * 40,
    b",",
    b" - ",
    b"\n",
    b"\r\n",
    b" ",
    b"\0",
    b"\xff",
    b"=",
]
TOKENS += [b"=====", b"0x0", b"0xffffffffffffffff", b"LDG.E", b"MEMTRACE: ", b"LAUNCH", b"32", b"#", b"nan", b"1e9"]


def damaged(text: bytes, rng: random.Random) -> bytes:
    """Return `text` with one to four mistakes in it."""
    data = bytearray(text)
    for _ in range(rng.randint(1, 4)):
        DAMAGES[rng.randrange(len(DAMAGES))](data, rng)
    return bytes(data)


def _span(data: bytearray, rng: random.Random) -> tuple[int, int]:
    at = rng.randint(0, len(data))
    return at, min(len(data), at + rng.choice([1, 1, 2, 8, 40, 700]))


def _flip(data: bytearray, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.randrange(256)


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randint(0, len(data)) :]


def _drop(data: bytearray, rng: random.Random) -> None:
    at, end = _span(data, rng)
    del data[at:end]


def _repeat(data: bytearray, rng: random.Random) -> None:
    at, end = _span(data, rng)
    to = rng.randint(0, len(data))
    data[to:to] = data[at:end]


def _insert(data: bytearray, rng: random.Random) -> None:
    at, end = _span(data, rng)
    data[at : rng.choice([at, end])] = rng.choice(TOKENS)


def _swap_words(data: bytearray, rng: random.Random) -> None:
    words = bytes(data).split(b" ")
    i, j = rng.randrange(len(words)), rng.randrange(len(words))
    words[i], words[j] = words[j], words[i]
    data[:] = b" ".join(words)


def _replace_number(data: bytearray, rng: random.Random) -> None:
    if digit := re.compile(rb"\d").search(data, rng.randint(0, len(data))):
        at = digit.start()
        data[at : at + 1] = rng.choice([b"", b"00", b"-5", b"4294967296", b"9223372036854775807", b"a"])


def _drop_line(data: bytearray, rng: random.Random) -> None:
    lines = bytes(data).split(b"\n")
    del lines[rng.randrange(len(lines))]
    data[:] = b"\n".join(lines)


DAMAGES = (_flip, _cut, _drop, _repeat, _insert, _insert, _swap_words, _replace_number, _replace_number, _drop_line)
