// syrk: c = alpha a a^T + beta c (PolyBench/GPU).
// One thread per element of the result, x along the row; the sum is kept in memory.

#ifndef N
#define N 1024
#endif
#ifndef M
#define M 1024
#endif
#ifndef ALPHA
#define ALPHA 1.5f
#endif
#ifndef BETA
#define BETA 1.25f
#endif

extern "C" __global__ void syrk(const float *a, float *c) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < N && j < N) {
    c[i * N + j] *= BETA;
    for (int k = 0; k < M; ++k) {
      c[i * N + j] += ALPHA * a[i * M + k] * a[j * M + k];
    }
  }
}
