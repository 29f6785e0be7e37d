"""Parse the bodies of functions: statements, instructions and operands."""

from __future__ import annotations

from dataclasses import replace

from tracegen.ptx.syntax.ast import Address, Function, Instruction, Name, Not, Operand, Pair, Register, Vector
from tracegen.ptx.syntax.constants import starts_constant, take_constant, take_count, take_integer
from tracegen.ptx.syntax.declarations import STATE_SPACES, DeclarationParser
from tracegen.ptx.syntax.lexer import Cursor, is_word
from tracegen.ptx.syntax.scopes import FunctionNames, NameScope

_SINK = "_"
"""Operand that discards a result."""

_JUMPS = ("bra", "brx")
"""Opcodes whose operands may be labels."""


class BodyParser:
    """Parser of one function body into flat lists; the cursor stands behind the opening brace.

    `first_file` is added to the numbers of source files.
    """

    def __init__(
        self, cursor: Cursor, declarations: DeclarationParser, names: FunctionNames, first_file: int = 0
    ) -> None:
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.tables: dict[str, tuple[str, ...]] = {}
        self.directives: dict[str, list[str]] = {}
        self._rolled: list[int] = []
        self._cursor = cursor
        self._declarations = declarations
        self._names = names
        self._first_file = first_file
        self._source: tuple[int, int] | None = None
        self._jumps: list[tuple[int, NameScope]] = []
        self._lists: list[tuple[str, NameScope, int, tuple[str, ...]]] = []
        self._opcodes: dict[str, tuple[str, tuple[str, ...]]] = {}

    def take(self) -> None:
        """Parse the body and its closing brace."""
        cursor, tokens = self._cursor, self._cursor.tokens
        while True:
            token = tokens[cursor.at]
            if token == "}":
                cursor.at += 1
                if not self._names.leave():
                    break
            elif token == "{":
                self._names.enter()
                cursor.at += 1
            elif token.startswith("."):
                self._take_directive(token)
            elif token == ";":
                cursor.at += 1
            elif tokens[cursor.at + 1] == ":" and is_word(token):
                self._take_label()
            else:
                self._take_instruction(token)
        self._resolve()

    def complete(self, head: Function, defined: bool = True) -> Function:
        """Return `head` with everything parsed since; its body is None unless `defined`."""
        return replace(
            head,
            registers=self._names.registers,
            variables=tuple(self._names.variables.values()),
            body=tuple(self.instructions) if defined else None,
            labels=self.labels,
            tables=self.tables,
            directives={name: "; ".join(texts) for name, texts in self.directives.items()},
            rolled=frozenset(self._rolled),
        )

    def _take_directive(self, token: str) -> None:
        cursor = self._cursor
        if token == ".reg":
            for name, kind in self._declarations.take_registers():
                self._names.declare_register(name, kind)
        elif token[1:] in STATE_SPACES:
            for variable in self._declarations.take_variables():
                self._names.declare_variable(variable)
        elif token == ".loc":
            self._take_location()
        else:
            text = cursor.take_line()[len(token) :]
            self._add_directive(token[1:], text)
            if token == ".pragma" and '"nounroll"' in text:
                self._rolled.append(len(self.instructions))

    def _take_location(self) -> None:
        """Parse ``.loc file line column``, and the extension of an inlined function."""
        cursor = self._cursor
        cursor.at += 1
        file = self._first_file + take_count(cursor, "a file number")
        self._source = (file, take_count(cursor, "a line number"))
        take_count(cursor, "a column")
        if cursor.accept(","):
            cursor.expect("function_name", "after a location")
            cursor.take_name("the label of a function's name")
            self._take_offset()
            cursor.expect(",", "after the name of an inlined function")
            cursor.expect("inlined_at", "after the name of an inlined function")
            for part in ("a file number", "a line number", "a column"):
                take_count(cursor, part)

    def _take_label(self) -> None:
        cursor = self._cursor
        name = cursor.take_name("a label")
        cursor.at += 1
        if cursor.token == ".branchtargets":
            self._lists.append((self._names.declare_label(name), self._names.scope, cursor.line, self._take_targets()))
        elif cursor.token == ".calltargets":
            self.tables[self._names.declare_label(name)] = self._take_targets()
        elif cursor.token == ".callprototype":
            cursor.at += 1
            first = cursor.at
            while cursor.take() != ";":
                pass
            self._add_directive("callprototype", f"{name} {cursor.text_from(first, cursor.at - 1)}")
        else:
            self.labels[self._names.declare_label(name)] = len(self.instructions)

    def _take_targets(self) -> tuple[str, ...]:
        cursor = self._cursor
        cursor.at += 1
        targets = [cursor.take_name("the name of a target")]
        while cursor.accept(","):
            targets.append(cursor.take_name("the name of a target"))
        cursor.expect(";", "after targets")
        return tuple(targets)

    def _add_directive(self, name: str, text: str) -> None:
        self.directives.setdefault(name, []).append(text.strip())

    def _take_instruction(self, token: str) -> None:
        cursor = self._cursor
        line = cursor.line
        guard, negated = None, False
        if token == "@":
            cursor.at += 1
            negated = cursor.accept("!")
            guard = self._take_predicate()
            token = cursor.token
        if not token[:1].isalpha():
            cursor.fail("an instruction")
        cursor.at += 1
        opcode, modifiers = self._opcodes.get(token) or self._split(token)
        while cursor.token.startswith("."):  # blanks between opcode and modifiers
            modifiers += tuple(cursor.take()[1:].split("."))
        if opcode == "call":
            operands = self._take_call()
        else:
            operands = self._take_operands()
            if opcode in _JUMPS:
                self._jumps.append((len(self.instructions), self._names.scope))
        self.instructions.append(Instruction(opcode, modifiers, operands, guard, negated, line, self._source))

    def _split(self, token: str) -> tuple[str, tuple[str, ...]]:
        opcode, *modifiers = token.split(".")
        self._opcodes[token] = opcode, tuple(modifiers)
        return self._opcodes[token]

    def _take_operands(self) -> tuple[Operand, ...]:
        cursor = self._cursor
        operands: list[Operand] = []
        if cursor.accept(";"):
            return ()
        while True:
            if cursor.token == "[":
                self._take_address(operands)
            else:
                operands.append(self._take_operand())
            if cursor.accept(";"):
                return tuple(operands)
            cursor.expect(",", "or ';' after an operand")

    def _take_operand(self) -> Operand:
        """Parse one operand without brackets."""
        cursor = self._cursor
        token = cursor.token
        if token == "{":
            return self._take_vector("{", "}")
        if token == "!" and is_word(cursor.tokens[cursor.at + 1]):
            cursor.at += 1
            return Not(self._take_predicate())
        if starts_constant(token):
            return take_constant(cursor)
        operand = self._take_reference()
        following = cursor.token
        if following == "|":
            cursor.at += 1
            return Pair(_unless_sink(operand), _unless_sink(self._take_reference()))
        if following in ("+", "-") and isinstance(operand, Name):
            return Address(operand, self._take_offset())
        return operand

    def _take_reference(self) -> Register | Name:
        """Parse a name: a declared register or variable, a special register, a symbol or a label."""
        cursor = self._cursor
        token = cursor.tokens[cursor.at]
        reference = self._names.scope.find(token)
        if reference is None:
            if not is_word(token):
                cursor.fail("an operand")
            reference = self._find_undeclared(token)
        cursor.at += 1
        return reference

    def _find_undeclared(self, token: str) -> Register | Name:
        base, dot, component = token.partition(".")
        if dot:
            declared = self._names.scope.find(base)
            return Register(f"{declared.name if declared else base}.{component}")
        return Register(token) if token.startswith("%") else Name(token)

    def _take_predicate(self) -> Register:
        reference = self._take_reference()
        if not isinstance(reference, Register):
            self._cursor.at -= 1
            self._cursor.fail("a predicate register")
        return reference

    def _take_offset(self) -> int:
        """Parse ``+ expression`` or ``- expression`` if present; otherwise return 0."""
        if self._cursor.token == "-":
            return take_integer(self._cursor)
        return take_integer(self._cursor) if self._cursor.accept("+") else 0

    def _take_address(self, operands: list[Operand]) -> None:
        """Parse ``[...]``: append an Address and the operands after it."""
        cursor = self._cursor
        cursor.at += 1
        if starts_constant(cursor.token):
            operands.append(Address(None, take_integer(cursor)))
        else:
            operands.append(Address(self._take_reference(), self._take_offset()))
        while cursor.accept(","):
            operands.append(self._take_operand())
        cursor.expect("]", "to close an address")
        cursor.accept(".unified")

    def _take_vector(self, opening: str, closing: str) -> Vector:
        cursor = self._cursor
        cursor.expect(opening, "before a list of operands")
        items: list[Operand | None] = []
        while not cursor.accept(closing):
            if cursor.token == "{":
                cursor.fail("an operand that is not a vector")
            items.append(_unless_sink(self._take_operand()))
            if cursor.token != closing:
                cursor.expect(",", f"or {closing!r} after an operand")
        return Vector(tuple(items))

    def _take_call(self) -> tuple[Operand, ...]:
        """Parse the operands of a ``call``: results, function, arguments, and the prototype of an indirect call."""
        cursor = self._cursor
        results = Vector(())
        if cursor.token == "(":
            results = self._take_vector("(", ")")
            cursor.expect(",", "after the results of a call")
        operands: list[Operand] = [results, self._take_reference()]
        arguments = Vector(())
        if cursor.accept(","):
            if cursor.token == "(":
                arguments = self._take_vector("(", ")")
                prototype = [Name(cursor.take_name("a prototype"))] if cursor.accept(",") else []
            else:
                prototype = [Name(cursor.take_name("a prototype"))]
            operands += [arguments, *prototype]
        else:
            operands.append(arguments)
        cursor.expect(";", "after a call")
        return tuple(operands)

    def _resolve(self) -> None:
        """Replace the labels in jumps and tables, which may be declared later, by their flat names."""
        for index, scope in self._jumps:
            jump = self.instructions[index]
            operands = tuple(
                Name(self._find_label(operand.name, scope, jump.line)) if isinstance(operand, Name) else operand
                for operand in jump.operands
            )
            if operands != jump.operands:
                self.instructions[index] = replace(jump, operands=operands)
        for name, scope, line, targets in self._lists:
            self.tables[name] = tuple(self._find_label(target, scope, line) for target in targets)

    def _find_label(self, name: str, scope: NameScope, line: int) -> str:
        label = scope.find_label(name)
        if label is None:
            self._cursor.refuse(f"expected a label of this function, found {name!r}", line)
        return label


def _unless_sink(operand: Operand) -> Operand | None:
    return None if isinstance(operand, Name) and operand.name == _SINK else operand
