"""Ship traces to worker processes, which open each of them once and keep the last one."""

from __future__ import annotations

import pickle
import threading

import numpy as np
from numpy.typing import NDArray

from rdmodel.execution.processes import has_own_processes, make_picklable
from rdmodel.trace import Trace
from rdmodel.trace.caching import CachedTrace, MaterialisedTrace

Shipment = Trace | NDArray[np.uint8]
"""A trace whose columns processes of one machine map, or the bytes of a pickled one."""

_kept = threading.local()
"""In a thread of a worker: the token and the trace of the last call. Workers of Dask may have several threads."""


def pack_trace(trace: Trace) -> Shipment:
    """Return a trace in a form that workers can receive; they cache its blocks themselves.

    Own processes map the same columns. Other traces are pickled once: joblib's own processes map long arrays, too, and
    Dask sends an array to each worker once.
    """
    if trace.stored and has_own_processes():
        return make_picklable(trace)
    # joblib's wrapper also pickles classes and functions that a script defines.
    from joblib import wrap_non_picklable_objects

    original = trace.original if isinstance(trace, CachedTrace) else make_picklable(trace)
    return np.frombuffer(pickle.dumps(wrap_non_picklable_objects(original, keep_wrapper=False)), np.uint8)


def open_shipment(token: str, packed: Shipment) -> Trace:
    """Return the trace that `token` identifies, as this worker has kept it or as it was packed."""
    kept: tuple[str, Trace] | None = getattr(_kept, "trace", None)
    if kept is None or kept[0] != token:
        kept = _kept.trace = token, packed if isinstance(packed, Trace) else _unpack(packed)
    return kept[1]


def _unpack(packed: NDArray[np.uint8]) -> Trace:
    trace: Trace = pickle.loads(packed.data)
    return trace if trace.stored or isinstance(trace, MaterialisedTrace) else CachedTrace(trace)
