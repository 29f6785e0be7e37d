"""Traces that a user derives from `GeneratedTrace`."""

from __future__ import annotations

import pytest

import rdmodel as rd
from rdmodel.errors import TraceError
from rdmodel.trace import Launch
from tracegen.generated import GeneratedTrace


class WithoutBlock(GeneratedTrace):
    """A trace that generates nothing."""

    def __init__(self) -> None:
        self.launch = Launch(kernel="nothing", grid=(1, 1, 1), block=(32, 1, 1))
        self.blocks = range(1)
        self.params = {}


def test_a_trace_that_generates_no_blocks_says_which_method_it_lacks():
    with pytest.raises(TraceError, match=r"^WithoutBlock: has no method block\(block\)"):
        rd.predict(WithoutBlock())
