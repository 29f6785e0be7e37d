"""Assert the traffic of kernels in tests, for example with pytest (docs/regressions.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rdmodel.comparison.conditions import counter_value, read_condition
from rdmodel.comparison.differences import describe_change, number_text, traffic_counters
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.model.predict import predict
from rdmodel.results.prediction import Prediction
from rdmodel.trace import Trace

Baseline = Prediction | Mapping[str, Any] | str | os.PathLike[str]
"""An older prediction: the object, its `to_dict`, or a JSON file of ``rdmodel predict --json``."""


def assert_traffic(
    kernel: Trace | Prediction,
    gpu: str | GPU | None = None,
    *conditions: str,
    baseline: Baseline | None = None,
    **options: Any,
) -> Prediction:
    """Predict a kernel, and raise `AssertionError` unless all conditions hold for its counters.

    Parameters
    ----------
    kernel : Trace or Prediction
        The kernel, or its prediction; then `gpu` and `options` must be left out.
    gpu : str or GPU, optional
        As in `predict`.
    *conditions : str
        Such as ``"miss_rate <= 0.2"``, ``"dram_bytes < 9e6"`` or, with a `baseline`, ``"dram_bytes <= +5%"``: a change
        in percent. The counters are those of `rdmodel.diff`.
    baseline : Prediction, mapping or path, optional
        An older prediction, with which changes are compared.
    **options
        Options of `predict`; ``l2=True`` counts the traffic of the L2 and the DRAM.

    Returns
    -------
    Prediction
        The prediction, for further assertions.

    Raises
    ------
    AssertionError
        If a condition does not hold; the message has each of them, with the counter and its older value.
    ConfigError
        If there is no condition, a text is not one, a counter is unknown, or the baseline cannot be read.
    """
    if not conditions:
        raise ConfigError("conditions: must not be empty; for example 'miss_rate <= 0.2'")
    if isinstance(kernel, Prediction):
        if gpu is not None or options:
            raise ConfigError("gpu and options: must be left out for a prediction, which has its own")
        found = kernel
    else:
        found = predict(kernel, gpu, **options)
    counters, old = traffic_counters(found), None if baseline is None else traffic_counters(_read(baseline))
    failed = []
    for text in conditions:
        condition = read_condition(text)
        new = counter_value(counters, condition)
        before = None if old is None else counter_value(old, condition)
        if not condition.holds(before, new):
            value = number_text(new) if before is None else describe_change(before, new)
            failed.append(f"not {condition.text}: {condition.counter} is {value}")
    if failed:
        raise AssertionError("\n".join([f"{found.kernel} on {found.gpu}:", *failed]))
    return found


def _read(baseline: Baseline) -> Prediction | Mapping[str, Any]:
    """Return the older prediction; raise `ConfigError` if its file cannot be read."""
    if isinstance(baseline, Prediction | Mapping):
        return baseline
    path = Path(baseline)
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"baseline={os.fspath(path)!r}: {error.strerror or error}") from None
    except ValueError:
        raise ConfigError(f"baseline={os.fspath(path)!r}: is no JSON file; rdmodel predict --json writes one") from None
    if not isinstance(plain, dict):
        raise ConfigError(f"baseline={os.fspath(path)!r}: must hold the result of one kernel")
    return plain
