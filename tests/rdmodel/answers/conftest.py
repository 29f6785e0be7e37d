"""Provide the path of an answers file, and a store that does not wait before it tries again."""

from __future__ import annotations

import pytest

from rdmodel.answers import store


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.sqlite"


@pytest.fixture
def impatient(monkeypatch):
    """Let a store try again at once what failed."""
    monkeypatch.setattr(store, "RETRY_SECONDS", 0.0)
