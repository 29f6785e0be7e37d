// The kernels that were measured on a Tesla K40c, written from what other_gpus.csv says of them.
// Products of n x n matrices, one thread per element, block 16x16: naive and in tiles, both also with x and y swapped,
// so that a warp's loads are 4 * n bytes apart. And two kernels that read everything once.

#define TILE 16

extern "C" __global__ void matMul_gpu(const float *a, const float *b, float *c, int n) {
  const int x = blockIdx.x * TILE + threadIdx.x;
  const int y = blockIdx.y * TILE + threadIdx.y;
  float sum = 0.0f;
  for (int k = 0; k < n; ++k) {
    sum += a[y * n + k] * b[k * n + x];
  }
  c[y * n + x] = sum;
}

extern "C" __global__ void matMul_gpu_uncoalesced(const float *a, const float *b, float *c, int n) {
  const int x = blockIdx.x * TILE + threadIdx.x;
  const int y = blockIdx.y * TILE + threadIdx.y;
  float sum = 0.0f;
  for (int k = 0; k < n; ++k) {
    sum += a[x * n + k] * b[k * n + y];
  }
  c[x * n + y] = sum;
}

extern "C" __global__ void matMul_gpu_sharedmem(const float *a, const float *b, float *c, int n) {
  __shared__ float left[TILE][TILE];
  __shared__ float right[TILE][TILE];
  const int x = blockIdx.x * TILE + threadIdx.x;
  const int y = blockIdx.y * TILE + threadIdx.y;
  float sum = 0.0f;
  for (int first = 0; first < n; first += TILE) {
    left[threadIdx.y][threadIdx.x] = a[y * n + first + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[(first + threadIdx.y) * n + x];
    __syncthreads();
    for (int k = 0; k < TILE; ++k) {
      sum += left[threadIdx.y][k] * right[k][threadIdx.x];
    }
    __syncthreads();
  }
  c[y * n + x] = sum;
}

extern "C" __global__ void matMul_gpu_sharedmem_uncoalesced(const float *a, const float *b, float *c, int n) {
  __shared__ float left[TILE][TILE];
  __shared__ float right[TILE][TILE];
  const int x = blockIdx.x * TILE + threadIdx.x;
  const int y = blockIdx.y * TILE + threadIdx.y;
  float sum = 0.0f;
  for (int first = 0; first < n; first += TILE) {
    left[threadIdx.x][threadIdx.y] = a[x * n + first + threadIdx.y];
    right[threadIdx.x][threadIdx.y] = b[(first + threadIdx.x) * n + y];
    __syncthreads();
    for (int k = 0; k < TILE; ++k) {
      sum += left[threadIdx.x][k] * right[k][threadIdx.y];
    }
    __syncthreads();
  }
  c[x * n + y] = sum;
}

extern "C" __global__ void vectorAdd(const float *a, const float *b, float *c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    c[i] = a[i] + b[i];
  }
}

// One sum per thread: the reduction that follows in a block reads shared memory only.
extern "C" __global__ void dotProd(const float *a, const float *b, float *c, int n) {
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    sum += a[i] * b[i];
  }
  c[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
