"""Lower a kernel of a module: registers become slots, labels become step numbers, calls become copies and jumps.

Callees lie before their callers, so that threads in a function finish it before others continue. Every function has one
set of registers and one return slot. It cannot call itself: a recursive call is an error when it is executed. A call
through a pointer compares the pointer with the addresses of all functions that it may call.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tracegen.ptx.isa._code import COMPARISONS
from tracegen.ptx.lowering.block_codes import block_codes
from tracegen.ptx.lowering.calls import MOST_POINTED, CallGraph, call_parts
from tracegen.ptx.lowering.machine_code import MachineCode
from tracegen.ptx.lowering.opcodes import OPCODE_RULES
from tracegen.ptx.lowering.program import NO_SLOT, PTX_TYPES, Constant, LoweredKernel, Step, type_bytes
from tracegen.ptx.lowering.tensor_maps import mark_whole_maps
from tracegen.ptx.lowering.translation import FunctionScope, Translation
from tracegen.ptx.lowering.unrolling import unroll_inner_loops
from tracegen.ptx.lowering.vectors import merge_accesses
from tracegen.ptx.syntax.ast import Function, Instruction, Module, Name, Variable

_IGNORED_CALLS = ("vprintf",)
"""Functions of the device runtime whose calls have no effect here."""

_ASSERTION = "__assertfail"
"""Function that ``assert`` calls if its condition does not hold."""

REFERENCE_MARK = b"REFERENC"
"""Initial value of a texture reference, which the built-in header declares as an object of 8 bytes."""

_REFERENCE_TYPES = ("texref", "surfref")

_SHARED_ALIGNMENT = 16
"""Bytes."""


def lower_kernel(
    module: Module,
    kernel: str,
    addresses: Mapping[str, int],
    parameters: int,
    *,
    clustered: bool = False,
    architecture: int | None = None,
    keeps_arrays: bool = False,
) -> LoweredKernel:
    """Lower `kernel` of `module`.

    `addresses` are the device addresses of the module's variables. `parameters` is the device address of the kernel's
    parameters, for code that takes their address. If the launch is `clustered`, addresses in shared memory depend on
    the block. Loops are unrolled as the assembler does for an `architecture`, by default that of the module. If the
    assembler `keeps_arrays` in registers, accesses to local memory are moves. Raises `TraceError` for code that no
    launch can execute, such as a jump to a missing label.
    """
    architecture = module.architecture if architecture is None else architecture
    lowering = _Lowering(module, module.functions[kernel], addresses, parameters, clustered, architecture)
    lowering.keep_arrays(keeps_arrays)
    return lowering.run()


def lay_out(variables: tuple[Variable, ...]) -> tuple[list[int], int]:
    """Return the offset of every variable and the total bytes; variables have their declared or natural alignment."""
    offsets, end = [], 0
    for variable in variables:
        alignment = variable.alignment or type_bytes(variable.type)
        end = -(-end // alignment) * alignment
        offsets.append(end)
        end += variable_bytes(variable)
    return offsets, end


def variable_bytes(variable: Variable) -> int:
    """Return the size of a variable in bytes."""
    return type_bytes(variable.type) * (1 if variable.count is None else variable.count)


def is_reference(variable: Variable) -> bool:
    """Return whether a variable is a reference to a texture or a surface: of PTX, or of the built-in header."""
    return variable.type in _REFERENCE_TYPES or variable.initial == REFERENCE_MARK


class _Lowering:
    """Lowering of one kernel and the functions that it calls."""

    def __init__(
        self,
        module: Module,
        kernel: Function,
        addresses: Mapping[str, int],
        parameters: int,
        clustered: bool,
        architecture: int,
    ) -> None:
        self._module = module
        self._kernel = kernel
        self._addresses = addresses
        self._parameters = parameters
        self._clustered = clustered
        self._architecture = architecture
        self._calls = CallGraph(module, kernel)
        self._steps: list[Step] = []
        self._targets: list[tuple[str, str]] = []
        self._labels: dict[tuple[str, str], int] = {}
        self._rolled: set[int] = set()
        self._scopes: dict[str, FunctionScope] = {}
        self._pc = 0
        self._copies = sum(len(function.body or ()) + 1 for function in self._calls.order)
        self._translation = Translation(self._steps, OPCODE_RULES)
        self._translation.references = frozenset(v.name for v in module.variables.values() if is_reference(v))

    def keep_arrays(self, keeps_arrays: bool) -> None:
        """Take accesses to local memory as moves between registers, or not."""
        self._translation.keeps_arrays = keeps_arrays

    def run(self) -> LoweredKernel:
        local, shared = self._place_memory()
        for function in self._calls.order:
            self._lower_function(function)
        return self._finish(local, shared)

    # ---- memory

    def _place_memory(self) -> tuple[int, int]:
        """Assign an offset to every variable of the functions; return the bytes of local and of shared memory."""
        places = self._calls.addresses | dict(self._addresses)
        shared = self._place(self._module_shared(), places, 0)
        local = 0
        for function in self._calls.order:
            names = dict(places)
            shared_variables = [v for v in function.variables if v.space == "shared"]
            shared = self._place(shared_variables, names, shared)
            frame = [v for v in (*function.variables, *self._frame_parameters(function)) if v.space in _FRAME_SPACES]
            local = self._place(frame, names, local)
            ranked = (*self._module.variables.values(), *function.variables) if self._clustered else ()
            self._scopes[function.name] = FunctionScope(
                function, names, self._kernel_parameters(function), self._parameters,
                frozenset(variable.name for variable in ranked if variable.space == "shared"),
            )  # fmt: skip
        shared = -(-shared // _SHARED_ALIGNMENT) * _SHARED_ALIGNMENT
        for scope in self._scopes.values():
            for variable in (*self._module.variables.values(), *scope.function.variables):
                if variable.space == "shared" and variable.count == 0:
                    scope.places[variable.name] = shared
        return local, shared

    def _module_shared(self) -> list[Variable]:
        used = {name for function in self._calls.order for name in _used_symbols(function)}
        return [v for v in self._module.variables.values() if v.space == "shared" and v.name in used]

    def _place(self, variables: list[Variable], places: dict[str, int], start: int) -> int:
        start = -(-start // _SHARED_ALIGNMENT) * _SHARED_ALIGNMENT
        offsets, size = lay_out(tuple(variables))
        for variable, offset in zip(variables, offsets, strict=True):
            places[variable.name] = start + offset
        return start + size

    def _shared_alignments(self, scope: FunctionScope) -> dict[str, int]:
        """Return the bytes to which the variables in shared memory are aligned, as far as the assembler knows.

        Dynamic memory is aligned as declared, and in relocatable code all of it.
        """
        found = {}
        for variable in (*self._module.variables.values(), *scope.function.variables):
            place = scope.places.get(variable.name)
            if variable.space == "shared" and place is not None:
                if self._module.relocatable:
                    found[variable.name] = variable.alignment or type_bytes(variable.type)
                    continue
                known = (variable.alignment or 1) if variable.count == 0 else _SHARED_ALIGNMENT
                found[variable.name] = math.gcd(place, known)
        return found

    def _frame_parameters(self, function: Function) -> tuple[Variable, ...]:
        return () if function is self._kernel else (*function.parameters, *function.results)

    def _kernel_parameters(self, function: Function) -> dict[str, int]:
        if function is not self._kernel:
            return {}
        offsets, _ = lay_out(function.parameters)
        return {v.name: offset for v, offset in zip(function.parameters, offsets, strict=True)}

    # ---- code

    def _lower_function(self, function: Function) -> None:
        scope = self._scopes[function.name]
        self._translation.enter(scope)
        unrolled = unroll_inner_loops(function, self._architecture)
        scope.function = unrolled.function
        stops: dict[int, list[str]] = {}
        for label, index in unrolled.function.labels.items():
            stops.setdefault(index, []).append(label)
        body = unrolled.function.body or ()
        merged = merge_accesses(unrolled.function, self._shared_alignments(scope))
        final = [merged.get(index, instruction) for index, instruction in enumerate(body)]
        codes = block_codes(final, stops)
        self._labels[function.name, ""] = len(self._steps)
        first = self._pc
        for index, (instruction, origin) in enumerate(zip(final, unrolled.origins, strict=True)):
            self._set_labels(function, stops.get(index, ()))
            if index in unrolled.function.rolled:
                self._rolled.add(len(self._steps))
            self._pc = first + origin if origin is not None else self._next_copy()
            if instruction is not None:
                self._lower_instruction(function, instruction, codes.get(index))
        self._set_labels(function, stops.get(len(body), ()))
        self._pc = first + len(function.body or ())
        self._lower_instruction(function, Instruction("ret", (), (), line=body[-1].line if body else function.line))
        self._pc += 1

    def _next_copy(self) -> int:
        """Return the number of a copy of an instruction: those of the instructions themselves stay as they are."""
        self._copies += 1
        return self._copies - 1

    def _set_labels(self, function: Function, labels: list[str] | tuple[str, ...]) -> None:
        for label in labels:
            self._labels[function.name, label] = len(self._steps)

    def _lower_instruction(self, function: Function, instruction: Instruction, code: MachineCode | None = None) -> None:
        first = len(self._steps)
        self._translation.begin(instruction, self._pc)
        self._translation.check_operands()
        control = _CONTROL_RULES.get(instruction.opcode)
        if instruction.opcode == "bra":
            self._branch(function, instruction)
        elif control is None:
            self._translation.translate()
        else:
            self._skip_unless_guarded(function, instruction)
            self._translation.attempt(lambda: control(self, function, instruction))
            self._labels[function.name, f"#{self._pc}"] = len(self._steps)
        if len(self._steps) > first and self._translation.counted:
            self._steps[first].flags.add("COUNTED")
            self._steps[first].code = code

    def _emit(self, op: str, **fields: object) -> Step:
        return self._translation.emit(op, **fields)

    def _branch(self, function: Function, instruction: Instruction) -> None:
        label = instruction.operands[-1] if instruction.operands else None
        if not isinstance(label, Name) or label.name not in function.labels:
            name = getattr(label, "name", label)
            raise self._translation.malformed(f" to {name}: must be a label of the function")
        self._emit("BRA", target=(function.name, label.name), **self._translation.guard())

    def _skip_unless_guarded(self, function: Function, instruction: Instruction) -> None:
        """Emit a jump over a guarded control instruction for the lanes whose guard does not hold."""
        if instruction.guard is not None:
            guard = self._translation.guard()
            guard["flags"] = set() if instruction.negated else {"NEGATED"}
            self._emit("BRA", target=(function.name, f"#{self._pc}"), **guard)

    def _return(self, function: Function, instruction: Instruction) -> None:
        if function is self._kernel or instruction.opcode == "exit":
            self._emit("EXIT")
        else:
            self._emit("RET", src=(self._return_slot(function),))

    def _return_slot(self, function: Function) -> int:
        return self._translation.slot(function.name, "#return")

    def _trap(self, function: Function, instruction: Instruction) -> None:
        self._emit("TRAP", reason=f"{instruction.opcode} is executed")

    def _barrier(self, function: Function, instruction: Instruction) -> None:
        self._translation.translate()

    def _jump_table(self, function: Function, instruction: Instruction) -> None:
        index, table = instruction.operands[0], instruction.operands[-1]
        labels = function.tables.get(getattr(table, "name", ""), ())
        if not labels or not set(labels) <= set(function.labels):
            name = getattr(table, "name", "")
            problem = f" with {name or 'no table'}: must name a .branchtargets list of labels of the function"
            raise self._translation.malformed(problem)
        self._emit(
            "BRX", src=(self._translation.value(index, "u32"),), target=len(self._targets), count=len(labels),
            reason="brx.idx: the index is beyond the table",
        )  # fmt: skip
        self._targets += [(function.name, label) for label in labels]

    def _call(self, function: Function, instruction: Instruction) -> None:
        name, results, arguments = call_parts(instruction)
        callee = self._module.functions.get(name or "")
        if name in _IGNORED_CALLS:
            return
        if name == _ASSERTION:
            self._emit("TRAP", reason="an assertion fails")
        elif name is None:
            self._call_pointer(function, instruction, results, arguments)
        elif callee is None or callee.body is None:
            self._emit("TRAP", reason=f"call of {name}: it has no body that could be executed")
        else:
            self._call_function(function, callee, results, arguments)

    def _call_pointer(
        self, function: Function, instruction: Instruction, results: tuple[object, ...], arguments: tuple[object, ...]
    ) -> None:
        """Emit a comparison and a call for each function that a pointer may point to."""
        pointer = self._translation.value(instruction.operands[1 if results else 0], "u64")
        pointed = self._calls.pointed(function, instruction)
        for callee in pointed[:MOST_POINTED]:
            skip = function.name, f"#{self._pc}:{callee.name}"
            differs = self._translation.temporary()
            self._translation.data(
                "COMPARE", differs, pointer, self._translation.constant(self._calls.addresses[callee.name]),
                type=PTX_TYPES["u64"], mode=COMPARISONS["NE"],
            )  # fmt: skip
            self._emit("BRA", target=skip, guard=differs)
            self._call_function(function, callee, results, arguments)
            self._emit("BRA", target=(function.name, f"#{self._pc}"))
            self._labels[skip] = len(self._steps)
        if not pointed:
            reason = "call of a function pointer: no function with these parameters has its address taken"
        elif len(pointed) > MOST_POINTED:
            reason = f"call of a function pointer: more than {MOST_POINTED} functions have these parameters"
        else:
            reason = "a function pointer points to no function with these parameters"
        self._emit("TRAP", reason=reason)

    def _call_function(
        self, caller: Function, callee: Function, results: tuple[object, ...], arguments: tuple[object, ...]
    ) -> None:
        if (caller.name, callee.name) in self._calls.recursive:
            self._emit("TRAP", reason=f"call of {callee.name}: recursive functions cannot be executed")
        elif len(arguments) != len(callee.parameters) or len(results) != len(callee.results):
            counts = f"{len(arguments)} arguments and {len(results)} results"
            allowed = f"{len(callee.parameters)} and {len(callee.results)}"
            raise self._translation.malformed(f" of {callee.name}: {counts}, must be {allowed}")
        else:
            inner = self._scopes[callee.name]
            for argument, parameter in zip(arguments, callee.parameters, strict=True):
                self._translation.copy_in(argument, parameter, inner)
            self._emit("CALL", dst=(self._return_slot(callee),), target=(callee.name, ""))
            for result, returned in zip(results, callee.results, strict=True):
                self._translation.copy_out(result, returned, inner)

    # ---- result

    def _finish(self, local: int, shared: int) -> LoweredKernel:
        slots = self._translation.slots
        order = sorted(range(len(slots)), key=lambda slot: slots[slot] is not None)
        place = {slot: at for at, slot in enumerate(order)} | {NO_SLOT: NO_SLOT}
        for step in self._steps:
            step.dst = tuple(place[slot] for slot in step.dst)
            step.src = tuple(place[slot] for slot in step.src)
            step.guard = place[step.guard]
            if isinstance(step.target, tuple):
                step.target = self._labels[step.target]
        targets = [self._labels[target] for target in self._targets]
        mark_whole_maps(self._steps, targets)
        constants: list[Constant] = [c for slot in order if (c := slots[slot]) is not None]
        offsets, _ = lay_out(self._kernel.parameters)
        parameters = [
            (offset, variable_bytes(v), v.type if v.count is None else None)
            for offset, v in zip(offsets, self._kernel.parameters, strict=True)
        ]
        return LoweredKernel(
            name=self._kernel.name,
            steps=self._steps,
            entry=self._labels[self._kernel.name, ""],
            variables=len(slots) - len(constants),
            constants=constants,
            targets=targets,
            local_bytes=local,
            shared_bytes=shared,
            parameters=parameters,
            rolled=frozenset(self._rolled),
        )


_FRAME_SPACES = ("param", "local")
_CONTROL_RULES = {
    "ret": _Lowering._return,
    "exit": _Lowering._return,
    "trap": _Lowering._trap,
    "brkpt": _Lowering._trap,
    "bar": _Lowering._barrier,
    "barrier": _Lowering._barrier,
    "brx": _Lowering._jump_table,
    "call": _Lowering._call,
}


def _used_symbols(function: Function) -> Iterator[str]:
    for instruction in function.body or ():
        for operand in instruction.operands:
            for inner in getattr(operand, "items", None) or (operand,):
                base = getattr(inner, "base", inner)
                if isinstance(base, Name):
                    yield base.name
