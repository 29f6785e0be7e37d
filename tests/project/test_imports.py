"""Imports go down only: between rooms (folders) by floor, and between files without a circle.

The imports are read from the source of every module, cimports and imports inside functions included.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.support.floors import FLOORS, TRACEGEN_FLOORS
from tests.support.paths import ROOT

PACKAGES = ("rdmodel", "tracegen")
SUFFIXES = (".py", ".pyx", ".pxd")

FLOOR_OF = {name: floor for floor, names in FLOORS.items() for name in names.split()}
TRACEGEN_FLOOR_OF = {name: floor for floor, names in TRACEGEN_FLOORS.items() for name in names.split()}

SHARED_BY_RIVALS = {"rdmodel.model.options", "rdmodel.simulator.options"}
RIVALS = ("rdmodel.model", "rdmodel.simulator", "rdmodel.reference")
"""Two engines and the oracle of both: they share their options and nothing else, so that each can test another."""

TRACEGEN_KNOWS = ("errors", "common", "policies", "trace")

CIMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+c?import[ \t]*(\([^)]*\)|[^\n#]*)|c?import[ \t]+([\w.]+))", re.M
)


# ---- reading imports


def module_name(path: Path) -> str:
    """Return the dotted name of the module that a file is; a package is its ``__init__``."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def files() -> Mapping[str, list[Path]]:
    """Return the files of every module of ours; a compiled one may have two."""
    found: dict[str, list[Path]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in SUFFIXES:
                found.setdefault(module_name(path), []).append(path)
    return found


FILES = files()
COMPILED = {name for name, paths in FILES.items() if any(path.suffix != ".py" for path in paths)}


def resolve(dotted: str, name: str = "") -> str | None:
    """Return the module of ours that ``from dotted import name`` reads; None if it is not ours."""
    if dotted.split(".")[0] not in PACKAGES:
        return None
    if name and f"{dotted}.{name}" in FILES:
        return f"{dotted}.{name}"
    while dotted not in FILES:
        dotted = dotted.rpartition(".")[0]
    return dotted


def imports_of(text: str, path: Path) -> set[str]:
    """Return the modules of ours that a source imports, anywhere in it."""
    found = _python_imports(text, path) if path.suffix == ".py" else _compiled_imports(text)
    return {module for module in found if module is not None}


def _compiled_imports(text: str) -> Iterator[str | None]:
    for whence, names, whole in CIMPORT.findall(text):
        if whole:
            yield resolve(whole)
        for name in re.findall(r"\w+", names):
            yield resolve(whence, name)


def _python_imports(text: str, path: Path) -> Iterator[str | None]:
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (resolve(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            dotted = ".".join(part for part in (above, node.module) if part)
            yield from (resolve(dotted, alias.name) for alias in node.names)


@cache
def imports(module: str) -> set[str]:
    """Return the modules of ours that a module imports, anywhere in its files."""
    return set().union(*(imports_of(path.read_text(), path) for path in FILES[module])) - {module}


# ---- the rules


def room_of(module: str) -> str:
    """Return the room of a module: in rdmodel the part after the package, else the package."""
    package, *parts = module.split(".")
    if package == "tracegen":
        return "tracegen"
    return parts[0] if parts else "__init__"


def tracegen_room_of(module: str) -> str:
    """Return the room of a module of tracegen: the folder that it is in, or the module itself at the top."""
    parts = module.split(".")[1:]
    if not parts:
        return "__init__"
    is_package = FILES[module][0].name == "__init__.py" if module in FILES else False
    return ".".join(parts if is_package or len(parts) == 1 else parts[:-1])


def refusal(module: str, imported: str) -> str | None:
    """Return why a module may not import another, or None if it may."""
    if module in COMPILED and imported not in COMPILED:
        return "a compiled core gets arrays and numbers, never objects of ours"
    mine, other = room_of(module), room_of(imported)
    if mine == "tracegen" != other and other not in TRACEGEN_KNOWS:
        return f"tracegen knows {', '.join(TRACEGEN_KNOWS)} of rdmodel, and not {other}"
    rivals = [next((room for room in RIVALS if name.startswith(f"{room}.")), None) for name in (module, imported)]
    if None not in rivals and rivals[0] != rivals[1] and imported not in SHARED_BY_RIVALS:
        return "an engine and what it is checked against share their options only"
    if mine == other == "tracegen":
        mine, other = tracegen_room_of(module), tracegen_room_of(imported)
        return _goes_up(mine, other, TRACEGEN_FLOOR_OF)
    if mine == "tracegen":
        return None
    return _goes_up(mine, other, FLOOR_OF)


def _goes_up(room: str, imported: str, floors: Mapping[str, int]) -> str | None:
    if room == imported or floors[imported] < floors[room]:
        return None
    return f"does not go down, from {room} on floor {floors[room]} to {imported} on floor {floors[imported]}"


def test_every_room_has_a_floor():
    rooms = {("rdmodel", room_of(name)) for name in FILES if room_of(name) != "tracegen"}
    rooms |= {("tracegen", tracegen_room_of(name)) for name in FILES if room_of(name) == "tracegen"}
    without = rooms - {("rdmodel", room) for room in FLOOR_OF} - {("tracegen", room) for room in TRACEGEN_FLOOR_OF}
    assert without == set(), "add it to tests/support/floors.py"


def test_imports_go_down_only():
    refused = {
        f"{module} imports {name}": why
        for module in FILES
        for name in imports(module)
        if (why := refusal(module, name))
    }
    assert refused == {}


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return modules that import each other in a circle, or are imported by or import such; empty if there is none."""
    left = {module: set(imported) for module, imported in graph.items()}
    while leaves := {module for module, imported in left.items() if not imported & left.keys()}:
        for module in leaves:
            del left[module]
    return sorted(left)


def test_no_files_import_each_other_in_a_circle():
    assert circle({module: imports(module) for module in FILES}) == []


def test_a_circle_of_two_files_inside_one_folder_is_seen():
    page, values = "rdmodel.reports.page", "rdmodel.reports.values"
    lazily = "def to_html():\n    from rdmodel.reports import page"
    graph = {page: {values}, values: imports_of(lazily, ROOT / "rdmodel/reports/values.py"), "other": {page}}
    assert circle(graph) == ["other", page, values]


def test_no_floor_lists_a_room_that_is_gone():
    rooms = {room_of(module) for module in FILES}
    assert set(FLOOR_OF) == rooms
    assert set(TRACEGEN_FLOOR_OF) == {tracegen_room_of(module) for module in FILES if room_of(module) == "tracegen"}


def test_every_compiled_module_has_its_types_beside_it():
    sources = [path for paths in FILES.values() for path in paths if path.suffix == ".pyx"]
    assert [path.name for path in sources if not path.with_suffix(".pyi").exists()] == []


def test_every_folder_is_a_package_that_says_what_it_is_for():
    folders = {path.parent for paths in FILES.values() for path in paths}
    silent = [folder for folder in folders if not ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))]
    assert silent == []


# ---- the test itself sees what it should


@pytest.mark.parametrize(
    ("file", "text", "imported"),
    [
        ("rdmodel/model/run.py", "import rdmodel.model.sm\nimport numpy.random", {"rdmodel.model.sm"}),
        ("rdmodel/model/run.py", "from rdmodel import presets, predict", {"rdmodel.presets", "rdmodel"}),
        ("rdmodel/model/run.py", "from .predict import predict", {"rdmodel.model.predict"}),
        ("rdmodel/model/run.py", "from .. import cli", {"rdmodel.cli"}),
        ("rdmodel/model/run.py", "def f():\n    if True:\n        import tracegen.simt", {"tracegen.simt"}),
        (
            "rdmodel/model/_hardware.pyx",
            "from rdmodel.structures._heap cimport (\n  Heap,\n)\ncimport rdmodel.structures._lru",
            {"rdmodel.structures._heap", "rdmodel.structures._lru"},
        ),
        ("rdmodel/_tree.pxd", "from rdmodel.structures cimport _heap", {"rdmodel.structures._heap"}),
        ("tracegen/formats/_trc.pyx", "    from rdmodel.trace import Op\nimport numpy", {"rdmodel.trace"}),
    ],
)
def test_imports_are_found_in_every_form(file, text, imported):
    assert imports_of(text, ROOT / file) == imported


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("rdmodel.trace.trace", "rdmodel.gpu.occupancy"),
        ("rdmodel.model._hardware", "rdmodel.gpu.config"),
        ("rdmodel.gpu.occupancy", "rdmodel.model.predict"),
        ("rdmodel.model.predict", "rdmodel.reference.model.paper"),
        ("rdmodel.reference.model.paper", "rdmodel.model.predict"),
        ("rdmodel.simulator.simulate", "rdmodel.model.sm"),
        ("rdmodel.model.run", "rdmodel.simulator.simulate"),
        ("rdmodel.model.predict", "tracegen"),
        ("rdmodel.trace.coalescing", "rdmodel"),
        ("rdmodel.sweeps.sweep", "rdmodel.tiling.rank"),
        ("tracegen.simt.block", "rdmodel.model.predict"),
        ("tracegen.simt.block", "rdmodel"),
        ("tracegen.simt.block", "tracegen.affine.nest"),
        ("tracegen.ptx.syntax.parser", "tracegen.ptx.emulator.emulated_launch"),
        ("rdmodel.reference.model.l1", "rdmodel.cli.main"),
    ],
)
def test_an_import_that_does_not_go_down_is_refused(module, imported):
    assert refusal(module, imported)


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("rdmodel.model.cores", "rdmodel.model._hardware"),
        ("rdmodel.model.study", "rdmodel.model.run"),
        ("rdmodel.model._hardware", "rdmodel.structures._heap"),
        ("rdmodel.reference.machine.run", "rdmodel.simulator.options"),
        ("tracegen.formats.trc", "rdmodel.trace"),
        ("rdmodel.cli.sources", "tracegen"),
    ],
)
def test_an_import_that_goes_down_is_allowed(module, imported):
    assert refusal(module, imported) is None
