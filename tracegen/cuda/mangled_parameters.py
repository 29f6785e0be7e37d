"""Read the types of a kernel's parameters from its mangled name (Itanium C++ ABI)."""

from __future__ import annotations

import re

from tracegen.cuda.names import BUILTIN_TYPES, normalise

_MAX_DEPTH = 64
"""Maximum depth of nested types; deeper names are not read."""

_MAX_TYPE_CHARACTERS = 4096
"""Longest type as text: substitutions could double its length with every few characters of a name."""


class _UnreadableError(Exception):
    """A name with a part that is not supported."""


def parameter_types(name: str) -> list[str] | None:
    """Return the types of the parameters of a mangled function, such as ``const int*``; None for any other name.

    Types are in the spelling of `tracegen.cuda.names.normalise`. A name with a rare part, such as an expression among
    its template arguments, gives None.
    """
    if not name.startswith("_Z"):
        return None
    try:
        return _Reader(name[2:]).parameters()
    except _UnreadableError:
        return None


class _Reader:
    """Reader of one name from left to right, with the types and prefixes that substitutions (``S0_``) refer to."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._seen: list[str] = []
        self._template_arguments: list[str] = []

    def parameters(self) -> list[str]:
        """Return the types behind the name of the function."""
        template = self._function_name()
        types = []
        while self._at < len(self._text) and self._text[self._at] not in ".$":  # a suffix of the compiler
            types.append(self._type())
        if template:
            del types[:1]  # the result, which only the names of templates contain
        if types == ["void"]:
            return []
        if not types:
            raise _UnreadableError
        return [normalise(one) for one in types]

    # ---- text

    def _take(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern).match(self._text, self._at)
        if found:
            self._at = found.end()
        return found

    def _expect(self, pattern: str) -> re.Match[str]:
        found = self._take(pattern)
        if found is None:
            raise _UnreadableError
        return found

    def _remember(self, text: str) -> str:
        if len(text) > _MAX_TYPE_CHARACTERS:
            raise _UnreadableError
        self._seen.append(text)
        return text

    # ---- names

    def _function_name(self) -> bool:
        """Read the name of the function; return whether it has template arguments."""
        nested = self._take(r"N[rVK]*[RO]?") is not None
        name, template = "", False
        while True:
            if self._follows("I"):
                if not template:
                    self._remember(name)
                self._template_arguments, template = self._arguments(), True
            elif nested and self._take("E"):
                return template
            elif not name or nested:
                if name and not template:
                    self._remember(name)
                name, template = self._component(name), False
            else:
                return template

    def _component(self, prefix: str) -> str:
        if not prefix and self._text.startswith("S", self._at):
            return "std" if self._take("St") else self._substitution()
        self._take("L")
        name = self._source_name()
        return f"{prefix}::{name}" if prefix else name

    def _source_name(self) -> str:
        length = int(self._expect(r"[1-9]\d{0,3}")[0])
        name = self._text[self._at : self._at + length]
        if len(name) < length:
            raise _UnreadableError
        self._at += length
        return name

    def _substitution(self) -> str:
        number = self._expect(r"S([0-9A-Z]*)_")[1]
        index = int(number, 36) + 1 if number else 0
        if index >= len(self._seen):
            raise _UnreadableError
        return self._seen[index]

    def _arguments(self) -> list[str]:
        self._expect("I")
        found = []
        while not self._take("E"):
            literal = self._take(r"L([a-z])(n?)(\d+)E")
            found.append((literal[2] and "-") + literal[3] if literal else self._type())
        return found

    # ---- types

    def _type(self) -> str:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _UnreadableError
        found = self._read_type()
        self._depth -= 1
        return found

    def _read_type(self) -> str:
        text, at = self._text, self._at
        first = text[at : at + 1]
        if first in ("P", "R", "O"):
            self._at += 1
            return self._remember(self._type() + {"P": "*", "R": "&", "O": "&&"}[first])
        if qualifiers := self._take("[rVK]+"):
            inner = self._type()
            return self._remember(f"const {inner}" if "K" in qualifiers[0] and not inner.endswith("*") else inner)
        if parameter := self._take(r"T(\d*)_"):
            index = int(parameter[1]) + 1 if parameter[1] else 0
            if index >= len(self._template_arguments):
                raise _UnreadableError
            return self._remember(self._template_arguments[index])
        if extent := self._take(r"A(\d*)_"):
            return self._remember(f"{self._type()}[{extent[1]}]")
        if self._take("F"):
            while not self._take("E"):
                self._type()
            return self._remember("function")
        if self._take("Dh|DF16_"):
            return "half"
        if first == "N" or first.isdigit() or text.startswith("St", at):
            return self._class()
        if first == "S":
            known = self._substitution()
            return self._remember(f"{known}<{','.join(self._arguments())}>") if self._follows("I") else known
        builtin = self._expect("[a-z]")[0]
        if builtin not in BUILTIN_TYPES:
            raise _UnreadableError
        return BUILTIN_TYPES[builtin]

    def _follows(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _class(self) -> str:
        nested = self._take("N") is not None
        known = self._follows("S")  # a substitution, or std, which has a code of its own
        name = self._component("")
        if name == "std":
            name, known = self._component(name), False
        while self._follows("I") or (nested and not self._follows("E")):
            if not known:
                self._remember(name)
            name = f"{name}<{','.join(self._arguments())}>" if self._follows("I") else self._component(name)
            known = False
        if nested:
            self._expect("E")
        return self._remember(name)
