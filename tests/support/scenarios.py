"""Build a simulated machine with an L1 of one set, and programs for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from rdmodel.gpu.config import GPU, CoreConfig
from rdmodel.gpu.memory import DramConfig, L2Config
from rdmodel.trace import Op, Space, Trace
from tests.support.builders import LINE, make_gpu


def load(*lines, needs=0, gap=0):
    return int(Op.LOAD), needs, gap, lines


def store(*lines, needs=0):
    return int(Op.STORE), needs, 0, lines


def local(trace: Trace) -> Trace:
    """Return a trace whose accesses all go to local memory."""
    space = np.full(len(trace.columns), Space.LOCAL)
    return Trace(trace.launch, dataclasses.replace(trace.columns, space=space))


def machine(sms=1, l1=(), **parts: Any) -> GPU:
    """Return a GPU with an L1 of one set of four ways, one resident block, one scheduler and one slice."""
    gpu = make_gpu(**{"size": 4 * LINE, "ways": 4, "mshrs": None, **dict(l1)})
    core = CoreConfig(**{"schedulers": 1, **parts.pop("core", {})})
    l2 = L2Config(**{"slices": 1, **parts.pop("l2", {})})
    return gpu.replace(sms=sms, max_blocks=1, core=core, l2=l2, dram=DramConfig(**parts.pop("dram", {})), **parts)
