"""The public surface: what `import rdmodel` and `import tracegen` promise."""

from __future__ import annotations

import ast
import doctest
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import rdmodel
import tracegen
import tracegen.affine
import tracegen.formats

LAZY = (rdmodel, rdmodel.policies, tracegen, tracegen.affine, tracegen.formats)
"""Packages whose names are imported on first use."""


def test_every_public_name_exists_and_the_list_is_sorted():
    assert rdmodel.__all__ == sorted(rdmodel.__all__)
    assert tracegen.__all__ == sorted(tracegen.__all__)
    for package in (rdmodel, tracegen):
        for name in package.__all__:
            assert getattr(package, name) is not None
            assert name in dir(package)


@pytest.mark.parametrize(
    "package", [rdmodel, rdmodel.policies, tracegen, tracegen.formats], ids=lambda one: one.__name__
)
def test_type_checkers_see_the_same_names(package):
    stub = ast.parse(Path(package.__file__).with_suffix(".pyi").read_text())
    names = [alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(names) == package.__all__ == dir(package)


@pytest.mark.parametrize(
    "package", [rdmodel, rdmodel.policies, tracegen, tracegen.formats], ids=lambda one: one.__name__
)
def test_no_module_hides_a_name_of_its_package(package):
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    values = {name: getattr(package, name) for name in modules & {*package.__all__}}
    assert all(inspect.ismodule(value) for value in values.values())


def test_functions_are_not_hidden_by_modules_of_their_name():
    from rdmodel.model import predict as predict_module
    from rdmodel.reuse import distance
    from rdmodel.trace import storage

    assert rdmodel.histogram is distance.histogram
    assert rdmodel.predict is predict_module.predict
    assert rdmodel.load is storage.load


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'pedict'"):
        rdmodel.pedict  # noqa: B018


def test_every_public_name_is_documented():
    for package in (rdmodel, tracegen):
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                assert (inspect.getdoc(value) or "").strip(), name


@pytest.mark.parametrize("package", [rdmodel, tracegen])
def test_the_docstring_of_the_package_is_a_session_that_runs(package):
    assert doctest.testmod(package).failed == 0


def test_importing_and_asking_for_help_load_no_numpy():
    # Time is not asserted; what costs it is.
    code = "import sys, rdmodel, rdmodel.cli.arguments; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
