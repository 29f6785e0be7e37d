"""Imports go down only: who may know whom, read from the source of every module.

Modules of one floor may import each other, if no circle comes of it; those of two groups of `STRANGERS` may not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("rdmodel", "tracegen")

FLOORS = {
    0: "errors naming version",
    1: "checks progress policies polynomials reuse memory config options overrides presets randomness trace "
    "result simulation measurements estimates ranking paging combinations localities "
    "grids outcomes records wording",
    2: "_heap _calendar _index _lru _tree _shards _warp _sched _coalesce _core _model _l2 _locality "
    "_ring _clock _period _patterns _victims _cache _dram _issue _machine _network _loadstore _reorder _engine",
    3: "assembly tally launch coalescing expansion pieces distance storage summary concentration sectors sharing "
    "threads sampling stretches turns demand matching objectives questions answerfile answers excerpts planning "
    "scaling npy cores feeding watch averages repeats sending",
    4: "model studies runs simulator reference",
    5: "calibration comparing comparison contests classification measured plots tiling race quick heatmap "
    "engines sweeps reports",
    6: "__init__ tracegen",
    7: "cli integrations __main__ service",
}
"""Modules of rdmodel by floor; a package counts as one module, and all of tracegen as one."""

FLOOR_OF = {name: floor for floor, names in FLOORS.items() for name in names.split()}
COMPILED = FLOORS[2].split()
STRANGERS = ({"model", "studies", "runs", "feeding", "cores"}, {"simulator"}, {"reference"})
TRACEGEN_KNOWS_UP_TO = 3

CIMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+c?import\b[ \t]*(\w*)|c?import[ \t]+([\w.]+))", re.M)


# ---- reading imports


def sources() -> list[Path]:
    return sorted(
        path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.suffix in (".py", ".pyx", ".pxd")
    )


def module_of(path: Path) -> str:
    """Return the short name of the module a file belongs to: in rdmodel its first part, else the package."""
    package, *parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0] if package == "rdmodel" else package


def short(dotted: str, name: str = "") -> str | None:
    """Return the short name of an imported module, or None if it is not ours."""
    package, *parts = dotted.split(".")
    if package not in PACKAGES:
        return None
    if package == "tracegen":
        return "tracegen"
    if parts:
        return parts[0]
    return name if name in FLOOR_OF else "__init__"


def imports_of(text: str, path: Path) -> Iterator[str]:
    """Yield the short names of our own modules that a source imports, anywhere in it."""
    found = _compiled_imports(text) if path.suffix in (".pyx", ".pxd") else _python_imports(text, path)
    yield from (module for module in found if module is not None)


def _compiled_imports(text: str) -> Iterator[str | None]:
    for whence, name, whole in CIMPORT.findall(text):
        yield short(whence or whole, name)


def _python_imports(text: str, path: Path) -> Iterator[str | None]:
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (short(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            dotted = ".".join(part for part in (above, node.module) if part)
            yield from (short(dotted, alias.name) for alias in node.names)


def refusal(module: str, imported: str) -> str | None:
    """Return why `module` may not import `imported`, or None if it may."""
    if module == imported:
        return None
    mine, other = FLOOR_OF[module], FLOOR_OF[imported]
    if module in COMPILED and imported not in COMPILED:
        return "a compiled core gets arrays and numbers, never objects of ours"
    if module == "tracegen" and other > TRACEGEN_KNOWS_UP_TO:
        return f"tracegen knows rdmodel up to floor {TRACEGEN_KNOWS_UP_TO}, {imported} is on {other}"
    groups = [next((group for group in STRANGERS if name in group), None) for name in (module, imported)]
    if None not in groups and groups[0] != groups[1]:
        return "a model and what it is checked against never import each other"
    if other > mine:
        return f"goes up, from floor {mine} to floor {other}"
    return None


# ---- the rules


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down_only(path):
    module = module_of(path)
    imported = set(imports_of(path.read_text(), path))
    for name in {module, *imported}:
        assert name in FLOOR_OF, f"rdmodel.{name} has no floor: add it to FLOORS in tests/test_floors.py"
    refused = {name: why for name in imported if (why := refusal(module, name))}
    assert not refused


def test_nothing_on_the_same_floor_goes_round_in_a_circle():
    graph: dict[str, set[str]] = {}
    for path in sources():
        module = module_of(path)
        graph.setdefault(module, set()).update(set(imports_of(path.read_text(), path)) - {module})
    while leaves := {module for module, imported in graph.items() if not imported & graph.keys()}:
        for module in leaves:
            del graph[module]
    assert not graph, f"these modules import each other in a circle: {', '.join(sorted(graph))}"


def test_no_floor_lists_a_module_that_is_gone():
    present = {module_of(path) for path in sources()}
    assert set(FLOOR_OF) <= present


def test_every_compiled_module_has_its_types_beside_it():
    compiled = [path for path in sources() if path.suffix == ".pyx"]
    assert {path.stem for path in compiled if path.is_relative_to(ROOT / "rdmodel")} <= set(COMPILED)
    assert [path.name for path in compiled if not path.with_suffix(".pyi").exists()] == []


# ---- the test itself sees what it should


@pytest.mark.parametrize(
    ("file", "text", "imported"),
    [
        ("rdmodel/launch.py", "import rdmodel.model\nimport numpy.random", {"model"}),
        ("rdmodel/launch.py", "from rdmodel import model, predict", {"model", "__init__"}),
        ("rdmodel/launch.py", "from .model import predict", {"model"}),
        ("rdmodel/launch.py", "from . import cli", {"cli"}),
        (
            "rdmodel/reference/l1.py",
            "from ..model import predict\nfrom . import stack",
            {"model", "reference"},
        ),
        ("rdmodel/launch.py", "def f():\n    if True:\n        import tracegen.simt", {"tracegen"}),
        (
            "rdmodel/_model.pyx",
            "from rdmodel._heap cimport (\n  Heap,\n)\ncimport rdmodel._lru",
            {"_heap", "_lru"},
        ),
        ("rdmodel/_tree.pxd", "from rdmodel cimport _heap\nimport rdmodel.config", {"_heap", "config"}),
        ("tracegen/formats/_trc.pyx", "    from rdmodel.trace import Op\nimport numpy", {"trace"}),
    ],
)
def test_imports_are_found_in_every_form(file, text, imported):
    assert set(imports_of(text, ROOT / file)) == imported


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("trace", "launch"),
        ("_model", "config"),
        ("launch", "model"),
        ("model", "reference"),
        ("reference", "model"),
        ("simulator", "feeding"),
        ("reference", "cores"),
        ("runs", "simulator"),
        ("feeding", "runs"),
        ("model", "tracegen"),
        ("coalescing", "__init__"),
        ("tracegen", "model"),
        ("tracegen", "__init__"),
        ("tracegen", "cli"),
        ("reference", "cli"),
    ],
)
def test_what_goes_up_is_refused(module, imported):
    assert refusal(module, imported)


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("model", "_model"),
        ("model", "studies"),
        ("runs", "feeding"),
        ("_model", "_heap"),
        ("tracegen", "trace"),
        ("cli", "tracegen"),
        ("pieces", "expansion"),
    ],
)
def test_what_goes_down_is_allowed(module, imported):
    assert refusal(module, imported) is None
