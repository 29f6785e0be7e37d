"""Leaves of a CUDA file what runs on the GPU: host functions, variables and types are blanked out.

A compiler at run time (NVRTC) takes device code only, but people have whole programs. The text is divided into the
declarations of its namespaces. Kept are those that name an execution or memory space (``__global__``, ``__device__``,
``__constant__`` ...), and then every type, constant and ``constexpr`` function that a kept one mentions. Everything
else is overwritten with spaces, so that lines and columns in the compiler's messages stay those of the user's file.
Preprocessor lines are never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto
from itertools import pairwise

from tracegen.cuda.declarations import TYPE_WORDS, Declaration, declarations
from tracegen.cuda.tokens import Kind, Token, directive, tokenise, words

_MARKS = frozenset({"__global__", "__device__", "__constant__", "__shared__", "__managed__", "__grid_constant__"})
_FOREIGN_NAMESPACES = frozenset({"std", "cooperative_groups", "nvcuda", "cuda"})


class Role(Enum):
    """What a declaration is to the device: part of it, usable by it, or none of its business."""

    DEVICE = auto()
    SHARED = auto()
    HOST = auto()


def device_code(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files of one program (source and its own headers, by name) without their host code.

    Every line keeps its number and every character that remains its column. What one file mentions is kept in all.
    """
    tokens = {name: list(tokenise(text)) for name, text in files.items()}
    macros = _macros(token for listed in tokens.values() for token in listed)
    marks = _marking(macros)
    known = {name: declarations(listed, {m for m in macros if macros[m] & marks}) for name, listed in tokens.items()}
    namespaces = _FOREIGN_NAMESPACES | {n for listed in tokens.values() for n in _namespaces(listed)}
    everything = [d for listed in known.values() for d in listed]
    kept = _reached(everything, {id(d): role(d, marks, namespaces) for d in everything}, macros)
    return {
        name: _blank(files[name], [d for d in listed if id(d) not in kept], tokens[name])
        for name, listed in known.items()
    }


def role(declaration: Declaration, marks: frozenset[str] = _MARKS, namespaces: Iterable[str] = ()) -> Role:
    """Return what a declaration is to the device; `marks` are the words that say so outright."""
    if words(list(declaration.head)) & marks:
        return Role.DEVICE
    outer = [token.text for token in declaration.outer]
    if outer[:2] == ["using", "namespace"]:
        return Role.DEVICE if set(namespaces).intersection(outer[2:]) else Role.HOST
    constant = "constexpr" in outer or "consteval" in outer
    if declaration.body is not None:
        return Role.SHARED if constant else Role.HOST
    if outer[0] in ("typedef", "using", "namespace") or TYPE_WORDS & set(outer):
        return Role.SHARED
    return Role.SHARED if constant or "const" in outer else Role.HOST


def _macros(tokens: Iterable[Token]) -> dict[str, set[str]]:
    """Return the words in the body of every macro that is defined."""
    found: dict[str, set[str]] = {}
    for token in tokens:
        if token.kind is Kind.DIRECTIVE:
            name, rest = directive(token)
            body = list(tokenise(rest)) if name == "define" else []
            if body:
                found.setdefault(body[0].text, set()).update(words(body[1:]))
    return found


def _marking(macros: Mapping[str, set[str]]) -> frozenset[str]:
    """Return the words that make a declaration the device's, macros that stand for one included."""
    marks = set(_MARKS)
    while True:
        more = {name for name, body in macros.items() if name not in marks and body & marks}
        if not more:
            return frozenset(marks)
        marks |= more


def _namespaces(tokens: list[Token]) -> set[str]:
    """Return the names of the namespaces that are opened, not only used."""
    triples = zip([None, *tokens], tokens, tokens[1:], strict=False)
    return {c.text for a, b, c in triples if b.text == "namespace" and (a is None or a.text != "using")}


def _reached(everything: list[Declaration], roles: Mapping[int, Role], macros: Mapping[str, set[str]]) -> set[int]:
    """Return the ids of the declarations to keep: the device's, and what those mention, directly or not."""
    kept: set[int] = set()
    mentioned: set[str] = set()
    fresh = [d for d in everything if roles[id(d)] is Role.DEVICE]
    waiting = [(d, declared_names(d)) for d in everything if roles[id(d)] is Role.SHARED]
    while fresh:
        kept.update(id(d) for d in fresh)
        mentioned |= _with_macros(set().union(*(words(list(d.tokens)) for d in fresh)), macros)
        fresh = [d for d, names in waiting if names & mentioned]
        waiting = [(d, names) for d, names in waiting if not names & mentioned]
    return kept


def declared_names(declaration: Declaration) -> set[str]:
    """Return the names that a declaration may introduce; a type that it names may be among them."""
    if declaration.body is not None:
        head = declaration.head
        return {a.text for a, b in pairwise(head) if b.text == "(" and a.kind is Kind.WORD}
    texts = [token.text for token in declaration.outer]
    if "enum" in texts:
        return words(list(declaration.tokens))
    if texts[0] == "typedef":
        return _pointers(declaration.tokens) or set([t.text for t in declaration.outer if t.kind is Kind.WORD][-1:])
    if texts[0] in ("using", "namespace"):
        return set(texts[1:2])
    if TYPE_WORDS & set(texts):
        first = next(i for i, text in enumerate(texts) if text in TYPE_WORDS) + 1
        last = next((i for i, text in enumerate(texts) if text in (":", "<")), len(texts))
        return set(texts[first:last]) - {";", "*", ",", "="}
    return {a for a, b in pairwise(texts) if b in ("=", ",", ";")}


def _pointers(tokens: Iterable[Token]) -> set[str]:
    """Return the names of pointers to functions: ``x`` in ``float (*x)(float)``."""
    texts = [token.text for token in tokens]
    return {c for a, b, c in zip(texts, texts[1:], texts[2:], strict=False) if (a, b) == ("(", "*")}


def _with_macros(mentioned: set[str], macros: Mapping[str, set[str]]) -> set[str]:
    """Return the words with those in the bodies of the macros among them."""
    todo = [word for word in mentioned if word in macros]
    while todo:
        more = macros[todo.pop()] - mentioned
        mentioned = mentioned | more
        todo += [word for word in more if word in macros]
    return mentioned


def _blank(text: str, dropped: list[Declaration], tokens: list[Token]) -> str:
    """Overwrite declarations with spaces; directives within them stay."""
    characters = list(text)
    for declaration in dropped:
        for at in range(declaration.tokens[0].start, declaration.tokens[-1].end):
            if characters[at] not in "\r\n":
                characters[at] = " "
    for token in tokens:
        if token.kind is Kind.DIRECTIVE:
            characters[token.start : token.end] = text[token.start : token.end]
    return "".join(characters)
