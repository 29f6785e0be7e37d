// syr2k: c = alpha a b^T + alpha b a^T + beta c (PolyBench/GPU).
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

extern "C" __global__ void syr2k(const float *a, const float *b, float *c) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < N && j < N) {
    c[i * N + j] *= BETA;
    for (int k = 0; k < M; ++k) {
      c[i * N + j] += ALPHA * a[i * M + k] * b[j * M + k] + ALPHA * b[i * M + k] * a[j * M + k];
    }
  }
}
