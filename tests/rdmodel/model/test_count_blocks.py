"""Counts of blocks that do not depend on time, and their totals for a grid."""

from __future__ import annotations

import numpy as np
import pytest

import rdmodel as rd
import tracegen
from rdmodel.gpu.memory import L2Config
from rdmodel.model.count_blocks import LEAST_ERROR, count_blocks
from rdmodel.model.options import Options
from tests.support.builders import LINE, load, make_gpu, make_trace

GPU = make_gpu(sector=32).replace(
    sms=4, l2=L2Config(slices=2, ways=8, size=64 * LINE, sector=32, index="hash", partitions=1)
)
OPTIONS = Options(l2=True).resolve(GPU)


@pytest.mark.parametrize("kernel", [("gemm", {"NI": 32, "NJ": 64, "NK": 24}), ("2dconv", {"NI": 40, "NJ": 64})])
def test_counts_of_all_blocks_are_those_of_a_run_without_error(kernel):
    name, sizes = kernel
    trace = tracegen.kernel(name, **sizes)
    blocks = trace.launch.blocks
    assert blocks <= 24
    counted = count_blocks(trace, GPU, OPTIONS, blocks, 1e6, 0)
    run = rd.predict(trace, GPU, l2=True, work=None, histogram=False, n_jobs=1)
    assert counted.total("work").value == run.requests
    for of_grid in ("transactions", "sectors"):
        assert counted.total(of_grid).value == getattr(run, of_grid)
    assert counted.total("writes").value == run.l2.writes
    assert not any(counted.errors.values())


def test_a_sample_of_blocks_that_are_alike_has_the_least_error():
    counted = count_blocks(tracegen.kernel("vectoradd", N=256 * 1000), GPU, OPTIONS, 1000, 1e6, 0)
    total = counted.total("sectors")
    assert total.value == 1000 * 256 * 2 * 4 / 32
    assert total.error == pytest.approx(LEAST_ERROR * total.value)


def test_the_error_of_a_sample_says_how_much_blocks_differ():
    lengths = np.random.default_rng(1).integers(1, 40, 3000)
    trace = make_trace([[[load(1)] * int(length)] for length in lengths], 1)
    total = count_blocks(trace, GPU, OPTIONS, trace.launch.blocks, 3000 * 100, 0).total("work")
    assert abs(total.value - lengths.sum()) < 4 * total.error
    assert total.error == pytest.approx(3000 * lengths.std() / 90**0.5, rel=0.3)
