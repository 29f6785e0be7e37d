// Needleman-Wunsch alignment: score[i][j] is the best of a match (diagonal) and two gaps (from above, from the left).
// score has (n + 1) x (n + 1) cells whose first row and column are filled, n is a multiple of TILE. One launch per
// diagonal of tiles, a block of TILE threads per tile; within it a wave front runs over the tile's own diagonals.

#ifndef TILE
#define TILE 16
#endif

extern "C" __global__ void needle(const int *similarity, int *score, int n, int diagonal, int penalty) {
  __shared__ int cells[TILE + 1][TILE + 1];
  const int tiles = n / TILE;
  const int first = diagonal < tiles ? 0 : diagonal - tiles + 1;
  const int tile_x = first + blockIdx.x, tile_y = diagonal - tile_x;
  const int x = threadIdx.x, width = n + 1;
  const int corner = tile_y * TILE * width + tile_x * TILE;

  if (x == 0) {
    cells[0][0] = score[corner];
  }
  cells[0][x + 1] = score[corner + x + 1];
  cells[x + 1][0] = score[corner + (x + 1) * width];
  __syncthreads();
  for (int wave = 0; wave < 2 * TILE - 1; ++wave) {
    const int y = wave - x;
    if (y >= 0 && y < TILE) {
      const int match = cells[y][x] + similarity[(tile_y * TILE + y) * n + tile_x * TILE + x];
      cells[y + 1][x + 1] = max(match, max(cells[y][x + 1], cells[y + 1][x]) - penalty);
    }
    __syncthreads();
  }
  for (int y = 0; y < TILE; ++y) {
    score[corner + (y + 1) * width + x + 1] = cells[y + 1][x + 1];
  }
}
