"""The records of operations of Liger-Kernel beside published times."""

from rdmodel import presets
from validation.common.pages import tables_of
from validation.liger import __main__ as study
from validation.liger.operations import names
from validation.liger.rows import predicted, published


def test_the_page_is_that_of_the_records():
    assert tables_of(study.RESULTS) == study.page()


def test_every_published_time_has_a_prediction():
    rows, found = published(), predicted()
    assert [row.key for row in rows] == [row.key for row in found]
    assert len({row.key for row in rows}) == len(rows)
    assert {row.operation for row in rows} == set(names())
    assert {row.gpu for row in rows} <= set(presets.names())


def test_arrays_of_the_rows_fit_in_memory():
    for row in published():
        numbers = 1
        for extent in row.extents[:2]:
            numbers *= extent
        assert numbers * (4 if row.type == "float32" else 2) < 2.2e9


def test_a_prediction_has_the_launch_of_each_kernel_and_all_of_its_kernels():
    for row in predicted():
        rates, _ = presets.rates_of(presets.gpu(row.gpu))
        assert row.kernels >= 1
        assert row.microseconds > row.kernels * rates["launch_latency"]
