"""Check arguments that must be traces."""

from __future__ import annotations

from rdmodel.errors import TraceError
from rdmodel.trace.trace import Trace


def check_trace(value: object, field: str = "trace") -> None:
    """Raise `TraceError`, naming the argument `field`, unless `value` is a `Trace`."""
    if not isinstance(value, Trace):
        raise TraceError(f"{field}={value!r:.60}: must be a Trace (tracegen.kernel, rdmodel.load)")
