// One pass of corr_corr and covar_covar (tracegen/cuda/sources): all pairs of columns that are `distance` apart.
// One thread per column; a whole kernel is its passes one after the other, in ascending order of distance.

#ifndef M
#define M 2048
#endif
#ifndef N
#define N 2048
#endif
#ifndef PAD
#define PAD 0
#endif

#define AT(i, j) ((i) * (M + PAD) + (j))

extern "C" __global__ void correlate_pass(float *symmat, const float *data, int distance) {
  const int j1 = blockIdx.x * blockDim.x + threadIdx.x + PAD;
  const int j2 = j1 + distance;
  if (j2 < M + PAD) {
    symmat[AT(j1, j2)] = 0.0f;
    for (int i = PAD; i < N + PAD; ++i) {
      symmat[AT(j1, j2)] += data[AT(i, j1)] * data[AT(i, j2)];
    }
    symmat[AT(j2, j1)] = symmat[AT(j1, j2)];
  }
}
