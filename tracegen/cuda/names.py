"""Find kernels by their source names: ``saxpy`` for ``_Z5saxpyifPfS_``, ``f<int>`` for ``_Z1fIiEvPT_``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rdmodel.errors import ConfigError, unknown

BUILTIN_TYPES = {
    "v": "void",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "f": "float",
    "d": "double",
}
"""Built-in types by their letters in mangled names."""

_SYNONYMS = (
    (r"\bunsigned long long int\b|\buint64_t\b", "unsigned long long"),
    (r"\blong long int\b|\bint64_t\b", "long long"),
    (r"\bunsigned long int\b|\bsize_t\b", "unsigned long"),
    (r"\blong int\b", "long"),
    (r"\bunsigned short int\b", "unsigned short"),
    (r"\bshort int\b", "short"),
    (r"\bunsigned(?! (?:int|long|short|char))\b|\buint(?:32_t)?\b", "unsigned int"),
    (r"\bint32_t\b", "int"),
    (r"\b(\d+)[uUlL]+\b", r"\1"),
)


def find_kernel(
    kernels: Sequence[str], wanted: str | None, *, lowered: Mapping[str, str] | None = None, hints: Iterable[str] = ()
) -> str:
    """Return the PTX name among `kernels` that the name `wanted` denotes; None denotes the only kernel.

    `wanted` is a PTX name, a C++ expression that the compiler resolved (`lowered`), or a C++ name, with or without
    namespaces and template arguments, that only one kernel has. `hints` are further names for suggestions. Raises
    `ConfigError` with the choices if no kernel or more than one matches.
    """
    if wanted is None:
        if len(kernels) == 1:
            return kernels[0]
        raise ConfigError(
            _choice("there are several kernels; name one", kernels) if kernels else "the module has no kernel"
        )
    if lowered and wanted in lowered:
        return lowered[wanted]
    if wanted in kernels:
        return wanted
    normalised = normalise(wanted)
    for spelling in (lambda name: name, _unqualified, lambda name: _unqualified(name).partition("<")[0]):
        matches = [kernel for kernel in kernels if spelling(demangle(kernel)) == normalised]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise ConfigError(_choice(f"kernel {wanted!r} is ambiguous; name one", matches))
    raise ConfigError(unknown("kernel", wanted, dict.fromkeys([*map(demangle, kernels), *hints])))


def normalise(name: str) -> str:
    """Return a C++ name in canonical spelling: ``f<unsigned, 8u>`` becomes ``f<unsigned int,8>``."""
    text = re.sub(r"\s+", " ", name.strip())
    for pattern, plain in _SYNONYMS:
        text = re.sub(pattern, plain, text)
    return re.sub(r" ?([<>,*&:()]) ?", r"\1", text)


def demangle(name: str) -> str:
    """Return the C++ name of a mangled name, with template arguments, in the spelling of `normalise`.

    Supports Itanium names of functions and of templates over built-in types, user types, pointers and whole numbers.
    Rarer template arguments are left out. A name that is not mangled is returned unchanged.
    """
    if not name.startswith("_Z"):
        return name
    parts = _Mangled(name[2:]).name()
    return normalise("::".join(parts)) if parts else name


class _Mangled:
    """Parser of a mangled name, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def _take(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern).match(self._text, self._at)
        if found:
            self._at = found.end()
        return found

    def name(self) -> list[str]:
        """Parse the name and return its components."""
        nested = self._take(r"N[rVK]*[RO]?")
        parts: list[str] = []
        while True:
            self._take("L")  # a static function
            length = self._take(r"[1-9]\d{0,3}")
            if length is None:
                break
            word = self._text[self._at : self._at + int(length[0])]
            if len(word) < int(length[0]):
                return []
            self._at += len(word)
            self._take(r"B\d+\w+")
            arguments = self._arguments()
            if not word.startswith(("_INTERNAL_", "_GLOBAL__N")):
                parts.append(word + arguments)
            if nested is None:
                break
        return parts

    def _arguments(self) -> str:
        begin = self._at
        if not self._take("I"):
            return ""
        found = []
        while not self._take("E"):
            argument = self._argument()
            if argument is None:
                self._at = begin
                return ""
            if argument:
                found.append(argument)
        return "<" + ",".join(found) + ">"

    def _argument(self) -> str | None:
        literal = self._take(r"L([a-z])(n?)(\d+)E")
        if literal:
            number = ("-" if literal[2] else "") + literal[3]
            return {"0": "false", "1": "true"}.get(number, number) if literal[1] == "b" else number
        if self._take("J"):  # a pack
            pack = []
            while not self._take("E"):
                argument = self._argument()
                if argument is None:
                    return None
                pack.append(argument)
            return ",".join(pack)
        return self._type()

    def _type(self) -> str | None:
        if self._take("P"):
            inner = self._type()
            return None if inner is None else inner + "*"
        if self._take("K"):
            inner = self._type()
            return None if inner is None else "const " + inner
        if self._text[self._at : self._at + 1].isdigit() or self._text[self._at : self._at + 1] == "N":
            nested = self._text[self._at] == "N"
            parts = self.name()
            if nested and not self._take("E"):
                return None
            return "::".join(parts) or None
        builtin = self._take("[a-z]")
        return BUILTIN_TYPES.get(builtin[0]) if builtin else None


def _unqualified(name: str) -> str:
    """Return the last component of a name, template arguments included."""
    depth = 0
    for at in range(len(name) - 1, 0, -1):
        depth += (name[at] == ">") - (name[at] == "<")
        if depth == 0 and name[at - 1 : at + 1] == "::":
            return name[at + 1 :]
    return name


def _choice(question: str, kernels: Sequence[str]) -> str:
    source_names = [demangle(kernel) for kernel in kernels]
    distinct = len(set(source_names)) == len(source_names)
    return f"{question}: " + ", ".join(source_names if distinct else kernels)
