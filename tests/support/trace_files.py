"""Write trace files for tests of readers, and relax Hypothesis for tests that write them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck

from tests.support.examples import examples

relaxed = examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
"""Settings of tests that write every example to the same temporary folder."""


def file_writer(folder: Path, default_name: str) -> Callable[..., Path]:
    """Return a function that writes text or bytes to a file of `folder` and returns its path."""

    def write(text: str | bytes, name: str = default_name) -> Path:
        path = folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write
