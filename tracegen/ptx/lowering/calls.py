"""Find the functions that the calls of a kernel reach, through pointers too, and the addresses of functions."""

from __future__ import annotations

from collections.abc import Iterator

from tracegen.ptx.lowering.program import type_bytes
from tracegen.ptx.syntax.ast import Function, Instruction, Module, Name, Variable, Vector

_ADDRESS_STEP = 8
"""Distance of the addresses of functions. They are small numbers, as on GPUs, and no address of memory."""

MOST_POINTED = 64
"""Maximum number of functions that a call through a pointer may choose from."""


def function_addresses(module: Module) -> dict[str, int]:
    """Return the address of each function of a module, by name."""
    return {name: _ADDRESS_STEP * (at + 1) for at, name in enumerate(module.functions)}


def call_parts(instruction: Instruction) -> tuple[str | None, tuple[object, ...], tuple[object, ...]]:
    """Return the name of the callee (None: a register), the results and the arguments of a call."""
    operands = list(instruction.operands)
    results = operands.pop(0) if operands and isinstance(operands[0], Vector) else Vector(())
    callee = operands.pop(0) if operands else None
    arguments = operands[0] if operands else None
    given = arguments.items if isinstance(arguments, Vector) else ()
    return (
        callee.name if isinstance(callee, Name) else None,
        results.items if isinstance(results, Vector) else (),
        given,
    )


class CallGraph:
    """The functions that the calls of a kernel reach, callees first in `order`, and their addresses by name.

    `recursive` has the calls (caller, callee) of functions that have not returned.
    """

    def __init__(self, module: Module, kernel: Function) -> None:
        self._functions = module.functions
        self.addresses = function_addresses(module)
        self._taken = _taken_addresses(module)
        self.order: list[Function] = []
        self.recursive: set[tuple[str, str]] = set()
        self._visit(kernel)

    def pointed(self, function: Function, instruction: Instruction) -> list[Function]:
        """Return the functions that a call through a pointer may call.

        They are those of its list of targets, or else those whose address the module takes, with parameters and
        results of the sizes that the call passes.
        """
        _, results, arguments = call_parts(instruction)
        last = instruction.operands[-1] if instruction.operands else None
        listed = function.tables.get(last.name, ()) if isinstance(last, Name) else ()
        found = [self._functions[name] for name in listed or self._taken if name in self._functions]
        sizes = _frame_sizes(function, results), _frame_sizes(function, arguments)
        return [
            callee
            for callee in found
            if callee.body is not None and all(map(_fits, sizes, (callee.results, callee.parameters)))
        ]

    def _visit(self, kernel: Function) -> None:
        state = {kernel.name: False}
        stack = [(kernel, self._callees(kernel))]
        while stack:
            function, callees = stack[-1]
            callee = next(callees, None)
            if callee is None:
                stack.pop()
                self.order.append(function)
                state[function.name] = True
            elif callee.name not in state:
                state[callee.name] = False
                stack.append((callee, self._callees(callee)))
            elif not state[callee.name]:
                self.recursive.add((function.name, callee.name))

    def _callees(self, function: Function) -> Iterator[Function]:
        for instruction in function.body or ():
            if instruction.opcode == "call":
                name = call_parts(instruction)[0]
                if name is None:
                    yield from self.pointed(function, instruction)[:MOST_POINTED]
                elif name in self._functions and self._functions[name].body is not None:
                    yield self._functions[name]


def _taken_addresses(module: Module) -> list[str]:
    """Return the names of the functions whose address an initial value or an instruction other than a call takes."""
    names = {symbol for variable in module.variables.values() for symbol in variable.addresses.values()}
    for function in module.functions.values():
        for instruction in function.body or ():
            if instruction.opcode != "call":
                names.update(operand.name for operand in instruction.operands if isinstance(operand, Name))
    return [name for name, function in module.functions.items() if name in names and not function.entry]


def _frame_sizes(function: Function, names: tuple[object, ...]) -> list[int | None]:
    """Return the bytes of the parameters that a call passes; None for a register."""
    variables = {variable.name: _bytes(variable) for variable in function.variables}
    return [variables.get(name.name) if isinstance(name, Name) else None for name in names]


def _fits(sizes: list[int | None], variables: tuple[Variable, ...]) -> bool:
    return len(sizes) == len(variables) and all(
        size is None or size == _bytes(variable) for size, variable in zip(sizes, variables, strict=True)
    )


def _bytes(variable: Variable) -> int:
    return type_bytes(variable.type) * (1 if variable.count is None else variable.count)
