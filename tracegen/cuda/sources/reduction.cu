// Sum of n numbers: each thread strides over the grid, a block adds up in shared memory and, for its last warp, through
// shuffles; one atomic addition per block into total, which begins at zero. Blocks of 32, 64, 128 ... threads.

extern "C" __global__ void reduction(const float *values, float *total, int n) {
  extern __shared__ float partial[];
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += values[i];
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half >= 32; half /= 2) {
    if (threadIdx.x < half) {
      partial[threadIdx.x] += partial[threadIdx.x + half];
    }
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    sum = partial[threadIdx.x];
    for (int by = 16; by > 0; by /= 2) {
      sum += __shfl_down_sync(0xffffffffu, sum, by);
    }
    if (threadIdx.x == 0) {
      atomicAdd(total, sum);
    }
  }
}
