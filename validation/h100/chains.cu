// One thread loads words in a given order, each load after the one before, and writes how many cycles each took.
// The order is read past the L1, into shared memory, where the cycles then take its place. Bit 31 of an entry: a load of
// the next word is under way with it. Bit 30: it is a store.
extern "C" __global__ void chain(unsigned *data, const unsigned *order, unsigned short *cycles, int n) {
  extern __shared__ unsigned list[];
  __shared__ volatile unsigned sink;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(list[i]) : "l"(order + i));
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned zero = 0;
    for (int i = 0; i < n; ++i) {
      const unsigned entry = list[i];
      unsigned *word = data + ((entry & 0x3fffffff) + zero);
      unsigned first, last, next = 0;
      asm volatile("mov.u32 %0, %%clock;" : "=r"(first)::"memory");
      if (entry >> 30 & 1) {
        asm volatile("st.global.u32 [%0], %1;" ::"l"(word), "r"(zero) : "memory");
      } else {
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(zero) : "l"(word) : "memory");
        if (entry >> 31) {
          asm volatile("ld.global.u32 %0, [%1];" : "=r"(next) : "l"(word + 1) : "memory");
        }
      }
      zero |= next;
      sink = zero;  // waits for the words
      asm volatile("mov.u32 %0, %%clock;" : "=r"(last)::"memory");
      list[i] = min(last - first, 65535u);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    cycles[i] = list[i];
  }
}
