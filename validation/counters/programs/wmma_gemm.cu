// The product of a 4096 x 4096 and a 4096 x 128 matrix by the kernel that CUTLASS 1.3 calls wmma_gemm_nn.
#include "cutlass/gemm/gemm.h"
#include "cutlass/gemm/wmma_gemm_traits.h"

int main() {
  constexpr auto layout = cutlass::MatrixLayout::kColumnMajor;
  using Gemm = cutlass::gemm::Gemm<cutlass::gemm::WmmaGemmTraits<layout, layout>>;
  const int m = 4096, n = 128, k = 4096;
  half *a, *b;
  float *c, *d;
  cudaMalloc(&a, sizeof(half) * m * k);
  cudaMalloc(&b, sizeof(half) * k * n);
  cudaMalloc(&c, sizeof(float) * m * n);
  cudaMalloc(&d, sizeof(float) * m * n);
  Gemm::Params params;
  if (params.initialize(m, n, k, 1.0f, a, m, b, k, 0.0f, c, m, d, m)) return 1;
  return Gemm::launch(params) != cudaSuccess;
}
