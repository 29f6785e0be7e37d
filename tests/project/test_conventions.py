"""The source keeps the conventions that a program can check: names, first lines, lengths, imports of tests."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.support.durations import listed_tests
from tests.support.paths import ROOT

PACKAGES = ("rdmodel", "tracegen")
FOLDERS = (*PACKAGES, "validation", "benchmarks", "tests", "docs")
MAX_LINES = 500
REASON = re.compile(r"\b(more|longer) than 500 lines", re.I)

SHARED_NAMES = {
    "rdmodel": {
        # The same concept in an engine and in its oracle.
        "L1",
        "simulate",
        # Public functions of rdmodel and rdmodel.presets.
        "load",
        # Public functions of the modules in rdmodel.integrations, one for each tool.
        "trace",
        # The command line states the definitions again, since help does not wait for NumPy.
        "DEFINITIONS",
    },
    "tracegen": {
        # Public functions of tracegen.cuda and tracegen.formats.
        "launches",
        "trace",
    },
}
"""Names that two modules of a package define on purpose, with one meaning."""

OPENINGS = re.compile(r"(What|Which|Who|Whose|How|Where|Why)\b")

MAY_OPEN = re.compile(rf"""["']\s*{OPENINGS.pattern}""")
"""Texts that open so; only files with such a text are parsed."""


def python_files(*folders: str) -> list[Path]:
    return sorted(chain.from_iterable((ROOT / folder).rglob("*.py") for folder in folders))


def sources() -> list[Path]:
    compiled = chain.from_iterable((ROOT / package).rglob("*.p[yx][xd]") for package in PACKAGES)
    return [path for path in chain(python_files(*FOLDERS), compiled) if "data" not in path.parts]


def place(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_a_file_has_at_most_500_lines_or_says_why():
    long = {place(path): lines for path in sources() if (lines := unexplained_lines(path.read_text())) > MAX_LINES}
    assert long == {}, "split it, or give the reason at its top"


def unexplained_lines(text: str) -> int:
    return 0 if REASON.search(text[:2000]) else len(text.splitlines())


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def test_no_docstring_opens_with_a_question_word():
    found = [
        f"{place(path)}:{line}: {text.splitlines()[0]}"
        for path in python_files(*FOLDERS)
        if MAY_OPEN.search(path.read_text())
        for line, text in docstrings(path)
        if OPENINGS.match(text)
    ]
    assert found == []


@pytest.mark.parametrize("page", sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]), ids=place)
def test_no_sentence_of_a_page_opens_with_what_in_place_of_its_subject(page):
    prose = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(), flags=re.M | re.S)
    found = re.findall(r"(?:^|[.:;!?] +|\| )(What [^?.|]*[.|])", prose, re.M)
    assert found == []


def definitions(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of every constant, class and public function at the top of a module."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            yield "class", node.name
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield "function", node.name
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name) and re.fullmatch(r"[A-Z][A-Z0-9_]+", target.id):
                yield "constant", target.id


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_modules_define_one_name_with_different_meanings(package):
    homes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in python_files(package):
        for definition in definitions(path):
            homes[definition].add(place(path))
    shared = {
        f"{kind} {name}": sorted(places)
        for (kind, name), places in homes.items()
        if len(places) > 1 and name not in SHARED_NAMES[package]
    }
    assert shared == {}


def test_no_test_file_imports_another():
    # Scripts for other processes count as well, so the text is searched.
    imports = re.compile(r"^\s*(?:from (tests\.[\w.]*\btest_\w+) import|import (tests\.[\w.]*\btest_\w+))", re.M)
    assert {place(path): found for path in python_files("tests") if (found := imports.findall(path.read_text()))} == {}


def test_every_test_that_is_listed_as_slow_exists():
    gone = []
    for test in listed_tests():
        path, *_, function = test.split("::")
        if not (ROOT / path).exists() or f"def {function}(" not in (ROOT / path).read_text():
            gone.append(test)
    assert gone == [], "make durations"
