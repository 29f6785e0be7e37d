// One step of heat spreading over a chip: every cell moves towards its four neighbours and is heated by its power.
// A block loads its tile and a border of one cell into shared memory; outside the chip the nearest cell counts.

#ifndef TILE
#define TILE 16
#endif

__device__ int clamp(int value, int end) { return min(max(value, 0), end - 1); }

extern "C" __global__ void hotspot(const float *power, const float *in, float *out, int width, int height, float rate) {
  __shared__ float heat[TILE + 2][TILE + 2];
  const int left = blockIdx.x * TILE - 1;
  const int top = blockIdx.y * TILE - 1;
  const int thread = threadIdx.y * TILE + threadIdx.x;
  for (int cell = thread; cell < (TILE + 2) * (TILE + 2); cell += TILE * TILE) {
    const int x = clamp(left + cell % (TILE + 2), width);
    const int y = clamp(top + cell / (TILE + 2), height);
    heat[cell / (TILE + 2)][cell % (TILE + 2)] = in[y * width + x];
  }
  __syncthreads();
  const int x = blockIdx.x * TILE + threadIdx.x;
  const int y = blockIdx.y * TILE + threadIdx.y;
  if (x < width && y < height) {
    const int i = threadIdx.y + 1, j = threadIdx.x + 1;
    const float around = heat[i - 1][j] + heat[i + 1][j] + heat[i][j - 1] + heat[i][j + 1];
    out[y * width + x] = heat[i][j] + rate * (around - 4.0f * heat[i][j] + power[y * width + x]);
  }
}
