// 2mm: D = A B C + beta D as two products, tmp = A B first (PolyBench/GPU).
// One thread per element of the result, x along the row; the sum is kept in memory.

#ifndef NI
#define NI 2048
#endif
#ifndef NJ
#define NJ 2048
#endif
#ifndef NK
#define NK 2048
#endif
#ifndef NL
#define NL 2048
#endif
#ifndef BETA
#define BETA 1.25f
#endif

extern "C" __global__ void mm2_1(const float *A, const float *B, float *tmp) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < NI && j < NJ) {
    tmp[i * NJ + j] = 0.0f;
    for (int k = 0; k < NK; ++k) {
      tmp[i * NJ + j] += A[i * NK + k] * B[k * NJ + j];
    }
  }
}

extern "C" __global__ void mm2_2(const float *tmp, const float *C, float *D) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < NI && j < NL) {
    D[i * NL + j] *= BETA;
    for (int k = 0; k < NJ; ++k) {
      D[i * NL + j] += tmp[i * NJ + k] * C[k * NL + j];
    }
  }
}
