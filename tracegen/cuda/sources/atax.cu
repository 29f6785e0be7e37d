// atax: y = A^T (A x), with tmp = A x first (PolyBench/GPU).
// One thread per row (1) or column (2); the sum is kept in memory.

#ifndef NX
#define NX 4096
#endif
#ifndef NY
#define NY 4096
#endif

extern "C" __global__ void atax_1(const float *A, const float *x, float *tmp) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < NX) {
    tmp[i] = 0.0f;
    for (int j = 0; j < NY; ++j) {
      tmp[i] += A[i * NY + j] * x[j];
    }
  }
}

extern "C" __global__ void atax_2(const float *A, float *y, const float *tmp) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j < NY) {
    y[j] = 0.0f;
    for (int i = 0; i < NX; ++i) {
      y[j] += A[i * NY + j] * tmp[i];
    }
  }
}
