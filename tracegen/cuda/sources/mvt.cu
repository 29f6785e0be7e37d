// mvt: x1 = x1 + a y1 and x2 = x2 + a^T y2 (PolyBench/GPU).
// One thread per element of the result; the sum is kept in memory.

#ifndef N
#define N 4096
#endif

extern "C" __global__ void mvt_1(const float *a, float *x1, const float *y1) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) {
    for (int j = 0; j < N; ++j) {
      x1[i] += a[i * N + j] * y1[j];
    }
  }
}

extern "C" __global__ void mvt_2(const float *a, float *x2, const float *y2) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) {
    for (int j = 0; j < N; ++j) {
      x2[i] += a[j * N + i] * y2[j];
    }
  }
}
