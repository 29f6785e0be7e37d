"""Provide sweeps that start processes at once, and a record of the runs of a sweep."""

from __future__ import annotations

from typing import Any

import pytest

from rdmodel.sweeps import points
from rdmodel.sweeps import sweep as sweep_module


@pytest.fixture
def at_once(monkeypatch):
    """Let other processes begin at once, however little there is to do."""
    monkeypatch.setattr(sweep_module, "SINGLE_PROCESS_SECONDS", 0.0)
    monkeypatch.setattr(sweep_module, "PROCESS_STARTUP_SECONDS", 0.0)


@pytest.fixture
def calls(monkeypatch):
    """Return a list that gets the options of every run, checks apart."""
    found: list[dict[str, Any]] = []
    for name in ("predict", "estimate", "simulate"):
        function = getattr(points, name)

        def counted(trace, gpu, *, function=function, **options):
            if not isinstance(trace, points.UnreadableTrace):
                found.append({**options, "gpu": gpu})
            return function(trace, gpu, **options)

        monkeypatch.setattr(points, name, counted)
    return found
