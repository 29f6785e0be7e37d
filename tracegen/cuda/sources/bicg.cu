// bicg: the two products of the BiCG method, s = A^T r and q = A p (PolyBench/GPU).
// One thread per column (1) or row (2); the sum is kept in memory.

#ifndef NX
#define NX 4096
#endif
#ifndef NY
#define NY 4096
#endif

extern "C" __global__ void bicg_1(const float *A, const float *r, float *s) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j < NY) {
    s[j] = 0.0f;
    for (int i = 0; i < NX; ++i) {
      s[j] += r[i] * A[i * NY + j];
    }
  }
}

extern "C" __global__ void bicg_2(const float *A, const float *p, float *q) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < NX) {
    q[i] = 0.0f;
    for (int j = 0; j < NY; ++j) {
      q[i] += A[i * NY + j] * p[j];
    }
  }
}
