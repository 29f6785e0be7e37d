// Product c = a b of n x n matrices through tiles in shared memory; n is a multiple of TILE.
// One thread per element of c; block (TILE, TILE), grid (n / TILE, n / TILE).

#ifndef TILE
#define TILE 16
#endif

extern "C" __global__ void matmul_tiled(const float *a, const float *b, float *c, int n) {
  __shared__ float left[TILE][TILE];
  __shared__ float right[TILE][TILE];
  const int row = blockIdx.y * TILE + threadIdx.y;
  const int column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int first = 0; first < n; first += TILE) {
    left[threadIdx.y][threadIdx.x] = a[row * n + first + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[(first + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < TILE; ++k) {
      sum += left[threadIdx.y][k] * right[k][threadIdx.x];
    }
    __syncthreads();
  }
  c[row * n + column] = sum;
}
