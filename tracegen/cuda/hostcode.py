"""Remove host code from a CUDA program: host functions, variables and types are replaced by spaces.

NVRTC compiles device code only, but users have whole programs. The text is divided into the declarations of its
namespaces. A declaration stays if it names an execution or memory space (``__global__``, ``__device__``,
``__constant__`` ...), or if it is a type, constant or ``constexpr`` function that another remaining declaration
mentions. Everything else is overwritten with spaces, so that lines and columns in compiler messages stay correct, and
so are member functions that are marked ``__host__`` alone, or use streams or strings. Preprocessor lines do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import pairwise

from tracegen.cuda.cpp_declarations import TYPE_WORDS, Declaration, declarations
from tracegen.cuda.tokens import Token, TokenKind, directive, tokenise, words

_DEVICE_WORDS = frozenset(
    {"__global__", "__device__", "__constant__", "__shared__", "__managed__", "__grid_constant__"}
)
"""Words that mark a declaration as device code."""

_DEVICE_STANDARD_NAMES = frozenset({"min", "max", "swap", "is_same", "enable_if", "conditional", "numeric_limits"})
"""Names that ``using std::name;`` takes from the built-in headers; others belong to host code."""

_HOST_CLASSES = frozenset(
    {"string", "to_string", "cout", "cerr", "endl"}
    | {f"{way}{kind}stream" for way in ("", "i", "o") for kind in ("", "f", "string")}
)
"""Names of streams and strings, which member functions of the host use."""

_STORAGE_WORDS = frozenset({"static", "extern", "const", "volatile", "inline"})
"""Words before the type of a variable."""

LIBRARY_NAMESPACES = ("cub", "torch", "at", "c10")
"""Namespaces of libraries for host and device code."""

_FOREIGN_NAMESPACES = frozenset({"std", "cooperative_groups", "nvcuda", "cuda", *LIBRARY_NAMESPACES})
"""Namespaces that the headers of the compiler and the built-in ones declare."""


class Role(Enum):
    """Role of a declaration: device code, code that device code may use (`SHARED`), or host code."""

    DEVICE = auto()
    SHARED = auto()
    HOST = auto()


def device_code(
    files: Mapping[str, str], mentions: Iterable[str] = (), *, unmarked_members: bool = True
) -> dict[str, str]:
    """Remove host code from the files of one program: the source and its project headers, by name.

    Remaining characters keep their lines and columns. A declaration that one file mentions stays in all files, and so
    does one that `mentions` have, such as the names of kernels with template arguments. `unmarked_members` keeps member
    functions without a mark: to nvcc they are host code, but authors of programs for NVRTC may leave marks out.
    """
    tokens = {name: list(tokenise(text)) for name, text in files.items()}
    macros = _macros(token for items in tokens.values() for token in items)
    marks = _words_of(_DEVICE_WORDS, macros)
    host_marks = _words_of({"__host__"}, macros) - marks
    declared = {name: declarations(items, {m for m in macros if macros[m] & marks}) for name, items in tokens.items()}
    namespaces = _FOREIGN_NAMESPACES | {n for items in tokens.values() for n in _namespaces(items)}
    all_declarations = [d for items in declared.values() for d in items]
    naming = {name for name, body in macros.items() if body & {"typedef", "using"}}
    roles = {
        # A macro may build the names of the types that it declares.
        id(d): Role.DEVICE if d.outer[0].text in naming else classify_declaration(d, marks, namespaces)
        for d in all_declarations
    }
    named = set().union(*(words(list(tokenise(text))) for text in mentions))
    kept = _reachable(all_declarations, roles, macros, named)
    return {
        name: _blank(
            files[name],
            [
                part
                for d in items
                for part in ([*_host_members(d, marks, host_marks, unmarked_members)] if id(d) in kept else [d.tokens])
            ],
            tokens[name],
        )
        for name, items in declared.items()
    }


def classify_declaration(
    declaration: Declaration, marks: frozenset[str] = _DEVICE_WORDS, namespaces: Iterable[str] = ()
) -> Role:
    """Return the role of a declaration; the words in `marks` make it device code."""
    if words(list(declaration.head)) & marks:
        return Role.DEVICE
    outer = [token.text for token in declaration.outer]
    if outer[:2] == ["using", "namespace"]:
        of_device = set(namespaces).intersection(outer[2:]) and outer[2:4] != ["std", "::"]  # "std::chrono"
        return Role.DEVICE if of_device else Role.HOST
    if outer[0] == "using" and outer[1:3] == ["std", "::"] and "=" not in outer:
        return Role.DEVICE if _DEVICE_STANDARD_NAMES.intersection(outer[3:]) else Role.HOST
    if declaration.body is None and _is_reference(outer):
        return Role.DEVICE
    if "concept" in outer:
        return Role.SHARED
    constant = "constexpr" in outer or "consteval" in outer
    if declaration.body is not None:
        return Role.SHARED if constant else Role.HOST
    if outer[0] in ("typedef", "using", "namespace") or TYPE_WORDS & set(outer):
        return Role.SHARED
    return Role.SHARED if constant or "const" in outer else Role.HOST


def _is_reference(outer: list[str]) -> bool:
    """Return whether a declaration is that of a texture or surface reference: ``static texture<float, 2> image;``."""
    first = next((at for at, text in enumerate(outer) if text not in _STORAGE_WORDS), 0)
    return outer[first : first + 2] in (["texture", "<"], ["surface", "<"])


def _macros(tokens: Iterable[Token]) -> dict[str, set[str]]:
    """Return the words in the body of every macro, by the name of the macro."""
    found: dict[str, set[str]] = {}
    for token in tokens:
        if token.kind is TokenKind.DIRECTIVE:
            name, rest = directive(token)
            body = list(tokenise(rest)) if name == "define" else []
            if body:
                found.setdefault(body[0].text, set()).update(words(body[1:]))
    return found


def _words_of(marks: Iterable[str], macros: Mapping[str, set[str]]) -> frozenset[str]:
    """Return words with the macros that expand to one of them."""
    marks = set(marks)
    while True:
        more = {name for name, body in macros.items() if name not in marks and body & marks}
        if not more:
            return frozenset(marks)
        marks |= more


def _namespaces(tokens: list[Token]) -> set[str]:
    """Return the names of the namespaces that the tokens open, not only use."""
    triples = zip([None, *tokens], tokens, tokens[1:], strict=False)
    return {c.text for a, b, c in triples if b.text == "namespace" and (a is None or a.text != "using")}


def _reachable(
    everything: list[Declaration], roles: Mapping[int, Role], macros: Mapping[str, set[str]], mentioned: set[str]
) -> set[int]:
    """Return the ids of the declarations to keep: device code, and everything that it mentions, directly or not.

    What is `mentioned` elsewhere stays, too.
    """
    kept: set[int] = set()
    waiting = [(d, declared_names(d)) for d in everything if roles[id(d)] is Role.SHARED]
    added = [d for d in everything if roles[id(d)] is Role.DEVICE]
    while added:
        kept.update(id(d) for d in added)
        mentioned = mentioned | _with_macros(set().union(*(words(list(d.tokens)) for d in added)), macros)
        added = [d for d, names in waiting if names & mentioned]
        waiting = [(d, names) for d, names in waiting if not names & mentioned]
    return kept


def declared_names(declaration: Declaration) -> set[str]:
    """Return the names that a declaration may introduce; the result may include a type that it only uses."""
    texts = [token.text for token in declaration.outer]
    if "concept" in texts:
        return {b for a, b in pairwise(texts) if a == "concept"}
    if declaration.body is not None:
        head = declaration.head
        return {a.text for a, b in pairwise(head) if b.text == "(" and a.kind is TokenKind.WORD}
    if "enum" in texts:
        return words(list(declaration.tokens))
    if texts[0] == "typedef":
        alias = {*[t.text for t in declaration.outer if t.kind is TokenKind.WORD][-1:]}
        return (_pointers(declaration.tokens) or alias) | {b for a, b in pairwise(texts) if a in TYPE_WORDS}
    if texts[0] in ("using", "namespace"):
        return set(texts[1:2] if "=" in texts else [t.text for t in declaration.outer if t.kind is TokenKind.WORD][-1:])
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
    """Return the words, extended by the words in the bodies of macros among them."""
    pending = [word for word in mentioned if word in macros]
    while pending:
        more = macros[pending.pop()] - mentioned
        mentioned = mentioned | more
        pending += [word for word in more if word in macros]
    return mentioned


def _host_members(
    declaration: Declaration, marks: frozenset[str], host_marks: frozenset[str], unmarked: bool
) -> Iterator[Sequence[Token]]:
    """Yield the members of a type that are functions of the host alone, which NVRTC refuses.

    These are marked as such, or have no mark and use streams or strings. Unless `unmarked` ones stay, all without a
    mark are, except constant expressions.
    """
    inner = declaration.tokens[1 + next((at for at, t in enumerate(declaration.tokens) if t.text == "{"), -1) : -1]
    if not TYPE_WORDS & {token.text for token in declaration.outer}:
        return
    if unmarked and not words(list(inner)) & (_HOST_CLASSES | host_marks):
        return
    for member in declarations(list(inner)):
        head = words(list(member.head))
        is_function = member.body is not None or ("friend" in head and "(" in {t.text for t in member.head})
        is_host = is_function and (not unmarked or words(list(member.tokens)) & _HOST_CLASSES)
        if not head & marks and (head & host_marks or (is_host and "constexpr" not in head)):
            labelled = len(member.tokens) > 1 and member.tokens[1].text == ":"  # "public:"
            yield member.tokens[2 * labelled :]


def _blank(text: str, dropped: Iterable[Sequence[Token]], tokens: list[Token]) -> str:
    """Overwrite pieces of a text with spaces, except directives inside them."""
    characters = list(text)
    for piece in dropped:
        for at in range(piece[0].start, piece[-1].end):
            if characters[at] not in "\r\n":
                characters[at] = " "
    for token in tokens:
        if token.kind is TokenKind.DIRECTIVE:
            characters[token.start : token.end] = text[token.start : token.end]
    return "".join(characters)
