"""Link translation units: join their symbols into one module, as nvlink does for relocatable device code.

A symbol with linkage is one symbol in all units, and its definition replaces the declarations of others. Symbols
without linkage belong to their unit: those whose names other units use get the suffix ``@2``, ``@3`` ..., which no PTX
name contains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tracegen.ptx.syntax.ast import Address, Function, Instruction, Module, Name, Operand, Variable, Vector

_Symbol = TypeVar("_Symbol", Variable, Function)


class LinkError(Exception):
    """Two units define one symbol: its name, and the line of the second definition."""

    def __init__(self, name: str, line: int) -> None:
        super().__init__(name)
        self.name, self.line = name, line


def link_units(units: Sequence[Module]) -> Module:
    """Return the module that units make together, with the version and target of the first one.

    The numbers of source files must be unique. Raises `LinkError`.
    """
    variables: dict[str, Variable] = {}
    functions: dict[str, Function] = {}
    files: dict[int, str] = {}
    shared = {name for unit in units for name in _symbols(unit) if not _is_local(unit, name)}
    for number, unit in enumerate(units, 1):
        taken = shared | variables.keys() | functions.keys()
        names = {name: f"{name}@{number}" for name in _symbols(unit) if _is_local(unit, name) and name in taken}
        for variable in unit.variables.values():
            _add(variables, _renamed_variable(variable, names))
        for function in unit.functions.values():
            _add(functions, _renamed_function(function, names) if names else function)
        files |= unit.files
    first = units[0]
    directives = tuple(dict.fromkeys(directive for unit in units for directive in unit.directives))
    return replace(
        first,
        variables=variables,
        functions=functions,
        files=files,
        directives=directives,
        relocatable=first.relocatable or len(units) > 1,
    )


def _symbols(unit: Module) -> list[str]:
    return [*unit.variables, *unit.functions]


def _is_local(unit: Module, name: str) -> bool:
    symbol = unit.variables.get(name) or unit.functions[name]
    return not symbol.linkage and not (isinstance(symbol, Function) and symbol.body is None)


def _add(symbols: dict[str, _Symbol], symbol: _Symbol) -> None:
    """Add a symbol; a definition replaces a declaration, and a strong one a weak one."""
    earlier = symbols.get(symbol.name)
    if earlier is None or _rank(symbol) > _rank(earlier):
        symbols[symbol.name] = symbol
    elif _rank(symbol) == _rank(earlier) == _STRONG:
        raise LinkError(symbol.name, symbol.line)


_STRONG = 2


def _rank(symbol: Variable | Function) -> int:
    """Return 0 for a declaration, 1 for a weak definition and 2 for a strong one."""
    if symbol.body is None if isinstance(symbol, Function) else symbol.extern:
        return 0
    return 1 if symbol.linkage in ("weak", "common") else _STRONG


# ---- other names for the symbols of a unit


def _renamed_variable(variable: Variable, names: Mapping[str, str]) -> Variable:
    addresses = {at: names.get(symbol, symbol) for at, symbol in variable.addresses.items()}
    return replace(variable, name=names.get(variable.name, variable.name), addresses=addresses)


def _renamed_function(function: Function, names: Mapping[str, str]) -> Function:
    # Names that a function declares itself differ from those of its module (`scopes`), or are its own.
    own = {variable.name for variable in (*function.parameters, *function.results, *function.variables)}
    used = {name: new for name, new in names.items() if name not in own}
    body = function.body and tuple(_renamed_instruction(instruction, used) for instruction in function.body)
    tables = {label: tuple(used.get(name, name) for name in targets) for label, targets in function.tables.items()}
    return replace(function, name=names.get(function.name, function.name), body=body, tables=tables)


def _renamed_instruction(instruction: Instruction, names: Mapping[str, str]) -> Instruction:
    operands = tuple(_renamed(operand, names) for operand in instruction.operands)
    return instruction if operands == instruction.operands else replace(instruction, operands=operands)


def _renamed(operand: Operand, names: Mapping[str, str]) -> Operand:
    if isinstance(operand, Name):
        return Name(names[operand.name]) if operand.name in names else operand
    if isinstance(operand, Address) and isinstance(operand.base, Name) and operand.base.name in names:
        return replace(operand, base=Name(names[operand.base.name]))
    if isinstance(operand, Vector):
        return Vector(tuple(item and _renamed(item, names) for item in operand.items))
    return operand
