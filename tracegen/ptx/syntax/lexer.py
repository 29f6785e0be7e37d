"""Split a PTX text into tokens, and walk over them with a cursor.

One compiled expression finds every token and skips white space, comments and whole debug sections. Possessive
quantifiers and atomic groups keep the scan linear in the length of any text. A group whose last repetition may fail
halfway is atomic, because a possessive quantifier keeps the half in Python before 3.11.5.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import NoReturn

from rdmodel.errors import TraceError

_MAX_QUOTED_CHARACTERS = 40
"""Maximum number of characters of a token that an error message quotes."""

_SKIPPED = r"\s*+(?>(?:(?://[^\n]*+|/\*(?s:.*?)\*/|\.section\s++[\w.$]++\s*+\{[^{}]*+\})\s*+)*)"
_PTX_WORD = r"(?:[A-Za-z_$]|%(?=[\w$]))[\w$]*+(?>(?:\.\w++(?>(?:::\w++)*))*)"
_PTX_DIRECTIVE = r"\.[A-Za-z_]\w*+(?>(?:::\w++)*)"
_PTX_EXPONENT = r"[eE][+-]?\d++"
_PTX_NUMBER = rf"0[xXfFdDbB]\w*+|\d++\.\d*+(?:{_PTX_EXPONENT})?|\.\d++(?:{_PTX_EXPONENT})?|\d++{_PTX_EXPONENT}|\d\w*+"
_PTX_STRING = r'"(?>(?:[^"\\\n]|\\.)*)"'
_PTX_SIGN = r"\|\||&&|<<|>>|<=|>=|==|!=|[\[\](){}<>@!,;:+\-*|=~&^%]|/(?!\*)"
_PTX_TOKEN = re.compile(
    rf"{_SKIPPED}(?:({_PTX_WORD}|{_PTX_DIRECTIVE}|{_PTX_NUMBER}|{_PTX_STRING}|{_PTX_SIGN})|\Z|(?s:(.+)))", re.ASCII
)


class PtxError(TraceError):
    """The text is not PTX that the parser understands; the message starts with ``name:line:``."""


class Cursor:
    """A position among the tokens of one text; an empty token follows the last one.

    `tokens` and `at` are public because the parser's inner loops index them.
    """

    __slots__ = ("_ends", "_starts", "at", "name", "text", "tokens")

    def __init__(self, text: str, name: str) -> None:
        """Split `text` into tokens; raise `PtxError` at the first character that starts no token."""
        self.text = text
        self.name = name
        self.tokens: list[str] = []
        self.at = 0
        self._ends = [match.start() for match in re.finditer("\n", text)]
        self._starts: list[int] = []
        for match in _PTX_TOKEN.finditer(text):
            if match[2] is not None:
                raise PtxError(f"{name}:{self._line_of(match.start(2))}: {_describe_rest(match[2])}")
            if match[1] is not None:
                self.tokens.append(match[1])
                self._starts.append(match.start(1))
        self.tokens += ["", ""]
        self._starts += [len(text), len(text)]

    @property
    def token(self) -> str:
        """The token at the cursor."""
        return self.tokens[self.at]

    @property
    def line(self) -> int:
        """The line of that token, counted from 1."""
        return self._line_of(self._starts[self.at])

    def _line_of(self, offset: int) -> int:
        return bisect_left(self._ends, offset) + 1

    def take(self) -> str:
        """Return the token and advance; raise `PtxError` at the end of the text."""
        token = self.tokens[self.at]
        if not token:
            self.fail("more text")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        """Advance past `token` if it comes next; return whether it did."""
        if self.tokens[self.at] != token:
            return False
        self.at += 1
        return True

    def expect(self, token: str, where: str) -> None:
        """Advance past `token`, or raise `PtxError`: `where` completes "expected `token` ..."."""
        if self.tokens[self.at] != token:
            self.fail(f"{token!r} {where}")
        self.at += 1

    def take_name(self, noun: str) -> str:
        """Return a name without components and advance; `noun` names it in errors."""
        token = self.tokens[self.at]
        if not is_word(token) or "." in token:
            self.fail(noun)
        self.at += 1
        return token

    def take_line(self) -> str:
        """Return a statement of unknown form and advance: to its ``;``, its ``{...}``, or the end of the line."""
        first = self.at
        line = self.line
        while self.token and self.line == line and self.token not in ("{", "}"):
            self.at += 1
            if self.tokens[self.at - 1] == ";":
                return self.text_from(first, self.at - 1)
        if self.token == "{" and self.line == line:
            self.skip_group("{", "}")
        return self.text_from(first, self.at)

    def skip_group(self, opening: str, closing: str) -> None:
        """Advance past a group in brackets, nested groups included."""
        line = self.line
        self.expect(opening, "to open a group")
        depth = 1
        while depth:
            if not self.token:
                self.fail(f"{closing!r} for the {opening!r} of line {line}")
            depth += (self.token == opening) - (self.token == closing)
            self.at += 1

    def text_from(self, first: int, end: int) -> str:
        """Return the text of the tokens `first` to `end` - 1, with white space reduced to single spaces."""
        if end <= first:
            return ""
        return " ".join(self.text[self._starts[first] : self._starts[end - 1] + len(self.tokens[end - 1])].split())

    def fail(self, expected: str) -> NoReturn:
        """Raise `PtxError`: the token at the cursor is not `expected`."""
        found = repr(self.token[:_MAX_QUOTED_CHARACTERS]) if self.token else "the end of the text"
        self.refuse(f"expected {expected}, found {found}")

    def refuse(self, problem: str, line: int | None = None) -> NoReturn:
        """Raise `PtxError` with the `problem`, at `line` (default: the line of the token)."""
        raise PtxError(f"{self.name}:{line or self.line}: {problem}")


def is_word(token: str) -> bool:
    """Return whether `token` is a name, a register or an opcode."""
    first = token[:1]
    return first.isalpha() or first in ("_", "$") or (first == "%" and len(token) > 1)


def _describe_rest(rest: str) -> str:
    if rest.startswith("/*"):
        return "expected '*/' before the end of the text: a comment has no end"
    if rest.startswith('"'):
        return "expected '\"' before the end of the line: a string has no end"
    return f"expected PTX, found the character {rest[0]!a}"
