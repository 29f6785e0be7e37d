// One thread loads words in a given order, each load after the one before, and writes how many cycles each took.
// The order is read past the L1, into shared memory, where the cycles then take its place.
extern "C" __global__ void chain(const unsigned *data, const unsigned *order, unsigned short *cycles, int n) {
  extern __shared__ unsigned list[];
  __shared__ volatile unsigned sink;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(list[i]) : "l"(order + i));
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned zero = 0;
    for (int i = 0; i < n; ++i) {
      const unsigned *word = data + (list[i] + zero);
      unsigned first, last;
      asm volatile("mov.u32 %0, %%clock;" : "=r"(first)::"memory");
      asm volatile("ld.global.u32 %0, [%1];" : "=r"(zero) : "l"(word) : "memory");
      sink = zero;  // waits for the word
      asm volatile("mov.u32 %0, %%clock;" : "=r"(last)::"memory");
      list[i] = min(last - first, 65535u);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    cycles[i] = list[i];
  }
}
