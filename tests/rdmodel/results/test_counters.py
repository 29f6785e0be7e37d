"""The lists of counters come from the dataclasses: a counter that is added there is combined everywhere."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pytest

from rdmodel import L2Prediction, MissCounts, Prediction, SmCounts, predict
from rdmodel.estimation.extrapolation import ExcerptRun, collect_counts, extrapolate_counts, replace_counts
from rdmodel.model.averages import average, combine_counters, subtract_counts
from rdmodel.results.counts import StoreCounts
from rdmodel.results.prediction import list_counters, mean_l2
from tests.support.builders import BUSY, SMALL


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreSmCounts(SmCounts):
    """Counters of an SM, and one more."""

    row_hits: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePrediction(Prediction):
    """A prediction with that counter."""

    row_hits: float


@pytest.fixture
def with_row_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SmCounts, "COUNTERS", list_counters(MoreSmCounts))


PLAIN = predict(BUSY, SMALL, histogram=False)


def with_counter(plain: object, kind: type, **more: object) -> object:
    """Return a dataclass as one of its subclass `kind`, with more fields."""
    return kind(**{field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)} | more)


def sm_counts(row_hits: float) -> SmCounts:
    return with_counter(PLAIN.per_sm[0], MoreSmCounts, row_hits=row_hits)


def prediction(row_hits: float) -> Prediction:
    return with_counter(PLAIN, MorePrediction, row_hits=row_hits, per_sm=(sm_counts(row_hits),))


def test_the_counters_are_the_fields_in_order():
    requested = ("requests", "transactions", "sectors", "hits", "latency_misses", "tag_misses", "sector_misses")
    past_the_l1 = ("bypassed_requests", "bypassed_transactions", "bypassed_sectors")
    plain = (*requested, "stalls_mshr", "stalls_ways", "bypassed", "steps", *past_the_l1)
    assert plain == SmCounts.COUNTERS
    assert MissCounts.CAUSES == ("compulsory", "capacity", "associativity")
    assert StoreCounts.COUNTS == ("requests", "transactions", "sectors", "hits")
    served = ("reads", "hits", "misses", "writes", "write_hits", "write_backs", "dirty")
    assert (
        *served,
        "dram_read_sectors",
        "partition_sectors",
        "constant_sectors",
        "atomic_sectors",
    ) == L2Prediction.COUNTERS
    assert set(SmCounts.COUNTERS) <= {field.name for field in dataclasses.fields(Prediction)}
    assert list_counters(MoreSmCounts) == (*plain, "row_hits")


@pytest.mark.usefixtures("with_row_hits")
def test_a_counter_that_is_added_is_summed_over_sms_and_subtracted():
    assert combine_counters(sum, [sm_counts(2.0), sm_counts(3.0)])["row_hits"] == 5.0
    assert subtract_counts(sm_counts(3.0), sm_counts(2.0)).row_hits == 1.0


@pytest.mark.usefixtures("with_row_hits")
def test_a_counter_that_is_added_is_averaged_over_seeds():
    mean = average([prediction(2.0), prediction(3.0)])
    assert (mean.row_hits, mean.per_sm[0].row_hits) == (2.5, 2.5)


@pytest.mark.usefixtures("with_row_hits")
def test_a_counter_that_is_added_is_extrapolated():
    one = prediction(2.0)
    counts, _ = extrapolate_counts(ExcerptRun(collect_counts(one, 0.0), 1.0), None, 8.0)
    assert replace_counts(one, counts, SMALL).row_hits == 16.0


def test_means_of_the_l2_are_means_of_its_counters():
    found = predict(BUSY, SMALL, l2=True, seeds=2)
    for name in L2Prediction.COUNTERS:
        values = [getattr(run.l2, name) for run in found.runs]
        assert getattr(mean_l2([run.l2 for run in found.runs]), name) == sum(values) / 2
