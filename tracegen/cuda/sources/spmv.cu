// Product y = A x of a sparse matrix in CSR form, with a thread per row or a warp per row.

extern "C" __global__ void spmv_thread(const int *rows, const int *columns, const float *values, const float *x,
                                       float *y, int n) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < n) {
    float sum = 0.0f;
    for (int k = rows[row]; k < rows[row + 1]; ++k) {
      sum += values[k] * x[columns[k]];
    }
    y[row] = sum;
  }
}

extern "C" __global__ void spmv_warp(const int *rows, const int *columns, const float *values, const float *x,
                                     float *y, int n) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (row < n) {
    float sum = 0.0f;
    for (int k = rows[row] + lane; k < rows[row + 1]; k += 32) {
      sum += values[k] * x[columns[k]];
    }
    for (int by = 16; by > 0; by /= 2) {
      sum += __shfl_down_sync(0xffffffffu, sum, by);
    }
    if (lane == 0) {
      y[row] = sum;
    }
  }
}
