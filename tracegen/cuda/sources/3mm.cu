// 3mm: G = (A B) (C D) as three products, E = A B and F = C D first (PolyBench/GPU).
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
#ifndef NL
#define NL 512
#endif
#ifndef NM
#define NM 512
#endif

extern "C" __global__ void mm3_1(const float *A, const float *B, float *E) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < NI && j < NJ) {
    E[i * NJ + j] = 0.0f;
    for (int k = 0; k < NK; ++k) {
      E[i * NJ + j] += A[i * NK + k] * B[k * NJ + j];
    }
  }
}

extern "C" __global__ void mm3_2(const float *C, const float *D, float *F) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < NJ && j < NL) {
    F[i * NL + j] = 0.0f;
    for (int k = 0; k < NM; ++k) {
      F[i * NL + j] += C[i * NM + k] * D[k * NL + j];
    }
  }
}

extern "C" __global__ void mm3_3(const float *E, const float *F, float *G) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < NI && j < NL) {
    G[i * NL + j] = 0.0f;
    for (int k = 0; k < NJ; ++k) {
      G[i * NL + j] += E[i * NJ + k] * F[k * NL + j];
    }
  }
}
