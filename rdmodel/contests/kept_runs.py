"""Keep the runs of a contest in an answers file, so that an interrupted contest goes on where it stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rdmodel.answers.store import Answers
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU
from rdmodel.policies.registry import policy_fields
from rdmodel.results.describe import describe_trace
from rdmodel.results.records import result_from_record, result_to_record
from rdmodel.results.simulation import Simulation
from rdmodel.trace import Trace
from rdmodel.trace.caching import fingerprint

RunArguments = tuple[GPU, int, bool, Mapping[str, Any]]
"""The GPU of a run, its seed, whether it is checked, and the options of `simulate`, its policies among them."""


class KeptRuns:
    """The runs that an answers file has, and those that a contest adds to it; without a file there are none."""

    def __init__(self, answers: Answers | None, kernels: Sequence[Trace]) -> None:
        self._answers, self._kernels = answers, kernels
        self._fingerprints: dict[tuple[int, int], str] = {}

    def find(self, kernel: int, variant: int, arguments: RunArguments) -> Simulation | None:
        """Return the run of a kernel if the file has it."""
        question = self._question(kernel, variant, arguments)
        record = None if self._answers is None or question is None else self._answers.get(question)
        if record is None:
            return None
        return result_from_record(Simulation, record, arguments[0].to_dict(), self._kernels[kernel])

    def store(self, kernel: int, variant: int, arguments: RunArguments, run: Simulation) -> None:
        """Add a run to the file."""
        question = self._question(kernel, variant, arguments)
        if self._answers is not None and question is not None:
            with suppress(ConfigError):  # an infinite bound, which JSON cannot represent
                self._answers.put(question, result_to_record(run, arguments[0].to_dict()))

    def _question(self, kernel: int, variant: int, arguments: RunArguments) -> dict[str, Any] | None:
        """Return the question of a run, which determines its result; None if it depends on code of the user."""
        gpu, seed, check, options = arguments
        if self._answers is None or not gpu.l1.index.is_plain:
            return None
        trace = self._kernels[kernel]
        plain = gpu.to_dict()
        del plain["sources"]
        return {
            "op": "contest",
            "launch": {name: value for name, value in describe_trace(trace).items() if name != "params"},
            "blocks": self._fingerprint(kernel, options.get("blocks")),
            "gpu": plain,
            "variant": variant,
            # The places of arrays decide only how a variant moves them.
            "arrays": [[array.base, array.bytes] for array in trace.launch.arrays] if variant else [],
            "seed": seed,
            "check": check,
            "options": {**options, "policies": [policy_fields(policy) for policy in options["policies"]]},
        }

    def _fingerprint(self, kernel: int, blocks: int | None) -> str:
        """Return the fingerprint of the blocks that the runs of a kernel simulate."""
        trace = self._kernels[kernel]
        last = trace.launch.blocks if blocks is None else min(blocks, trace.launch.blocks)
        key = kernel, last
        if key not in self._fingerprints:
            self._fingerprints[key] = fingerprint(trace, range(last), {})
        return self._fingerprints[key]
