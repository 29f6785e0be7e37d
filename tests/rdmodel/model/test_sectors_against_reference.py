"""The compiled core against `rdmodel.reference` where lines have sectors: the same counts, to the unit."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rdmodel import predict
from rdmodel.errors import TraceError
from rdmodel.gpu.config import GPU
from rdmodel.model.options import Options
from rdmodel.results.prediction import Prediction
from tests.support.random_predictions import counts_of, expected
from tests.support.random_sectors import OPTIONS, Program, coalesced, machines, make_trace, programs


def check(program: Program, gpu: GPU, seed: int = 0, **given: object) -> Prediction | None:
    trace = make_trace(program)
    options = Options(**given).resolve(gpu)
    want = expected(trace, coalesced(program, gpu.l1, options), gpu, options, seed)
    try:
        got = predict(trace, gpu, seed=seed, **given)
    except TraceError:
        assert not sum(counts.transactions for counts in want)
        return None
    assert [counts_of(sm) for sm in got.per_sm] == [
        {name: getattr(counts, name) for name in counts_of(got.per_sm[0])} for counts in want
    ]
    histogram: dict[int, int] = {}
    for counts in want:
        for distance, count in counts.histogram.items():
            histogram[distance] = histogram.get(distance, 0) + count
    assert dict(got.histogram) == {d: n for d, n in histogram.items() if n}
    assert got.sectors == got.hits + got.latency_misses + got.misses.total
    return got


@settings(max_examples=800, deadline=None)
@given(programs(), machines(), OPTIONS, st.integers(0, 3))
def test_the_compiled_core_equals_the_reference_on_sectored_machines(program, gpu, options, seed):
    check(program, gpu, seed, **options)
