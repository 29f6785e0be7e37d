"""The records of copies in a stream beside measured times."""

from rdmodel import presets
from validation.common.pages import tables_of
from validation.streams import __main__ as study


def test_the_page_is_that_of_the_records():
    assert tables_of(study.RESULTS) == study.page()


def test_every_published_copy_has_a_prediction():
    rows, found = study.published(), study.predicted()
    assert [(row.gpu, row.elements, row.threads) for row in rows] == [
        (row.gpu, row.elements, row.threads) for row in found
    ]


def test_large_copies_are_larger_than_the_l2_and_slower_than_the_peak_of_the_dram():
    smallest = min(row.elements for row in study.published())
    for row in study.published():
        if row.elements > smallest:
            gpu = presets.gpu(row.gpu)
            assert row.elements * study.ELEMENT_BYTES > 3 * gpu.l2.slices * gpu.l2.size * 0.95
            assert row.gigabytes * 1e9 < gpu.l2.slices * gpu.dram.width * gpu.dram.clock * 1e6


def test_recorded_predictions_are_those_of_the_model():
    rows = study.published()
    chosen = [rows[0], *(row for row in rows if row.gpu == "h200" and row.threads in (64, 256))][:3]
    known = {(row.gpu, row.elements, row.threads): row for row in study.predicted()}
    for row in chosen:
        assert study.predict(row) == known[row.gpu, row.elements, row.threads]
