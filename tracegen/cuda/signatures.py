"""Find the signatures of kernels in CUDA source; PTX does not contain the names of parameters."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from rdmodel.common.late_dataclass import dataclass
from tracegen.cuda.cpp_declarations import ATTRIBUTES, Declaration, declarations
from tracegen.cuda.names import normalise
from tracegen.cuda.tokens import Token, TokenKind, directive, tokenise, words

_KEYWORDS = """
    void bool char short int long float double signed unsigned const volatile restrict __restrict__ __restrict struct
    class enum union typename __grid_constant__ size_t
"""
_NO_NAMES = words(list(tokenise(_KEYWORDS)))
"""Words that are not the name of a parameter at the end of its declaration."""


_QUALIFIERS = words(list(tokenise("const volatile restrict __restrict__ __restrict struct class __grid_constant__")))
"""Words of a declaration that do not change the elements of an array."""

_NO_FUNCTION_NAMES = ATTRIBUTES | {"noexcept", "throw", "decltype"}
"""Words before a parenthesis that is not a list of parameters."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A ``__global__`` function: its name, the names of its parameters (None: unnamed), whether it is a template.

    `types` are the types of the parameters such as ``const int*`` (None: too complex to read). `example` names an
    instance of a template, such as ``scale<float,16>`` (None: not a template, or one whose parameters are too complex).
    `defined` tells whether the function has a body.
    """

    name: str
    parameters: tuple[str | None, ...]
    types: tuple[str | None, ...]
    template: bool
    line: int
    example: str | None = None
    defined: bool = True


def signatures(source: str) -> list[Signature]:
    """Return the ``__global__`` functions of `source` in order: definitions, and declarations without a definition."""
    tokens = list(tokenise(source))
    kernels = [d for d in declarations(tokens) if words(list(d.head)) & _kernel_words(tokens)]
    candidates = [(d, _signature(d, source)) for d in kernels]
    defined = {s.name for d, s in candidates if d.body is not None and s is not None}
    return [s for d, s in candidates if s is not None and (d.body is not None or s.name not in defined)]


def find_launched_kernels(source: str) -> list[str]:
    """Return the kernels that host code launches, as written: ``scale<float>`` in ``scale<float><<<8, 32>>>(x)``."""
    tokens = list(tokenise(source))
    names: list[str] = []
    for at, token in enumerate(tokens):
        if token.text == "<<<" and at:
            name = _expression(tokens, at - 1)
            if name and name not in names:
                names.append(name)
    return names


def _expression(tokens: list[Token], end: int) -> str:
    begin = end
    if tokens[end].text == ">":
        depth = 0
        while begin >= 0:
            depth += (tokens[begin].text == ">") - (tokens[begin].text == "<")
            if depth == 0:
                break
            begin -= 1
        begin -= 1
    while begin >= 2 and tokens[begin - 1].text == "::":
        begin -= 2
    if begin < 0 or tokens[begin].kind is not TokenKind.WORD:
        return ""
    return "".join(token.text for token in tokens[begin : end + 1])


def _kernel_words(tokens: Iterable[Token]) -> set[str]:
    """Return the words that make a function a kernel: ``__global__`` and macros that expand to it."""
    kernel_words = {"__global__"}
    for token in tokens:
        if token.kind is TokenKind.DIRECTIVE and "__global__" in token.text:
            name, rest = directive(token)
            body = list(tokenise(rest))
            if name == "define" and len(body) > 1 and body[1].text != "(":
                kernel_words.add(body[0].text)
    return kernel_words


def _signature(declaration: Declaration, source: str) -> Signature | None:
    head = list(declaration.head)
    opening = _parameter_list(head)
    if opening is None:
        return None
    name, groups, depth = head[opening - 1], [[]], 0  # type: tuple[Token, list[list[Token]], int]
    for token in head[opening + 1 :]:
        if depth == 0 and token.text == ")":
            break
        depth += (token.text in ("(", "[", "{", "<")) - (token.text in (")", "]", "}", ">"))
        if depth == 0 and token.text == ",":
            groups.append([])
        else:
            groups[-1].append(token)
    empty = len(groups) == 1 and [token.text for token in groups[0]] in ([], ["void"])
    return Signature(
        name=name.text,
        parameters=() if empty else tuple(_parameter(group) for group in groups),
        types=() if empty else tuple(_type(group) for group in groups),
        template=_is_template(head),
        line=source.count("\n", 0, name.start) + 1,
        example=_example_instance(name.text, head) if _is_template(head) else None,
        defined=declaration.body is not None,
    )


def _is_template(head: list[Token]) -> bool:
    return head[0].text == "template" and head[1].text == "<" and head[2].text != ">"


def _example_instance(name: str, head: list[Token]) -> str | None:
    """Return an instance of a template: ``float`` for types, small numbers for the rest, up to the first default."""
    groups: list[list[str]] = [[]]
    depth = 0
    for token in head[1:]:
        depth += token.text.count("<") - (token.text.count(">") if token.text != "->" else 0)
        if depth <= 0:
            break
        if depth == 1 and token.text == ",":
            groups.append([])
        elif depth > 1 or token.text != "<":
            groups[-1].append(token.text)
    arguments = []
    for group in groups:
        if "=" in group or "." in group:  # a default, or a pack
            break
        if group[0] == "template":
            return None
        plain = group[0] in ("typename", "class") and len(group) <= 2
        arguments.append("float" if plain else "true" if "bool" in group else "16")
    return f"{name}<{','.join(arguments)}>"


def _parameter_list(head: list[Token]) -> int | None:
    """Return the index of the parenthesis that opens the parameters: the last one after a name.

    Earlier ones belong to macros before the name, such as ``__global__ void LAUNCH_BOUNDS(256) name(int *x)``.
    """
    depth, found = 0, None
    for at, token in enumerate(head):
        before = head[at - 1] if at else None
        named = before is not None and before.kind is TokenKind.WORD and before.text not in _NO_FUNCTION_NAMES
        if named and token.text == "(" and depth == 0:
            found = at
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
    return found


def _parameter(tokens: list[Token]) -> str | None:
    texts = [token.text for token in tokens]
    if "=" in texts:
        tokens = tokens[: texts.index("=")]
    for before, token in pairwise(tokens):
        if before.text == "*" and token.kind is TokenKind.WORD and "(" in texts[: texts.index("*") + 1]:
            return token.text  # float (*f)(float)
    found = [token.text for token in tokens if token.kind is TokenKind.WORD]
    return found[-1] if len(found) > 1 and found[-1] not in _NO_NAMES else None


def _type(tokens: list[Token]) -> str | None:
    """Return the type of a parameter, such as ``const int*``; None for one with brackets or references."""
    texts = [token.text for token in tokens]
    if "=" in texts:
        texts = texts[: texts.index("=")]
    while len(texts) > 2 and texts[-1] == "]" and texts[-3] == "[":  # float x[16] is a pointer
        texts = [*texts[:-4], "*", texts[-4]]
    if len(texts) > 1 and texts[-2:] == ["[", "]"]:
        texts = [*texts[:-3], "*", *texts[-3:-2]]
    name = _parameter(tokens)
    if name is not None:
        texts = texts[:-1]
    constant = "*" in texts and "const" in texts[: texts.index("*")]
    texts = [text for text in texts if text not in _QUALIFIERS]
    if not texts or not all(text == "*" or text.isidentifier() or text == "::" for text in texts):
        return None
    stars = texts.count("*")
    base = normalise(" ".join(texts[: len(texts) - stars]).replace(" :: ", "::"))
    return None if "*" in base else "const " * constant + base + "*" * stars
