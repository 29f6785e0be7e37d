"""The records of kernels of Triton and Gluon beside published speeds."""

import pytest

from rdmodel import presets
from validation.common import records
from validation.common.pages import tables_of
from validation.triton import __main__ as study
from validation.triton import attention_times, dot_times, product_times

PEAKS = {"h100": 1070.0, "gb200": 2447.0}
"""Of half precision, dense, at the highest clock of the presets."""


def test_the_page_is_that_of_the_records():
    assert tables_of(study.RESULTS) == study.page()


def test_every_number_of_tokens_has_predictions_of_configurations_that_fit():
    published = records.from_csv(attention_times.Published, attention_times.PUBLISHED.read_text())
    predicted = records.from_csv(attention_times.Predicted, attention_times.PREDICTED.read_text())
    names = {
        f"{rows}x{columns} {warps} warps {stages} stages"
        for rows, columns, warps, stages in attention_times.CONFIGURATIONS
    }
    assert {row.tokens for row in predicted} == {row.tokens for row in published}
    assert {row.configuration for row in predicted} <= names
    assert all(row.tflops < PEAKS["h100"] for row in predicted)


def test_every_product_in_triton_has_predictions_of_configurations_that_fit():
    predicted = records.from_csv(dot_times.Predicted, dot_times.PREDICTED.read_text())
    assert {each.row for each in predicted} == set(range(len(dot_times.published())))
    assert all(0 < each.share < 1 for each in predicted)
    names = {row for row, _ in dot_times.tasks()}
    assert names == {each.row for each in predicted}


def test_every_published_product_has_a_prediction_below_the_peak():
    published = product_times.published()
    predicted = records.from_csv(product_times.Predicted, product_times.PREDICTED.read_text())
    assert [row.row for row in predicted] == list(range(len(published)))
    for row, found in zip(published, predicted, strict=True):
        assert 0 < found.tflops < PEAKS[row.gpu]
        assert 0 < row.tflops < PEAKS[row.gpu]
        assert found.clock <= product_times.gpu_of(row.gpu).clock


def test_the_power_of_the_predicted_products_is_bounded():
    rows = product_times.published()
    predicted = records.from_csv(product_times.Predicted, product_times.PREDICTED.read_text())
    for found in predicted:
        gpu = product_times.gpu_of(rows[found.row].gpu)
        least, share = presets.rates_of(gpu)[0]["matrix_clock"], found.clock / gpu.clock
        # Tensor cores are busy for the share of the peak over that of the clock.
        power = found.tflops / PEAKS[rows[found.row].gpu] * share**2
        assert power <= 1.02 * least**3
        assert share == 1 or power == pytest.approx(least**3, rel=0.1)


def test_a_short_product_is_predicted_as_in_the_record():
    pytest.importorskip("triton")
    recorded = {row.row: row for row in records.from_csv(product_times.Predicted, product_times.PREDICTED.read_text())}
    for number, row in enumerate(product_times.published()):
        if row.extent == 512 and row.way == "ring":
            assert product_times.predict(number).tflops == pytest.approx(recorded[number].tflops, rel=0.05)
