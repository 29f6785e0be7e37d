// Probes of the L1 for loads, and of the split between L1 and shared memory.

#include "common.cuh"

__device__ __forceinline__ void read_rounds(const Byte* data, unsigned bytes, unsigned distance, unsigned rounds,
                                            unsigned* sink)
{
    const Byte* mine = data + (size_t)blockIdx.x * distance;
    unsigned sum = 0;
    for (unsigned round = 0; round < rounds; ++round)
        sum += read_words<false>(mine, bytes);
    consume(sum, sink);
}

// How does the miss ratio of the L1 grow with the size of data that are read again and again in order (LRU would miss
// always as soon as they do not fit)? With `distance` 0 all blocks read the same data.
extern "C" __global__ void l1_read(const Byte* data, unsigned bytes, unsigned distance, unsigned rounds, unsigned* sink)
{
    read_rounds(data, bytes, distance, rounds, sink);
}

// The same for a small L1. It is a kernel of its own because a preferred carve-out stays with the function.
extern "C" __global__ void l1_read_carved(const Byte* data, unsigned bytes, unsigned distance, unsigned rounds,
                                          unsigned* sink)
{
    read_rounds(data, bytes, distance, rounds, sink);
}

// Which split does the driver choose for so much dynamic shared memory and such blocks?
extern "C" __global__ void carveout(unsigned words, unsigned* sink)
{
    extern __shared__ unsigned buffer[];
    unsigned value = threadIdx.x;
    if (words) {
        buffer[threadIdx.x % words] = value;
        __syncthreads();
        value += buffer[(threadIdx.x + 1) % words];
    }
    consume(value, sink);
}
