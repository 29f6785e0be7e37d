// Inclusive prefix sum in three launches: scan each block (Hillis and Steele, in shared memory), scan the sums of the
// blocks with one block, and add to each block the sum of the blocks before it. There are at most as many blocks as a
// block has threads.

__device__ int scan_in_block(int value, int *shared) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int by = 1; by < blockDim.x; by *= 2) {
    const int before = threadIdx.x >= by ? shared[threadIdx.x - by] : 0;
    __syncthreads();
    shared[threadIdx.x] += before;
    __syncthreads();
  }
  return shared[threadIdx.x];
}

extern "C" __global__ void scan_blocks(const int *in, int *out, int *sums, int n) {
  extern __shared__ int shared[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int sum = scan_in_block(i < n ? in[i] : 0, shared);
  if (i < n) {
    out[i] = sum;
  }
  if (threadIdx.x == blockDim.x - 1) {
    sums[blockIdx.x] = sum;
  }
}

extern "C" __global__ void scan_sums(int *sums, int blocks) {
  extern __shared__ int shared[];
  const int sum = scan_in_block(threadIdx.x < blocks ? sums[threadIdx.x] : 0, shared);
  if (threadIdx.x < blocks) {
    sums[threadIdx.x] = sum;
  }
}

extern "C" __global__ void scan_add(int *out, const int *sums, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (blockIdx.x > 0 && i < n) {
    out[i] += sums[blockIdx.x - 1];
  }
}
