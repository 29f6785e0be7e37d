"""Change the files of a case: bytes, words of the format, numbers, lines, and pieces of other cases."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

Case = dict[str, bytes]
"""Contents of the files of one call of a reader, by name."""

Shaper = Callable[[Case, Random], Case]
"""Function that changes a case within its format; may return it unchanged."""

MAX_FILE_BYTES = 4000
"""Longer files are cut to this length."""

_EXPONENTS = (7, 8, 10, 15, 16, 18, 31, 32, 52, 56, 58, 59, 62, 63, 64, 100)
_POWERS = [1 << n for n in _EXPONENTS]
_NUMBERS = [0, 1, 2, 3, 4, 5, 16, 17, 31, 32, 33, 64, 255, 256, 1024, 1025, 4096, 65535, 65536, 10**18, 10**20, 10**30]
_LIMITS = [b"%d" % n for n in (*_NUMBERS, *_POWERS, *(n - 1 for n in _POWERS), *(n + 1 for n in _POWERS))]
_LIMITS += [b"0x%x" % n for n in (*_POWERS, *(n - 1 for n in _POWERS), 0, 1, (1 << 63) - 15, (1 << 63) - 16)]
_LIMITS += [b"-1", b"-0", b"+1", b"1e9", b"1e400", b"nan", b"-inf", b"0x", b"007", b"1.5", b"9" * 40, b"9" * 5000, b""]
_LIMITS += ["٣".encode(), "²".encode(), b"1_000"]
_BYTES = [
    b"\0",
    b"\n",
    b"\r",
    b"\r\n",
    b" ",
    b"\t",
    b"\xff",
    b"\xc3",
    b"\x1b[2J",
    b"\xe2\x80\xa8",
    b"\x85",
    b"\x0c",
    b"#",
]
_BYTES += [b",", b"=", b"-", b"(", b")", b'"', b"\xef\xbb\xbf", b"%s", b"{}", b"\\", b"'", b"*", b"[", b"]"]
_NUMBER = re.compile(rb"0[xX][0-9a-fA-F]+|\d+")


class Mutator:
    """Maker of new cases from old ones; `tokens` are words of the format."""

    def __init__(
        self, rng: Random, tokens: Sequence[bytes], shapers: Sequence[Shaper], most: int = MAX_FILE_BYTES
    ) -> None:
        self._rng, self._tokens, self._shapers, self._most = rng, [*tokens, *_BYTES], list(shapers), most

    def changed(self, case: Case, other: Case) -> Case:
        """Return a case with one to eight changes; some take pieces of `other`."""
        rng = self._rng
        if self._shapers and rng.random() < 0.6:
            case = self._shaped(case)
            if rng.random() < 0.7:
                return case
        result = dict(case)
        for _ in range(1 << rng.randrange(4)):
            if not result:
                break
            name = rng.choice(list(result))
            data = bytearray(result[name])
            rng.choice(_CHANGES)(self, data, other)
            result[name] = bytes(data[: self._most])
        return result

    def _shaped(self, case: Case) -> Case:
        try:
            return self._rng.choice(self._shapers)(case, self._rng)
        except Exception:  # a damaged case may break its shaper in any way
            return case

    def token(self) -> bytes:
        """Return a word of the format, or a limit of some type."""
        return self._rng.choice(self._tokens if self._rng.random() < 0.6 else _LIMITS)

    # ---- Changes

    def _span(self, data: bytearray) -> tuple[int, int]:
        at = self._rng.randint(0, len(data))
        return at, min(len(data), at + self._rng.choice((1, 1, 2, 4, 8, 40, 700)))

    def _flip(self, data: bytearray, other: Case) -> None:
        if data:
            data[self._rng.randrange(len(data))] ^= 1 << self._rng.randrange(8)

    def _set(self, data: bytearray, other: Case) -> None:
        if data:
            data[self._rng.randrange(len(data))] = self._rng.randrange(256)

    def _drop(self, data: bytearray, other: Case) -> None:
        at, end = self._span(data)
        del data[at:end]

    def _cut(self, data: bytearray, other: Case) -> None:
        if self._rng.random() < 0.3:
            del data[self._rng.randint(0, len(data)) :]

    def _repeat(self, data: bytearray, other: Case) -> None:
        at, end = self._span(data)
        to = self._rng.randint(0, len(data))
        data[to:to] = data[at:end] * self._rng.choice((1, 1, 2, 20))

    def _insert(self, data: bytearray, other: Case) -> None:
        at = self._rng.randint(0, len(data))
        data[at:at] = self.token()

    def _overwrite(self, data: bytearray, other: Case) -> None:
        token = self.token()
        at = self._rng.randint(0, len(data))
        data[at : at + len(token)] = token

    def _word(self, data: bytearray, other: Case) -> None:
        """Replace a whole word by a token."""
        if data:
            at = self._rng.randrange(len(data))
            first = max(data.rfind(b" ", 0, at), data.rfind(b"\n", 0, at)) + 1
            ends = [end for end in (data.find(b" ", at), data.find(b"\n", at)) if end >= 0]
            data[first : min(ends, default=len(data))] = self.token()

    def _number(self, data: bytearray, other: Case) -> None:
        """Change a number to a near one, or to a limit."""
        found = _NUMBER.search(data, self._rng.randint(0, len(data))) or _NUMBER.search(data)
        if found is None:
            return
        text, kind = found[0], self._rng.randrange(4)
        if kind == 0 and len(text) < 30:
            near = max(
                (int(text, 16) if text[1:2] in b"xX" and len(text) > 2 else int(text)) + self._rng.randint(-2, 2), 0
            )
            data[found.start() : found.end()] = b"0x%x" % near if text[1:2] in b"xX" and len(text) > 2 else b"%d" % near
        elif kind == 1:
            data[found.start() : found.start()] = self._rng.choice((b"-", b"0", b"00", b"1", b"+"))
        else:
            data[found.start() : found.end()] = self._rng.choice(_LIMITS)

    def _lines(self, data: bytearray, other: Case) -> None:
        """Drop, repeat, move or swap lines."""
        lines = bytes(data).split(b"\n")
        i, j, kind = self._rng.randrange(len(lines)), self._rng.randrange(len(lines)), self._rng.randrange(4)
        if kind == 0:
            del lines[i : i + self._rng.choice((1, 1, 3))]
        elif kind == 1:
            lines[j:j] = lines[i : i + self._rng.choice((1, 1, 3, 10))]
        elif kind == 2:
            lines.insert(j, lines.pop(i))
        else:
            lines[i], lines[j] = lines[j], lines[i]
        data[:] = b"\n".join(lines)

    def _splice(self, data: bytearray, other: Case) -> None:
        """Continue with a piece of another case, by lines or by bytes."""
        if not other:
            return
        theirs = other[self._rng.choice(list(other))]
        if self._rng.random() < 0.5:
            at, end = self._span(data)
            first = self._rng.randint(0, len(theirs))
            data[at:end] = theirs[first : first + self._rng.choice((4, 40, 700, 4000))]
            return
        lines, more = bytes(data).split(b"\n"), theirs.split(b"\n")
        at, first = self._rng.randrange(len(lines)), self._rng.randrange(len(more))
        lines[at : at + self._rng.choice((0, 1, 1000))] = more[first : first + self._rng.choice((1, 1, 2, 8, 1000))]
        data[:] = b"\n".join(lines)


_CHANGES: tuple[Callable[[Mutator, bytearray, Case], None], ...] = (
    Mutator._flip,
    Mutator._set,
    Mutator._drop,
    Mutator._cut,
    Mutator._repeat,
    Mutator._insert,
    Mutator._overwrite,
    Mutator._word,
    Mutator._word,
    Mutator._number,
    Mutator._number,
    Mutator._lines,
    Mutator._lines,
    Mutator._splice,
)
