"""The records of products in single and half precision beside published speeds."""

import numpy as np

from rdmodel import presets
from validation.common.pages import tables_of
from validation.gemm import __main__ as study
from validation.gemm.kernels import KERNELS, TYPES, launch

KERNEL = """
#include <cuda_fp16.h>
template <typename T>
__global__ void gemm_v01(size_t m, size_t n, size_t k, T alpha, T const *A, size_t lda, T const *B, size_t ldb, T beta,
                         T *C, size_t ldc) {
  size_t const column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  C[row * ldc + column] = alpha * A[row * lda] * B[column] + beta * C[row * ldc + column];
}
"""


def test_the_page_is_that_of_the_records():
    assert tables_of(study.RESULTS) == study.page()


def test_every_published_speed_has_a_prediction():
    rows, found = study.published(), study.predicted()
    assert [(row.precision, row.kernel) for row in rows] == [(row.precision, row.kernel) for row in found]
    assert {row.precision for row in rows} == set(TYPES)
    assert {row.kernel for row in rows} == set(KERNELS)
    rates, _ = presets.rates_of(presets.gpu(study.GPU))
    gpu = presets.gpu(study.GPU)
    for row, predicted in zip(rows, found, strict=True):
        fastest = (
            rates["matrix_fp16_fp16"] if "v07" in row.kernel else 2 * rates["fp32"] * (1 + (row.precision == "fp16"))
        )
        assert 0 < predicted.tflops < fastest * gpu.sms * gpu.clock / 1e6


def test_a_kernel_is_launched_as_its_program_does(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "include").mkdir()
    (tmp_path / "src" / "01_coalesced_global_memory_access.cu").write_text(KERNEL)
    for precision in TYPES:
        made = launch(tmp_path, precision, "v01")
        assert (made.launch.grid, made.launch.block) == ((128, 128, 1), (32, 32, 1))
        assert sorted({array.bytes for array in made.launch.arrays}) == [
            4096 * 4096 * np.dtype("f4" if precision == "fp32" else "f2").itemsize
        ]
