"""C++ source as tokens: enough to tell code from comments, strings and preprocessor lines, and no more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

_SPACE = re.compile(r"(?:[ \t\r\f\v\n]|\\\r?\n|//(?:[^\\\n]|\\\r?\n|\\.)*|/\*.*?(?:\*/|\Z))+", re.DOTALL)
_RAW_STRING = re.compile(r'(?:u8|[uUL])?R"([^()\\\s]{0,16})\(.*?\)\1"', re.DOTALL)
_STRING = re.compile(r'(?:u8|[uUL])?(?:"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')', re.DOTALL)
_NUMBER = re.compile(r"\.?[0-9](?:[eEpP][+-]|'[0-9A-Za-z]|[\w.])*")
_WORD = re.compile(r"[^\W\d]\w*")
_PUNCTUATION = re.compile(r"<<<|>>>|::|->|.", re.DOTALL)
_DIRECTIVE = re.compile(
    r"#(?:[^\\\n/\"']|\\\r?\n|\\.|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|//[^\n]*|/\*.*?(?:\*/|\Z)|[/\"'])*",
    re.DOTALL,
)


class Kind(Enum):
    """What a token is."""

    WORD = auto()
    NUMBER = auto()
    STRING = auto()
    PUNCTUATION = auto()
    DIRECTIVE = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A token and where it stands: ``text == source[start:end]``."""

    kind: Kind
    text: str
    start: int
    end: int


_PATTERNS = (
    (Kind.STRING, _RAW_STRING),
    (Kind.STRING, _STRING),
    (Kind.NUMBER, _NUMBER),
    (Kind.WORD, _WORD),
    (Kind.PUNCTUATION, _PUNCTUATION),
)


def tokenise(source: str) -> Iterator[Token]:
    """Yield the tokens of `source`; comments and white space separate them and are dropped; O(length).

    A directive is one token from its ``#`` to the end of its last continuation line. Text that no compiler would
    accept (a string without end) still gives tokens: saying what is wrong is the compiler's task.
    """
    at, line_begins = 0, True
    while at < len(source):
        space = _SPACE.match(source, at)
        if space:
            line_begins = line_begins or "\n" in _without_comments(space[0])
            at = space.end()
            continue
        if line_begins and source[at] == "#":
            found = _DIRECTIVE.match(source, at)
            assert found is not None
            yield Token(Kind.DIRECTIVE, found[0], at, found.end())
            at = found.end()
            continue
        line_begins = False
        for kind, pattern in _PATTERNS:
            found = pattern.match(source, at)
            if found:
                yield Token(kind, found[0], at, found.end())
                at = found.end()
                break


def directive(token: Token) -> tuple[str, str]:
    """Return a directive's name and the rest of it, on one line and without comments."""
    text = re.sub(r"\\\r?\n", " ", token.text[1:])
    text = re.sub(r'("(?:[^"\\]|\\.)*")|//.*|/\*.*?(?:\*/|\Z)', lambda m: m[1] or " ", text, flags=re.DOTALL)
    name, _, rest = text.strip().partition(" ")
    word = _WORD.match(name)
    if word and word[0] != name:  # "#include<x>", "#define\tN"
        name, rest = word[0], name[word.end() :] + " " + rest
    return name, rest.strip()


def words(tokens: list[Token]) -> set[str]:
    """Return the words among `tokens`."""
    return {token.text for token in tokens if token.kind is Kind.WORD}


def _without_comments(space: str) -> str:
    """Return white space with its comments removed: a line break in one begins no line of its own."""
    return re.sub(r"//(?:[^\\\n]|\\\r?\n|\\.)*|/\*.*?(?:\*/|\Z)|\\\r?\n", "", space, flags=re.DOTALL)
