// 3dconv: 3x3x3 convolution of A into B with 11 points, interior of plane i (PolyBench/GPU).
// One launch per plane, one thread per point of it, x along k.

#ifndef NI
#define NI 256
#endif
#ifndef NJ
#define NJ 256
#endif
#ifndef NK
#define NK 256
#endif

#define AT(i, j, k) (((i) * NJ + (j)) * NK + (k))

extern "C" __global__ void conv3d_1(const float *A, float *B, int i) {
  const int k = blockIdx.x * blockDim.x + threadIdx.x;
  const int j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i > 0 && i < NI - 1 && j > 0 && j < NJ - 1 && k > 0 && k < NK - 1) {
    B[AT(i, j, k)] = 0.2f * A[AT(i - 1, j - 1, k - 1)] + 0.4f * A[AT(i + 1, j - 1, k - 1)] -
                     0.3f * A[AT(i, j - 1, k)] + 0.6f * A[AT(i, j, k)] - 0.9f * A[AT(i, j + 1, k)] +
                     0.5f * A[AT(i - 1, j - 1, k + 1)] + 0.7f * A[AT(i + 1, j - 1, k + 1)] -
                     0.8f * A[AT(i - 1, j, k + 1)] + 0.1f * A[AT(i + 1, j, k + 1)] +
                     1.1f * A[AT(i - 1, j + 1, k + 1)] - 1.3f * A[AT(i + 1, j + 1, k + 1)];
  }
}
