"""Read conditions on counters, such as ``dram_bytes > +5%``, and tell whether they hold."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from math import copysign, inf

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError, unknown

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
"""Comparisons by the way they are written."""

FORM = re.compile(
    r"\s*(?P<counter>[A-Za-z_][\w.]*)\s*(?P<comparison>>=|<=|==|!=|>|<)\s*"
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<percent>%?)\s*"
)
"""A condition: a counter, a comparison and a number, which may have a sign and a percent sign."""

HOW = "must be a counter, a comparison and a number, such as 'dram_bytes > +5%' or 'miss_rate <= 0.2'"


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the `counter` of a result, compared with a `number`.

    With `relative`, the number is a change in percent of the old value; else with `change`, it is the difference from
    the old value. Otherwise it is the value itself.
    """

    text: str
    counter: str
    comparison: str
    number: float
    change: bool
    relative: bool

    def measure(self, old: float | None, new: float) -> float:
        """Return what is compared: the new value, its difference from the old one, or its change in percent.

        Raises `ConfigError` if there is no old value to compare with.
        """
        if not self.change:
            return new
        if old is None:
            raise ConfigError(f"condition {self.text!r}: is about a change, but there is no older result")
        return relative_change(old, new) if self.relative else new - old

    def holds(self, old: float | None, new: float) -> bool:
        """Return whether the condition holds; errors as in `measure`."""
        return COMPARISONS[self.comparison](self.measure(old, new), self.number)


def read_condition(text: str) -> Condition:
    """Return the condition that a text states.

    A number with a sign is a change, one with ``%`` a change in percent, and any other number a value. Raises
    `ConfigError` for another text.
    """
    found = FORM.fullmatch(text)
    if found is None:
        raise ConfigError(f"condition {text!r}: {HOW}")
    number, relative = found["number"], bool(found["percent"])
    change = relative or number[0] in "+-"
    return Condition(text.strip(), found["counter"], found["comparison"], float(number), change, relative)


def counter_value(counters: Mapping[str, float], condition: Condition) -> float:
    """Return the counter of a condition; raise `ConfigError` if the result does not have it."""
    if condition.counter not in counters:
        hint = "; l2=True (--l2) counts it" if condition.counter.startswith(("l2_", "dram_")) else ""
        raise ConfigError(f"condition {condition.text!r}: {unknown('counter', condition.counter, counters)}{hint}")
    return counters[condition.counter]


def relative_change(old: float, new: float) -> float:
    """Return a change in percent; infinite if the old value is 0 and the new one is not."""
    if old == new:
        return 0.0
    return 100 * (new - old) / abs(old) if old else copysign(inf, new)
