"""Reduce kernel names to a common form.

Tools write the name of one kernel differently: demangled, with types and parameters, or mangled (Itanium C++ ABI).
"""

from __future__ import annotations

import re

_ANONYMOUS = ("(anonymous namespace)::", "<unnamed>::")
_QUALIFIERS = re.compile(r"[rVKRO]*")
_LENGTH = re.compile(r"\d{1,4}")
_SUBSTITUTION = re.compile(r"S(?:t|[0-9A-Z]*_)")
_ARGUMENT = re.compile(r"L[a-z][0-9a-fn]*E|[ST][0-9A-Z]*_|St|D[a-z]|A\d*_|.")
"""One part of mangled template arguments: a literal, a substitution, a parameter, or a type of one or two letters."""

_NESTING = frozenset("INXJF")
"""Codes that open a nested part, which ``E`` closes."""


def without_parameters(kernel: str) -> str:
    """Return a demangled name without its parameter list."""
    depth = 0
    for at, character in enumerate(kernel):
        if character == "(" and not depth and not kernel.startswith(_ANONYMOUS[0], at):
            return kernel[:at]
        depth += (character == "<") - (character == ">")
    return kernel


def base_name(kernel: str) -> str:
    """Return a kernel's name without return type, namespaces, template arguments and parameters.

    A mangled name is reduced to the identifier in the source (``_ZN2ns5scaleIfEEvPT_`` to ``scale``). A name that
    cannot be parsed is returned unchanged.
    """
    if kernel.startswith("_Z"):
        return _parse_mangled(kernel) or kernel
    for namespace in _ANONYMOUS:
        kernel = kernel.replace(namespace, "")
    depth, plain = 0, ""
    for character in without_parameters(kernel):
        depth += (character == "<") - (character == ">")
        plain += "" if depth or character == ">" else character
    return (plain.split() or [kernel])[-1].split("::")[-1]


def _parse_mangled(kernel: str) -> str | None:
    """Return the last identifier of a mangled name; None if the name cannot be parsed."""
    at = 3 if kernel.startswith("_ZL") else 2
    if not kernel.startswith("N", at):
        return _parse_identifier(kernel, at)[0]
    match = _QUALIFIERS.match(kernel, at + 1)
    assert match is not None
    at, name = match.end(), None
    while at < len(kernel) and kernel[at] != "E":
        if kernel[at] == "I":
            at = _skip_arguments(kernel, at + 1)
        elif match := _SUBSTITUTION.match(kernel, at):
            at = match.end()
        else:
            name, at = _parse_identifier(kernel, at)
    return name if at < len(kernel) else None


def _parse_identifier(kernel: str, at: int) -> tuple[str | None, int]:
    """Return the length-prefixed identifier at index `at` (None if there is none) and the index after it."""
    length = _LENGTH.match(kernel, at)
    end = len(kernel) + 1 if length is None else length.end() + int(length[0])
    if length is None or end > len(kernel):
        return None, len(kernel)
    return kernel[length.end() : end], end


def _skip_arguments(kernel: str, at: int) -> int:
    """Return the index after the template arguments that begin at `at`, at most the end of the name."""
    depth = 1
    while depth and at < len(kernel):
        if kernel[at].isdecimal():
            at = _parse_identifier(kernel, at)[1]
            continue
        part = _ARGUMENT.match(kernel, at)
        if part is None:
            return len(kernel)
        depth += (part[0] in _NESTING) - (part[0] == "E")
        at = part.end()
    return at
