// gramschmidt: step k of the Gram-Schmidt decomposition a = q r (PolyBench/GPU): norm of column k by one thread,
// column k of q, and the projections of the columns behind it.

#ifndef NI
#define NI 2048
#endif
#ifndef NJ
#define NJ 2048
#endif

extern "C" __global__ void gramschmidt_1(const float *a, float *r, int k) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x == 0) {
    float norm = 0.0f;
    for (int i = 0; i < NI; ++i) {
      norm += a[i * NJ + k] * a[i * NJ + k];
    }
    r[k * NJ + k] = sqrtf(norm);
  }
}

extern "C" __global__ void gramschmidt_2(const float *a, const float *r, float *q, int k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < NI) {
    q[i * NJ + k] = a[i * NJ + k] / r[k * NJ + k];
  }
}

extern "C" __global__ void gramschmidt_3(float *a, float *r, const float *q, int k) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j > k && j < NJ) {
    r[k * NJ + j] = 0.0f;
    for (int i = 0; i < NI; ++i) {
      r[k * NJ + j] += q[i * NJ + k] * a[i * NJ + j];
    }
    for (int i = 0; i < NI; ++i) {
      a[i * NJ + j] -= q[i * NJ + k] * r[k * NJ + j];
    }
  }
}
