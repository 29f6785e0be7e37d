// corr: correlation matrix of the columns of data (PolyBench/GPU): means, standard deviations, centred and scaled
// data, and the products of all pairs of columns. One thread per column, or per element (reduce).

#ifndef M
#define M 2048
#endif
#ifndef N
#define N 2048
#endif
#ifndef PAD
#define PAD 0
#endif
#ifndef EPS
#define EPS 0.005f
#endif

// Rows and columns begin at PAD: 1 is the layout of the suite, whose first row and column are unused.
#define AT(i, j) ((i) * (M + PAD) + (j))

extern "C" __global__ void corr_mean(float *mean, const float *data) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x + PAD;
  if (j < M + PAD) {
    mean[j] = 0.0f;
    for (int i = PAD; i < N + PAD; ++i) {
      mean[j] += data[AT(i, j)];
    }
    mean[j] /= (float)N;
  }
}

extern "C" __global__ void corr_std(const float *mean, float *std, const float *data) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x + PAD;
  if (j < M + PAD) {
    std[j] = 0.0f;
    for (int i = PAD; i < N + PAD; ++i) {
      std[j] += (data[AT(i, j)] - mean[j]) * (data[AT(i, j)] - mean[j]);
    }
    std[j] /= (float)N;
    std[j] = sqrtf(std[j]);
    if (std[j] <= EPS) {
      std[j] = 1.0f;
    }
  }
}

extern "C" __global__ void corr_reduce(const float *mean, const float *std, float *data) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x + PAD;
  const int i = blockIdx.y * blockDim.y + threadIdx.y + PAD;
  if (i < N + PAD && j < M + PAD) {
    data[AT(i, j)] -= mean[j];
    data[AT(i, j)] /= sqrtf((float)N) * std[j];
  }
}

extern "C" __global__ void corr_corr(float *symmat, const float *data) {
  const int j1 = blockIdx.x * blockDim.x + threadIdx.x + PAD;
  if (j1 < M - 1 + PAD) {
    symmat[AT(j1, j1)] = 1.0f;
    for (int j2 = j1 + 1; j2 < M + PAD; ++j2) {
      symmat[AT(j1, j2)] = 0.0f;
      for (int i = PAD; i < N + PAD; ++i) {
        symmat[AT(j1, j2)] += data[AT(i, j1)] * data[AT(i, j2)];
      }
      symmat[AT(j2, j1)] = symmat[AT(j1, j2)];
    }
  }
}
