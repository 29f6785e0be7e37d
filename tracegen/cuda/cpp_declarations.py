"""Divide a C++ file into the declarations of its namespaces, and find the function bodies among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from tracegen.cuda.tokens import Token, TokenKind, directive

ATTRIBUTES = frozenset(
    {"__align__", "alignas", "__attribute__", "__launch_bounds__", "__declspec", "__cluster_dims__", "__maxnreg__"}
)
"""Words that look like a function call in a declaration."""

TYPE_WORDS = frozenset({"struct", "class", "union", "enum"})
"""Words that declare a type."""

_AFTER_PARAMETERS = frozenset({"const", "noexcept", "override", "final", "volatile", "throw"}) | ATTRIBUTES
_CLOSING_BRACKETS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration at namespace scope: its tokens, and its tokens outside all brackets (`outer`).

    `outer` excludes a leading ``template <...>``.
    """

    tokens: tuple[Token, ...]
    outer: tuple[Token, ...]
    body: int | None
    """Index in `tokens` of the brace that opens a function body; None unless it is a function definition."""

    @property
    def head(self) -> tuple[Token, ...]:
        """The tokens before the function body; all tokens if there is none."""
        return self.tokens[: self.body]


def declarations(tokens: list[Token], device_macros: Iterable[str] = ()) -> list[Declaration]:
    """Divide tokens into the declarations of their namespaces; the braces of namespaces are dropped.

    `device_macros` are macros whose use is a whole declaration: ``INSTANTIATE(float)`` without a semicolon. Branches of
    ``#if`` may hold different braces: each branch starts from the state before the first one.
    """
    return _Divider(frozenset(device_macros)).divide(tokens)


@dataclass(slots=True)
class _Conditional:
    """An ``#if`` and the brackets open before it; `dead` marks a branch of ``#if 0``, which may hold any text."""

    open: tuple[str, ...]
    dead: bool


class _Divider:
    """One pass over the tokens, with the open brackets as its state."""

    def __init__(self, device_macros: frozenset[str]) -> None:
        self._macros = device_macros
        self._found: list[Declaration] = []
        self._conditionals: list[_Conditional] = []
        self._begin()

    def _begin(self) -> None:
        self._tokens: list[Token] = []
        self._outer: list[Token] = []
        self._open: list[str] = []
        self._body: int | None = None

    def divide(self, tokens: list[Token]) -> list[Declaration]:
        code = [token for token in tokens if token.kind is not TokenKind.DIRECTIVE]
        following = {id(a): b.text for a, b in pairwise(code)}
        for token in tokens:
            if token.kind is TokenKind.DIRECTIVE:
                self._branch(*directive(token))
            elif not any(conditional.dead for conditional in self._conditionals):
                self._take(token, following.get(id(token), ""))
        self._end()
        return self._found

    def _branch(self, name: str, condition: str) -> None:
        if name in ("if", "ifdef", "ifndef"):
            self._conditionals.append(_Conditional(tuple(self._open), dead=(name, condition) == ("if", "0")))
        elif name in ("else", "elif", "elifdef", "elifndef") and self._conditionals:
            self._open = list(self._conditionals[-1].open)
            self._conditionals[-1].dead = False
        elif name == "endif" and self._conditionals:
            self._conditionals.pop()

    def _take(self, token: Token, following: str) -> None:
        text = token.text if token.kind is TokenKind.PUNCTUATION else ""
        if text == "}" and not self._open:
            self._end()  # the end of a namespace ends a macro that stands for a declaration, too
        if not self._tokens and text in ("}", ";"):
            return
        outside = not self._open
        if outside and text == "{":
            if self._opens_namespace():
                self._begin()
                return
            if self._body is None and _is_function(self._tokens):
                self._body = len(self._tokens)
        self._tokens.append(token)
        if text in _CLOSING_BRACKETS:
            self._open.append(_CLOSING_BRACKETS[text])
        elif self._open and text == self._open[-1]:
            self._open.pop()
        elif outside:
            self._outer.append(token)
        if not self._open and self._complete(text, following):
            self._end()

    def _complete(self, text: str, following: str) -> bool:
        if text == ";":
            return True
        if text == "}":
            return self._body is not None and following not in ("{", ",")  # "S::S() : a{1} {"
        return text == ")" and self._tokens[0].text in self._macros and len(self._outer) == 1 and following != ";"

    def _opens_namespace(self) -> bool:
        texts = [token.text for token in self._tokens]
        return "namespace" in texts[:2] or (texts[:1] == ["extern"] and len(texts) == 2 and texts[1].startswith('"'))

    def _end(self) -> None:
        if self._tokens:
            outer = self._outer[_template_end(self._outer) :] or self._tokens[:1]
            self._found.append(Declaration(tuple(self._tokens), tuple(outer), self._body))
        self._begin()


def _template_end(tokens: list[Token]) -> int:
    """Return the number of leading tokens that form ``template <...>``."""
    at = 0
    while [token.text for token in tokens[at : at + 2]] == ["template", "<"]:
        depth, at = 0, at + 1
        while at < len(tokens):
            text, at = tokens[at].text, at + 1
            depth += text.count("<") - (text.count(">") if text != "->" else 0)
            if depth <= 0:
                break
    return at


def _is_function(tokens: list[Token]) -> bool:
    """Return whether a brace after `tokens` opens a function body."""
    at = len(tokens) - 1
    texts = [token.text for token in tokens]
    if "->" in texts and ")" in texts[: texts.index("->")]:
        return True
    while at >= 0:
        if texts[at] in _AFTER_PARAMETERS:
            at -= 1
        elif texts[at] == ")":
            name = _opening_parenthesis(texts, at) - 1
            if name < 0 or texts[name] not in _AFTER_PARAMETERS:
                return name >= 0 and _names_function(tokens, name)
            at = name - 1
        elif texts[at] == "}":  # the brace initialiser of a member: "S::S() : a{1} {"
            return ")" in texts
        else:
            return False
    return False


def _names_function(tokens: list[Token], at: int) -> bool:
    """Return whether the parentheses after token `at` hold parameters, unlike those of ``struct ALIGN(16) {``."""
    before = [token.text for token in tokens[max(0, at - 2) : at + 1]]
    if at and tokens[at - 1].text in TYPE_WORDS:
        return False
    return tokens[at].kind is TokenKind.WORD or before[-1] in (")", ">") or "operator" in before


def _opening_parenthesis(texts: list[str], closing: int) -> int:
    """Return the index of the parenthesis that ``texts[closing]`` closes, or -1."""
    depth = 0
    for at in range(closing, -1, -1):
        depth += (texts[at] == ")") - (texts[at] == "(")
        if depth == 0:
            return at
    return -1
