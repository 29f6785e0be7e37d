"""The committed hypotheses about open errors: complete, and reproduced where that takes little time."""

from __future__ import annotations

import pytest

from validation.hypotheses import study

RECORD = study.read()
BY_PLACE = {(each.subject, each.engine, each.hypothesis): each.miss_rate for each in RECORD}
FAST = [each for each in study.HYPOTHESES if each.subject == "gemm" and each.engine == "model"][:4]


def test_the_record_has_every_hypothesis_once_and_in_order():
    assert list(BY_PLACE) == [(each.subject, each.engine, each.text) for each in study.HYPOTHESES]


def test_the_page_is_that_of_the_record():
    assert study.RESULTS.read_text() == study.page(RECORD)


@pytest.mark.parametrize("hypothesis", FAST, ids=lambda hypothesis: hypothesis.text)
def test_the_model_reproduces_the_record(hypothesis):
    found = study.run(hypothesis)
    assert found.miss_rate == pytest.approx(BY_PLACE[hypothesis.subject, "model", hypothesis.text], abs=1e-4)
