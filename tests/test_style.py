"""The Python of the project is clean under its own linter, formatter and type checker settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("command", ["ruff check", "ruff format --check", "mypy"])
def test_the_project_is_clean_under(command):
    argv = [sys.executable, "-m", *command.split()]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
