"""Kernels by name: tools write the same one demangled, with types and parameters, or mangled (Itanium C++ ABI)."""

from __future__ import annotations

import re

_ANONYMOUS = ("(anonymous namespace)::", "<unnamed>::")
_QUALIFIERS = re.compile(r"[rVKRO]*")
_LENGTH = re.compile(r"\d{1,4}")
_SUBSTITUTION = re.compile(r"S(?:t|[0-9A-Z]*_)")
_ARGUMENT = re.compile(r"L[a-z][0-9a-fn]*E|[ST][0-9A-Z]*_|St|D[a-z]|A\d*_|.")
"""A part of template arguments: a literal, what was named before, a parameter, a type of two letters, or of one."""

_OPENING = frozenset("INXJF")


def without_parameters(kernel: str) -> str:
    """Return a demangled name up to its parameters."""
    depth = 0
    for at, character in enumerate(kernel):
        if character == "(" and not depth and not kernel.startswith(_ANONYMOUS[0], at):
            return kernel[:at]
        depth += (character == "<") - (character == ">")
    return kernel


def base_name(kernel: str) -> str:
    """Return a kernel's name without return type, namespaces, template arguments and parameters.

    Of a mangled name it is what the source calls the kernel, too (``_ZN2ns5scaleIfEEvPT_``: ``scale``); one that is not
    understood is returned as it is.
    """
    if kernel.startswith("_Z"):
        return _mangled(kernel) or kernel
    for namespace in _ANONYMOUS:
        kernel = kernel.replace(namespace, "")
    depth, plain = 0, ""
    for character in without_parameters(kernel):
        depth += (character == "<") - (character == ">")
        plain += "" if depth or character == ">" else character
    return (plain.split() or [kernel])[-1].split("::")[-1]


def _mangled(kernel: str) -> str | None:
    """Return the last identifier of a mangled name, None for one that is not understood."""
    at = 3 if kernel.startswith("_ZL") else 2
    if not kernel.startswith("N", at):
        return _identifier(kernel, at)[0]
    found = _QUALIFIERS.match(kernel, at + 1)
    assert found is not None
    at, name = found.end(), None
    while at < len(kernel) and kernel[at] != "E":
        if kernel[at] == "I":
            at = _behind_arguments(kernel, at + 1)
        elif found := _SUBSTITUTION.match(kernel, at):
            at = found.end()
        else:
            name, at = _identifier(kernel, at)
    return name if at < len(kernel) else None


def _identifier(kernel: str, at: int) -> tuple[str | None, int]:
    """Return the identifier that stands there after its length, and where it ends; None if there is none."""
    found = _LENGTH.match(kernel, at)
    end = len(kernel) + 1 if found is None else found.end() + int(found[0])
    if found is None or end > len(kernel):
        return None, len(kernel)
    return kernel[found.end() : end], end


def _behind_arguments(kernel: str, at: int) -> int:
    """Return where the template arguments that begin there end, or the end of the name."""
    depth = 1
    while depth and at < len(kernel):
        if kernel[at].isdecimal():
            at = _identifier(kernel, at)[1]
            continue
        found = _ARGUMENT.match(kernel, at)
        if found is None:
            return len(kernel)
        depth += (found[0] in _OPENING) - (found[0] == "E")
        at = found.end()
    return at
