"""Checks of fields: what is refused, with the field's name and the bound."""

from __future__ import annotations

import pytest

from rdmodel.common.checks import MAX_VALUE, check_int
from rdmodel.errors import ConfigError


@pytest.mark.parametrize(
    ("value", "bounds", "message"),
    [
        (True, {}, "n=True: must be a whole number"),
        (1.0, {}, "n=1.0: must be a whole number"),
        (0, {}, "n=0: must be at least 1"),
        (5, {"most": 4}, "n=5: must be at most 4"),
        (MAX_VALUE + 1, {}, "n=1099511627777: must be at most 2^40"),
    ],
)
def test_a_number_out_of_bounds_is_refused(value, bounds, message):
    with pytest.raises(ConfigError) as error:
        check_int("n", value, 1, **bounds)
    assert str(error.value) == message


def test_without_an_upper_bound_every_larger_number_is_allowed():
    check_int("seed", 1 << 100, 0, most=None)
