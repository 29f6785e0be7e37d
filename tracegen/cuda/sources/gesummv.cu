// gesummv: y = alpha A x + beta B x (PolyBench/GPU).
// One thread per row; both sums are kept in memory, and tmp and y begin at zero.

#ifndef N
#define N 4096
#endif
#ifndef ALPHA
#define ALPHA 1.5f
#endif
#ifndef BETA
#define BETA 1.25f
#endif

extern "C" __global__ void gesummv(const float *A, const float *B, const float *x, float *y, float *tmp) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) {
    for (int j = 0; j < N; ++j) {
      tmp[i] += A[i * N + j] * x[j];
      y[i] += B[i * N + j] * x[j];
    }
    y[i] = ALPHA * tmp[i] + BETA * y[i];
  }
}
