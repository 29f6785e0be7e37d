"""The Python of the project is clean under its own linter, formatter and type checker settings."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT


@pytest.mark.style
@pytest.mark.parametrize("command", ["ruff check", "ruff format --check", "mypy"])
def test_the_project_is_clean_under(command):
    argv = [sys.executable, "-m", *command.split()]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
