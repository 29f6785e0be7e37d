"""Parse a PTX text into a `tracegen.ptx.syntax.ast.Module`: statements of the module and heads of functions."""

from __future__ import annotations

from dataclasses import replace

from tracegen.ptx.syntax.ast import Function, Module, Variable
from tracegen.ptx.syntax.body import BodyParser
from tracegen.ptx.syntax.constants import take_count
from tracegen.ptx.syntax.declarations import STATE_SPACES, DeclarationParser
from tracegen.ptx.syntax.lexer import Cursor
from tracegen.ptx.syntax.linking import LinkError, link_units
from tracegen.ptx.syntax.scopes import FunctionNames

_LINKAGE = (".visible", ".weak", ".extern", ".common")
_ADDRESS_SIZES = (32, 64)


def parse(text: str, name: str = "<ptx>") -> Module:
    """Parse the PTX module in `text`; `name` stands for it in errors.

    A text of several translation units, each from its ``.version`` on, is linked: it is one module. Unknown opcodes,
    modifiers and directives are kept as written; debug sections are skipped. Raises `PtxError`, whose message starts
    with ``name:line:``, for anything else that is not PTX. Time and memory are linear in the length of the text, plus
    at most 2^17 registers and 2^28 bytes of initial values.
    """
    cursor = Cursor(without_final_nulls(text), name)
    declarations = DeclarationParser(cursor)
    units = [_ModuleParser(cursor, declarations).take()]
    while cursor.token:
        first_file = 1 + max((number for unit in units for number in unit.files), default=0)
        units.append(_ModuleParser(cursor, declarations, first_file).take())
    try:
        module = link_units(units) if len(units) > 1 else units[0]
    except LinkError as error:
        cursor.refuse(f"expected one definition of {error.name!r} in all units, found another", error.line)
    return replace(module, text=text)


def without_final_nulls(text: str) -> str:
    """Return a text without the null characters at its end, and without line breaks behind them."""
    null = text.find("\0", len(text.rstrip("\0\r\n")))
    return text if null < 0 else text[:null]


class _ModuleParser:
    """Parser of one translation unit, with the statements parsed so far as attributes."""

    def __init__(self, cursor: Cursor, declarations: DeclarationParser, first_file: int = 0) -> None:
        self._cursor = cursor
        self._declarations = declarations
        self._first_file = first_file
        self._target = ""
        self._address_size = 32  # the default of the ISA
        self._variables: dict[str, Variable] = {}
        self._functions: dict[str, Function] = {}
        self._files: dict[int, str] = {}
        self._directives: list[str] = []

    def take(self) -> Module:
        cursor = self._cursor
        cursor.expect(".version", "at the start of a module")
        if not cursor.token[:1].isdigit():
            cursor.fail("a version number")
        version = cursor.take()
        while cursor.token and cursor.token != ".version":
            if cursor.token.startswith("."):
                self._take_statement(cursor.token)
            elif not cursor.accept(";"):
                cursor.fail("a directive")
        if not self._target:
            cursor.fail("'.target' in a module")
        return Module(
            version,
            self._target,
            self._address_size,
            self._variables,
            self._functions,
            self._files,
            tuple(self._directives),
        )

    def _take_statement(self, token: str) -> None:
        cursor = self._cursor
        if token in _LINKAGE or token in (".entry", ".func") or token[1:] in STATE_SPACES:
            self._take_linked()
        elif token == ".target":
            cursor.at += 1
            self._target = cursor.take_name("an architecture")
            while cursor.accept(","):
                self._directives.append(f".target {cursor.take_name('an option of .target')}")
        elif token == ".address_size":
            cursor.at += 1
            self._address_size = take_count(cursor, "32 or 64 bits")
            if self._address_size not in _ADDRESS_SIZES:
                cursor.refuse(f"expected 32 or 64 as .address_size, found {self._address_size}")
        elif token == ".file":
            self._take_file()
        elif token == ".section":
            cursor.fail("a section closed by '}'")
        else:
            self._directives.append(cursor.take_line())
            if cursor.token == "{":
                cursor.skip_group("{", "}")

    def _take_file(self) -> None:
        cursor = self._cursor
        cursor.at += 1
        number = take_count(cursor, "a file number")
        if not cursor.token.startswith('"'):
            cursor.fail("the name of a file in quotes")
        self._files[self._first_file + number] = cursor.take()[1:-1]
        while cursor.accept(","):  # time stamp and size
            take_count(cursor, "a number")

    def _take_linked(self) -> None:
        """Parse a variable or function with its linkage."""
        cursor = self._cursor
        linkage = ""
        while cursor.token in _LINKAGE:
            word = cursor.take()[1:]
            linkage = linkage if linkage == "extern" else word
        if cursor.token in (".entry", ".func"):
            self._take_function(linkage)
        elif cursor.token[1:] in STATE_SPACES:
            for variable in self._declarations.take_variables(linkage):
                self._declare(variable)
        else:
            cursor.fail("'.entry', '.func' or a state space")

    def _declare(self, variable: Variable) -> None:
        earlier = self._variables.get(variable.name)
        if earlier is not None and not earlier.extern and not variable.extern:
            self._cursor.refuse(f"expected one definition of {variable.name!r}, found another")
        if earlier is None or earlier.extern:
            self._variables[variable.name] = variable

    def _take_function(self, linkage: str) -> None:
        """Parse a function from ``.entry`` or ``.func`` on; a declaration never replaces a definition."""
        cursor, declarations = self._cursor, self._declarations
        line = cursor.line
        entry = cursor.take() == ".entry"
        self._skip_attributes()
        results = tuple(declarations.take_parameters("results")) if cursor.token == "(" else ()
        name = cursor.take_name("the name of a function")
        parameters = tuple(declarations.take_parameters("parameters")) if cursor.token == "(" else ()
        head = Function(name, entry, parameters, results, linkage=linkage, line=line)
        names = FunctionNames(cursor, self._variables, self._functions)
        for variable in (*results, *parameters):
            names.declare_parameter(variable)
        earlier = self._functions.get(name)
        body = BodyParser(cursor, declarations, names, self._first_file)
        self._take_directives(body.directives)
        if cursor.accept("{"):
            if earlier and earlier.body is not None:
                cursor.refuse(f"expected one definition of {name!r}, found another", line)
            body.take()
            self._functions[name] = body.complete(head)
        else:
            cursor.expect(";", "or '{' after the head of a function")
            if not earlier:
                self._functions[name] = body.complete(head, defined=False)

    def _skip_attributes(self) -> None:
        while self._cursor.accept(".attribute"):
            self._cursor.skip_group("(", ")")

    def _take_directives(self, directives: dict[str, list[str]]) -> None:
        """Parse the directives between the head and the body of a function, each up to the next one."""
        cursor = self._cursor
        while cursor.token.startswith("."):
            name = cursor.take()
            first = cursor.at
            while cursor.token and not cursor.token.startswith(".") and cursor.token not in ("{", ";"):
                cursor.at += 1
            directives.setdefault(name[1:], []).append(cursor.text_from(first, cursor.at))
            if name == ".pragma":
                cursor.expect(";", "after a .pragma")
