"""Model waits for loaded data: branches, and values that were stored before."""

from __future__ import annotations

from typing import Any

from tracegen.simt.kernel_trace import Block
from tracegen.simt.symbolic import Value, as_value


def branch_on(k: Block, condition: Any) -> Value:
    """Wait for the loads that `condition` depends on, and return it: a warp that branches waits on both paths.

    Without this, instructions after the body of a ``k.where`` may start before the loads of its condition arrive.
    """
    k.wait()
    return Value(as_value(condition).settled())


def after(condition: Any, value: Any) -> Any:
    """Return `value`, dependent also on the loads of `condition`, as after a branch on `condition`.

    Unlike `branch_on`, it does not wait for other loads, whose data may be needed only later.
    """
    return value + 0 * as_value(condition)


def replace_loaded(before: Value, now: Any) -> Value:
    """Return `now`, the value of an earlier store, with the dependences of the load that returned `before`.

    Stores do not change the data of arrays, so a load returns the value from before the kernel.
    """
    result: Value = before * 0 + now
    return result
