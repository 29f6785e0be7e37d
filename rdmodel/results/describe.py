"""Describe runs: their configuration as plain values, their rows as data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rdmodel.errors import RdmodelError
from rdmodel.gpu.config import GPU
from rdmodel.trace import Trace

if TYPE_CHECKING:
    import pandas as pd


def frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as a data frame; raise `RdmodelError` without pandas (extra ``frame``)."""
    try:
        import pandas as pd
    except ImportError:
        raise RdmodelError("to_frame() needs pandas: pip install 'rdmodel[frame]'") from None
    return pd.DataFrame(rows)


def describe(trace: Trace, gpu: GPU, options: Any, seed: int) -> dict[str, Any]:
    """Return the complete configuration of a run: enough to repeat it."""
    return {"gpu": gpu.to_dict(), "options": asdict(options), "seed": seed, "trace": describe_trace(trace)}


def describe_trace(trace: Trace) -> dict[str, Any]:
    """Return the launch of a trace and, if they are known, the parameters of its kernel."""
    launch = trace.launch
    return {
        "kernel": launch.kernel,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "registers": launch.registers,
        "shared_memory": launch.shared_memory,
        "params": dict(trace.params),
    }
