"""The record of Triton kernels beside published times."""

from validation.common import records
from validation.common.pages import tables_of
from validation.triton import __main__ as study


def test_the_page_is_that_of_the_records():
    assert tables_of(study.RESULTS) == study.page()


def test_every_number_of_tokens_has_predictions_of_configurations_that_fit():
    published = records.from_csv(study.Published, study.PUBLISHED.read_text())
    predicted = records.from_csv(study.Predicted, study.PREDICTED.read_text())
    names = {f"{rows}x{columns} {warps} warps {stages} stages" for rows, columns, warps, stages in study.CONFIGURATIONS}
    assert {row.tokens for row in predicted} == {row.tokens for row in published}
    assert {row.configuration for row in predicted} <= names
    assert all(row.tflops < 989 for row in predicted)  # NVIDIA, H100 datasheet: peak of half precision, dense
