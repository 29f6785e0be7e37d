"""Exceptions that end work: not errors, and not to be swallowed by code that catches errors."""

from __future__ import annotations

import pytest

from rdmodel.common.cancellation import Cancelled
from rdmodel.service.scheduler import _Abandoned
from rdmodel.sweeps.points import BlockRequested


@pytest.mark.parametrize("kind", [BlockRequested, _Abandoned])
def test_ended_work_is_not_an_error(kind):
    assert issubclass(kind, Cancelled)
    assert not issubclass(kind, Exception)
