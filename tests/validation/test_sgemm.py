"""The records of products in single precision beside published speeds."""

import subprocess
import sys

import pytest

import rdmodel as rd
from rdmodel import presets
from validation.common.pages import tables_of
from validation.sgemm import __main__ as study
from validation.sgemm.kernels import COMMITS, KERNELS, launch

PEAKS = {"a6000": 38_710.0, "a100-40g": 19_490.0}
"""GFLOPS at the highest clock of the presets."""

KERNEL = """
__global__ void sgemm_naive(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    C[x * N + y] = alpha * A[x * K] * B[y] + beta * C[x * N + y];
}
"""


def test_the_page_is_that_of_the_records():
    assert tables_of(study.RESULTS) == study.page()


def test_every_published_speed_has_a_prediction_below_the_peak():
    rows, found = study.published(), study.predicted()
    assert [(row.gpu, row.kernel) for row in rows] == [(row.gpu, row.kernel) for row in found]
    assert {gpu: {row.kernel for row in rows if row.gpu == gpu} for gpu in KERNELS} == {
        gpu: set(kernels) for gpu, kernels in KERNELS.items()
    }
    assert all(row.commit == COMMITS[row.gpu] for row in rows)
    for measured, predicted in zip(rows, found, strict=True):
        assert 0 < measured.gflops < PEAKS[measured.gpu]
        assert 0 < predicted.gflops < PEAKS[measured.gpu]


@pytest.mark.parametrize("gpu", KERNELS)
def test_the_blocks_of_each_kernel_cover_the_product(gpu):
    for number, kernel in KERNELS[gpu].items():
        threads = kernel.block if isinstance(kernel.block, int) else kernel.block[0] * kernel.block[1]
        results = kernel.tile[0] * kernel.tile[1]
        assert results % threads == 0, number
        assert 32 <= threads <= presets.gpu(gpu).max_block_threads, number


def test_a_kernel_is_read_from_the_checkout_of_its_gpu(tmp_path):
    folder = tmp_path / "a6000" / "src" / "kernels"
    folder.mkdir(parents=True)
    (folder / "1_naive.cuh").write_text(KERNEL)
    trace = launch(tmp_path, "a6000", 1)
    assert (trace.launch.grid, trace.launch.block) == ((128, 128, 1), (32, 32, 1))
    with pytest.raises(rd.RdmodelError):
        launch(tmp_path, "a6000", 2)


def test_the_command_writes_no_page_that_differs():
    command = [sys.executable, "-m", "validation.sgemm", "--check"]
    assert subprocess.run(command, check=False).returncode == 0
