"""Branches on loaded data, as warps take them."""

from __future__ import annotations

from typing import Any

from tracegen.simt.kernel_trace import Block
from tracegen.simt.symbolic import Value, as_value


def branch_on(k: Block, condition: Any) -> Value:
    """Return `condition` after waiting for the loads that it came from: a warp that branches waits on both ways.

    ``k.where`` alone lets what follows its body start before the loads that decided about the body arrive.
    """
    k.wait()
    return Value(as_value(condition).settled())


def after(condition: Any, value: Any) -> Any:
    """Return `value` so that what uses it waits for the loads that `condition` came from, as after a branch on it.

    Unlike `branch_on` it waits for no other loads, whose data may be needed only later.
    """
    return value + 0 * as_value(condition)


def replace_loaded(before: Value, now: Any) -> Value:
    """Return `now`, which is in memory since an earlier store, as a load gives it that returned `before`.

    Stores do not change the data of arrays, so a load knows only what was there when the kernel started.
    """
    result: Value = before * 0 + now
    return result
