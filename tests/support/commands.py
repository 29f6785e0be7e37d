"""Provide arguments of commands that run quickly, and read the output of commands."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

ARGUMENTS = ["--arg", "n=1000", "--arg", "a=2.0", "--arg", "x=float[1000]:iota", "--arg", "y=float[1000]"]
SHAPE = ["--grid", "4", "--block", "256"]
SMALL = ["--param", "NX=64", "--param", "NY=64", "--block", "32"]
SIZES = {"NX": 64, "NY": 64, "block": (32, 1, 1)}


def without_times(plain: dict) -> dict:
    return {name: value for name, value in plain.items() if "seconds" not in name}


def sections(text: str) -> dict[str, dict[str, list[str]]]:
    """Return the sections of a report by their heads, each a dict from a label to its numbers."""
    found = {}
    for part in text.split("\n\n")[1:]:
        rows = [re.split(r"\s{2,}", line.strip()) for line in part.splitlines()]
        found[rows[0][0]] = {label: numbers for label, *numbers in rows}
    return found


def timeless(value):
    """Return a JSON value without its times."""
    if isinstance(value, dict):
        return {name: timeless(one) for name, one in value.items() if "seconds" not in name}
    return [timeless(one) for one in value] if isinstance(value, list) else value


def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``rdmodel`` in a process of its own."""
    argv = [sys.executable, "-m", "rdmodel", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, **options)
