// Breadth-first search, one level per launch: a thread per vertex of a graph in CSR form. A vertex of the current level
// puts its unreached neighbours (-1) on the next level; changed becomes 1 if there are any.

extern "C" __global__ void bfs(const int *rows, const int *columns, int *levels, int *changed, int level,
                               int vertices) {
  const int vertex = blockIdx.x * blockDim.x + threadIdx.x;
  if (vertex >= vertices || levels[vertex] != level) {
    return;
  }
  for (int edge = rows[vertex]; edge < rows[vertex + 1]; ++edge) {
    const int neighbour = columns[edge];
    if (levels[neighbour] < 0) {
      levels[neighbour] = level + 1;
      *changed = 1;
    }
  }
}
