// Transpose of a height x width matrix through a tile in shared memory, so that both are read and written by rows.
// Block (32, 8): each thread moves four elements. An extra column avoids bank conflicts in the tile.

#define TILE 32
#define ROWS 8

extern "C" __global__ void transpose(const float *in, float *out, int width, int height) {
  __shared__ float tile[TILE][TILE + 1];
  int x = blockIdx.x * TILE + threadIdx.x;
  int y = blockIdx.y * TILE + threadIdx.y;
  for (int row = 0; row < TILE; row += ROWS) {
    if (x < width && y + row < height) {
      tile[threadIdx.y + row][threadIdx.x] = in[(y + row) * width + x];
    }
  }
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
  for (int row = 0; row < TILE; row += ROWS) {
    if (x < height && y + row < width) {
      out[(y + row) * height + x] = tile[threadIdx.x][threadIdx.y + row];
    }
  }
}
