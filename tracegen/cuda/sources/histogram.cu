// Histogram of n bytes: every block counts in shared memory with atomics, then adds its counts to bins, which must
// start at zero.

#define BINS 256

extern "C" __global__ void histogram(const unsigned char *data, unsigned *bins, int n) {
  __shared__ unsigned counts[BINS];
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
    counts[bin] = 0;
  }
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&counts[data[i]], 1u);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
    if (counts[bin] > 0) {
      atomicAdd(&bins[bin], counts[bin]);
    }
  }
}
