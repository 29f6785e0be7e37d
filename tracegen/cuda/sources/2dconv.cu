// 2dconv: 3x3 convolution of A into B, interior points only (PolyBench/GPU).
// One thread per point, x along the row.

#ifndef NI
#define NI 4096
#endif
#ifndef NJ
#define NJ 4096
#endif

extern "C" __global__ void conv2d_1(const float *A, float *B) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i > 0 && i < NI - 1 && j > 0 && j < NJ - 1) {
    B[i * NJ + j] = 0.2f * A[(i - 1) * NJ + (j - 1)] - 0.3f * A[(i - 1) * NJ + j] + 0.4f * A[(i - 1) * NJ + (j + 1)] +
                    0.5f * A[i * NJ + (j - 1)] + 0.6f * A[i * NJ + j] + 0.7f * A[i * NJ + (j + 1)] -
                    0.8f * A[(i + 1) * NJ + (j - 1)] - 0.9f * A[(i + 1) * NJ + j] + 0.1f * A[(i + 1) * NJ + (j + 1)];
  }
}
