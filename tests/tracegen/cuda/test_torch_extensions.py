"""Kernels of PyTorch extensions: built-in declarations take the place of PyTorch's headers in device code."""

from __future__ import annotations

import numpy as np
import pytest

from tracegen import cuda
from tracegen.cuda import nvrtc
from tracegen.cuda.compiler import compile, compile_program
from tracegen.cuda.source import read_source

pytestmark = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")

EXTENSION = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

template <typename scalar_t>
__global__ void scale(torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> x,
                      at::PackedTensorAccessor64<scalar_t, 2> y, float factor) {
  using sum_t = at::acc_type<scalar_t, true>;
  CUDA_KERNEL_LOOP(i, x.size(0) * x.size(1)) {
    const int row = i / x.size(1), column = i % x.size(1);
    sum_t value = x[row][column];
    y[row][column] = scalar_t(value * factor);
  }
}

torch::Tensor scale_cuda(torch::Tensor x, double factor) {
  TORCH_CHECK(x.is_cuda(), "x must be on a GPU");
  auto y = torch::empty_like(x);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "scale", [&] {
    scale<scalar_t><<<4, 64, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(), y.packed_accessor64<scalar_t, 2>(), factor);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scale", &scale_cuda); }
"""


@pytest.mark.parametrize(("name", "dtype"), [("float", np.float32), ("c10::Half", np.float16)])
def test_a_kernel_takes_accessors_of_tensors_by_their_fields(name, dtype):
    x, y = np.arange(24, dtype=dtype).reshape(4, 6), np.zeros((4, 6), dtype)
    layout = {index: f"void *data; {index} sizes[2]; {index} strides[2]" for index in ("int", "long long")}
    accessors = [
        {"struct": layout[index], "data": array, "sizes": [4, 6], "strides": [6, 1]}
        for array, index in ((x, "int"), (y, "long long"))
    ]
    cuda.trace(EXTENSION, f"scale<{name}>", 1, 32, [*accessors, 0.5], check=True)
    assert np.array_equal(y, x / 2)


@pytest.mark.parametrize("number", ["at::Half", "c10::BFloat16"])
def test_numbers_of_16_bits_compute_in_single_precision(number):
    program = f"""#include <ATen/ATen.h>
    __global__ void k(const {number} *a, const {number} *b, {number} *c, float *d) {{
      const int i = threadIdx.x;
      c[i] = a[i] * b[i] + b[i];
      c[i] += a[i] / b[i];
      d[i] = a[i] - 0.5f;
    }}"""
    half, random = number.endswith("Half"), np.random.default_rng(7)
    a, b = (random.uniform(1, 4, 32).astype(np.float32) for _ in range(2))

    def rounded(x):
        if half:
            return x.astype(np.float16).astype(np.float32)
        bits = x.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32)

    def packed(x):
        return x.astype(np.float16).view(np.uint16) if half else (x.view(np.uint32) >> 16).astype(np.uint16)

    a, b = rounded(a), rounded(b)
    c, d = np.zeros(32, np.uint16), np.zeros(32, np.float32)
    cuda.trace(program, "k", 1, 32, [packed(a), packed(b), c, d], check=True)
    assert np.array_equal(c, packed(rounded(rounded(rounded(a * b) + b) + rounded(a / b))))
    assert np.array_equal(d, a - np.float32(0.5))


def test_complex_numbers_are_those_of_numpy():
    program = """#include <c10/util/complex.h>
    using z = c10::complex<double>;
    __global__ void k(const z *a, const z *b, z *c) {
      const int i = threadIdx.x;
      c[i] = a[i] * b[i] / z(2.0, 1.0) - std::conj(b[i]) + z(std::norm(a[i])) * 0.5;
    }"""
    random = np.random.default_rng(1)
    a, b = (random.normal(size=32) + 1j * random.normal(size=32) for _ in range(2))
    c = np.zeros(64)
    parts = [np.ascontiguousarray(z).view(np.float64) for z in (a, b)]
    cuda.trace(program, "k", 1, 32, [*parts, c], check=True)
    wanted = a * b / (2 + 1j) - np.conj(b) + np.abs(a) ** 2 / 2
    np.testing.assert_allclose(c.view(np.complex128), wanted, rtol=1e-12)


def test_functions_of_warps_are_those_of_the_compiler():
    program = """#include <ATen/cuda/DeviceUtils.cuh>
    using namespace torch;
    __global__ void k(int *x) {
      int sum = threadIdx.x;
      for (int lanes = 16; lanes > 0; lanes /= 2) sum += WARP_SHFL_XOR(sum, lanes);
      x[threadIdx.x] = WARP_SHFL(sum, 0) + WARP_SHFL_DOWN(sum, 1) + (WARP_BALLOT(threadIdx.x < 3) & WARP_ACTIVE());
    }"""
    x = np.zeros(32, np.int32)
    cuda.trace(program, "k", 1, 32, [x], check=True)
    assert set(x) == {2 * 496 + 7}


def test_the_headers_of_pytorch_are_left_aside_where_they_are_given(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "extension.h").write_text("#error of the host\n")
    program = compile_program(read_source(EXTENSION), includes=[tmp_path], kernels=["scale<float>"])
    assert ".entry" in program.ptx and not program.notes


def test_types_that_only_the_arguments_of_a_template_name_stay():
    text = """template <int N_> struct Traits { static constexpr int N = N_; };
    template <class T> __global__ void fill(int *x) { x[threadIdx.x] = T::N; }
    template <class T> void launch(int *x) { fill<T><<<1, 32>>>(x); }
    void run(int *x) { launch<Traits<8>>(x); }"""
    x = np.zeros(32, np.int32)
    cuda.trace(text, "fill<Traits<5>>", 1, 32, [x], check=True)
    assert set(x) == {5}


TUPLES = """
#include <vector>
#include <thrust/tuple.h>
__device__ thrust::tuple<int, float> both(int x) { return thrust::make_tuple(x + 1, 0.5f * x); }
__device__ std::tuple<int, int> more(int x) { return std::make_tuple(2 * x, 3); }
__device__ std::optional<int> maybe(int x) { if (x > 0) return x; return std::nullopt; }
struct Category { using kind = std::forward_iterator_tag; };
template <class T> struct Array {
  T values[2];
  Array(const std::vector<T> &given) { for (int i = 0; i < 2; i++) values[i] = given[i]; }
  __device__ Array(T a, T b) : values{a, b} {}
};
__global__ void k(float *x) {
  Array<float> array(thrust::get<1>(both(x[0])), std::get<0>(more(4)));
  x[0] = array.values[0] + array.values[1] + thrust::get<0>(both(1)) + sizeof(Category::kind) + *maybe(5);
}
"""


@pytest.mark.skipif(
    not any((folder / "cuda" / "std" / "tuple").is_file() for folder in nvrtc.header_folders()),
    reason="needs the C++ library of NVIDIA: pip install 'rdmodel[cuda]'",
)
def test_types_of_the_libraries_that_host_and_device_share_compile():
    x = np.array([3], np.float32)
    cuda.trace(TUPLES, "k", 1, 1, [x], check=True)
    assert x.tolist() == [1.5 + 8 + 2 + 1 + 5]


def test_words_of_gcc_and_lists_of_numbers_compile():
    text = """#include <algorithm>
    #include <cub/device/device_scan.cuh>
    constexpr int most(std::initializer_list<int> list) { return std::max(list); }
    __global__ void k(int *x) {
      __asm__ __volatile__("membar.gl;");
      x[0] = most({1, 7, 3}) + std::min({5, x[1]});
    }"""
    assert ".entry" in compile(text)
