"""Store numbered answers, also from another process, and check an answers file."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from rdmodel.answers.store import Answers
from tests.support.paths import ROOT


def question(number: int) -> dict[str, object]:
    return {"kernel": "gemm", "gpu": "gtx470-16k", "params": {"NI": number, "NJ": 64}}


def answer(number: int, length: int = 20) -> dict[str, object]:
    return {"number": number, "rates": [number / (n + 1) for n in range(length)]}


def in_process(code: str, *argv: object) -> subprocess.Popen[str]:
    """Start a Python process that knows `Answers`, `answer`, `question` and the modules that the tests use there."""
    head = "import os, resource, sys; from tests.support.stored_answers import Answers, answer, question\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(code), *map(str, argv)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def filled(path: Path, count: int = 40) -> None:
    with Answers(path) as cache:
        for n in range(count):
            cache.put(question(n), answer(n))
        assert cache.trouble is None


def check(path: Path, count: int = 40) -> str | None:
    """Look every question up: the right answer or none; and unless the file was refused, it works again."""
    with Answers(path) as cache:
        for n in range(count):
            assert cache.get(question(n)) in (None, answer(n))
        cache.put(question(count), answer(count))
        refused = cache.trouble is not None and "left alone" in cache.trouble
        assert cache.get(question(count)) == (None if refused else answer(count))
        return cache.trouble
