"""Flatten the nested scopes of one function into one set of names.

A name that is declared again in another scope gets a suffix ``#2``, ``#3`` ...; no PTX name contains ``#``. Parameters
and registers of a closed scope are reused for declarations of the same form, because call sequences declare ``param0``
repeatedly.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from tracegen.ptx.syntax.ast import Name, Register, Variable
from tracegen.ptx.syntax.lexer import Cursor

MAX_SCOPE_DEPTH = 100
"""Maximum depth of nested scopes of a function."""

_Form = tuple[str, str, str, int | None, int]
"""Name, space, type, count and alignment of a declaration."""


class NameScope:
    """The declarations inside one pair of braces: names, labels, and forms that can be reused after it."""

    __slots__ = ("forms", "labels", "names", "parent")

    def __init__(self, parent: NameScope | None) -> None:
        self.parent = parent
        self.names: dict[str, Register | Name] = {}
        self.labels: dict[str, str] = {}
        self.forms: list[tuple[_Form, str]] = []

    def find(self, name: str) -> Register | Name | None:
        """Return the register or symbol that `name` denotes in this scope or an enclosing one, else None."""
        scope: NameScope | None = self
        while scope is not None:
            if (found := scope.names.get(name)) is not None:
                return found
            scope = scope.parent
        return None

    def find_label(self, name: str) -> str | None:
        """Return the flat name of the label `name`, or None."""
        scope: NameScope | None = self
        while scope is not None:
            if (found := scope.labels.get(name)) is not None:
                return found
            scope = scope.parent
        return None


class FunctionNames:
    """The declarations of one function; `symbols` are the names of the module, which nested names must not hide."""

    def __init__(self, cursor: Cursor, *symbols: Container[str]) -> None:
        self.scope = NameScope(None)
        self.depth = 0
        self.registers: dict[str, str] = {}
        self.variables: dict[str, Variable] = {}
        self._cursor = cursor
        self._symbols = symbols
        self._free: dict[_Form, list[str]] = {}
        self._copies: dict[str, int] = {}

    def declare_parameter(self, variable: Variable) -> None:
        """Declare a parameter or result of the function under its own name."""
        if variable.name in self.scope.names:
            self._cursor.refuse(f"expected one parameter {variable.name!r}, found another")
        self._copies[variable.name] = 1
        if variable.space == "reg":
            self.registers[variable.name] = variable.type
            self.scope.names[variable.name] = Register(variable.name)
        else:
            self.scope.names[variable.name] = Name(variable.name)

    def declare_register(self, name: str, kind: str) -> None:
        """Declare a register of the type `kind` in the innermost scope."""
        flat = self._declare(name, (name, "reg", kind, None, 0))
        self.registers[flat] = kind
        self.scope.names[name] = Register(flat)

    def declare_variable(self, variable: Variable) -> None:
        """Declare a variable in the innermost scope."""
        name, space = variable.name, variable.space
        form = (name, space, variable.type, variable.count, variable.alignment) if space == "param" else None
        flat = self._declare(name, form)
        self.variables.setdefault(flat, variable if flat == name else replace(variable, name=flat))
        self.scope.names[name] = Name(flat)

    def declare_label(self, name: str) -> str:
        """Declare a label or table in the innermost scope; return its flat name."""
        if name in self.scope.labels:
            self._cursor.refuse(f"expected one label {name!r} in its scope, found another")
        # Labels and variables are numbered separately: a blank in the key keeps them apart.
        copies = self._copies[" " + name] = self._copies.get(" " + name, 0) + 1
        flat = self.scope.labels[name] = name if copies == 1 else f"{name}#{copies}"
        return flat

    def enter(self) -> None:
        """Open a scope."""
        if self.depth == MAX_SCOPE_DEPTH:
            self._cursor.refuse(f"expected at most {MAX_SCOPE_DEPTH} nested scopes")
        self.depth += 1
        self.scope = NameScope(self.scope)

    def leave(self) -> bool:
        """Close the innermost scope; return False if it was the function's own."""
        if self.scope.parent is None:
            return False
        for form, flat in self.scope.forms:
            self._free.setdefault(form, []).append(flat)
        self.depth -= 1
        self.scope = self.scope.parent
        return True

    def _declare(self, name: str, form: _Form | None) -> str:
        if name in self.scope.names:
            self._cursor.refuse(f"expected one declaration of {name!r} in its scope, found another")
        free = self._free.get(form) if form else None
        flat = free.pop() if free else self._number(name)
        if form and self.depth:
            self.scope.forms.append((form, flat))
        return flat

    def _number(self, name: str) -> str:
        taken = self._copies.get(name, int(any(name in symbols for symbols in self._symbols)))
        self._copies[name] = taken + 1
        return f"{name}#{taken + 1}" if taken else name
