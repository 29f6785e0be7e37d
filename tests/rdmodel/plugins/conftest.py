"""Forget the policies that these tests load, which listings of other tests would show."""

from __future__ import annotations

import pytest

from rdmodel.policies import registry


@pytest.fixture(autouse=True, scope="module")
def forgotten():
    before = dict(registry.LOADED)
    yield
    registry.LOADED.clear()
    registry.LOADED.update(before)
