// gemm: c = alpha a b + beta c (PolyBench/GPU).
// One thread per element of the result, x along the row; the sum is kept in memory.

#ifndef NI
#define NI 512
#endif
#ifndef NJ
#define NJ 512
#endif
#ifndef NK
#define NK 512
#endif
#ifndef ALPHA
#define ALPHA 1.5f
#endif
#ifndef BETA
#define BETA 1.25f
#endif

extern "C" __global__ void gemm(const float *a, const float *b, float *c) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < NI && j < NJ) {
    c[i * NJ + j] *= BETA;
    for (int k = 0; k < NK; ++k) {
      c[i * NJ + j] += ALPHA * a[i * NK + k] * b[k * NJ + j];
    }
  }
}
