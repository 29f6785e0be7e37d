"""Split C++ source into tokens, just enough to separate code from comments, strings and preprocessor lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto

from rdmodel.common.late_dataclass import dataclass

_CPP_SPACE = re.compile(r"(?:[ \t\r\f\v\n]|\\\r?\n|//(?:[^\\\n]|\\\r?\n|\\.)*|/\*.*?(?:\*/|\Z))+", re.DOTALL)
_CPP_RAW_STRING = re.compile(r'(?:u8|[uUL])?R"([^()\\\s]{0,16})\(.*?\)\1"', re.DOTALL)
_CPP_STRING = re.compile(r'(?:u8|[uUL])?(?:"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')', re.DOTALL)
_CPP_NUMBER = re.compile(r"\.?[0-9](?:[eEpP][+-]|'[0-9A-Za-z]|[\w.])*")
_CPP_WORD = re.compile(r"[^\W\d]\w*")
_CPP_PUNCTUATION = re.compile(r"<<<|>>>|::|->|.", re.DOTALL)
_CPP_DIRECTIVE = re.compile(
    r"#(?:[^\\\n/\"']|\\\r?\n|\\.|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|//[^\n]*|/\*.*?(?:\*/|\Z)|[/\"'])*",
    re.DOTALL,
)


class TokenKind(Enum):
    """Kind of a token."""

    WORD = auto()
    NUMBER = auto()
    STRING = auto()
    PUNCTUATION = auto()
    DIRECTIVE = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its place: ``text == source[start:end]``."""

    kind: TokenKind
    text: str
    start: int
    end: int


_CPP_PATTERNS = (
    (TokenKind.STRING, _CPP_RAW_STRING),
    (TokenKind.STRING, _CPP_STRING),
    (TokenKind.NUMBER, _CPP_NUMBER),
    (TokenKind.WORD, _CPP_WORD),
    (TokenKind.PUNCTUATION, _CPP_PUNCTUATION),
)


def tokenise(source: str) -> Iterator[Token]:
    """Yield the tokens of `source` without comments and white space; O(length).

    A directive is one token, from its ``#`` to the end of its last continuation line. Invalid text, such as an
    unterminated string, still gives tokens: the compiler reports the error.
    """
    at, line_begins = 0, True
    while at < len(source):
        space = _CPP_SPACE.match(source, at)
        if space:
            line_begins = line_begins or "\n" in _without_comments(space[0])
            at = space.end()
            continue
        if line_begins and source[at] == "#":
            found = _CPP_DIRECTIVE.match(source, at)
            assert found is not None
            yield Token(TokenKind.DIRECTIVE, found[0], at, found.end())
            at = found.end()
            continue
        line_begins = False
        for kind, pattern in _CPP_PATTERNS:
            found = pattern.match(source, at)
            if found:
                yield Token(kind, found[0], at, found.end())
                at = found.end()
                break


def directive(token: Token) -> tuple[str, str]:
    """Return the name of a directive and the rest of it, on one line and without comments."""
    text = re.sub(r"\\\r?\n", " ", token.text[1:])
    text = re.sub(r'("(?:[^"\\]|\\.)*")|//.*|/\*.*?(?:\*/|\Z)', lambda m: m[1] or " ", text, flags=re.DOTALL)
    name, _, rest = text.strip().partition(" ")
    word = _CPP_WORD.match(name)
    if word and word[0] != name:  # "#include<x>", "#define\tN"
        name, rest = word[0], name[word.end() :] + " " + rest
    return name, rest.strip()


def words(tokens: list[Token]) -> set[str]:
    """Return the words among `tokens`."""
    return {token.text for token in tokens if token.kind is TokenKind.WORD}


def _without_comments(space: str) -> str:
    """Return white space without its comments, in which a line break does not start a new line."""
    return re.sub(r"//(?:[^\\\n]|\\\r?\n|\\.)*|/\*.*?(?:\*/|\Z)|\\\r?\n", "", space, flags=re.DOTALL)
