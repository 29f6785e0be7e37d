// Probes of the L2 and of the traffic between the L2 and the DRAM.

#include "common.cuh"

// How much of the data is still in the L2 when it is read a second time, by the same SM (`rotation` 0) or by another
// one, which may be at the other partition of the L2? One block per SM; each reads one share of the data per round.
extern "C" __global__ void l2_read_twice(const Byte* data, unsigned share, unsigned rotation, unsigned* control,
                                         unsigned* sink)
{
    unsigned sm = this_sm(), sum = read_words<true>(data + (size_t)share * sm, share);
    consume(sum, sink);
    grid_barrier(control);
    sum = read_words<true>(data + (size_t)share * ((sm + rotation) % gridDim.x), share);
    consume(sum, sink);
}

__device__ __forceinline__ size_t first_index() { return (size_t)blockIdx.x * blockDim.x + threadIdx.x; }

__device__ __forceinline__ size_t all_threads() { return (size_t)gridDim.x * blockDim.x; }

// How many sectors does the L2 fetch when one sector, or two, of each `stride` bytes are read?
extern "C" __global__ void dram_read(const Byte* data, unsigned count, unsigned stride, unsigned first, unsigned second,
                                     unsigned* sink)
{
    unsigned sum = 0;
    for (size_t k = first_index(); k < count; k += all_threads()) {
        sum += load(data + (k * stride + first));
        if (second != first)
            sum += load(data + (k * stride + second));
    }
    consume(sum, sink);
}

// How much dirty data does the L2 keep (stride 4)? Does it read sectors that are written in part (stride 32)?
extern "C" __global__ void dram_write(Byte* data, unsigned count, unsigned stride)
{
    for (size_t k = first_index(); k < count; k += all_threads())
        store(data + k * stride, (unsigned)k);
}

// Is a sector written to the DRAM twice if other blocks write it again later? `half`: the first time its first four
// words are written and the second time the others.
extern "C" __global__ void dram_write_twice(Byte* data, unsigned count, unsigned half, unsigned* control)
{
    for (unsigned round = 0; round < 2; ++round) {
        size_t block = (blockIdx.x + round * (gridDim.x / 2)) % gridDim.x;
        for (size_t k = block * blockDim.x + threadIdx.x; k < count; k += all_threads())
            store(data + (half ? k / 4 * 32 + k % 4 * 4 + round * 16 : k * 4), (unsigned)k);
        if (round == 0)
            grid_barrier(control);
    }
}

// What traffic has a kernel that changes data in place?
extern "C" __global__ void dram_modify(Byte* data, unsigned count)
{
    for (size_t k = first_index(); k < count; k += all_threads())
        store(data + k * 4, load(data + k * 4) + 1);
}

// Do loads of other data drive dirty sectors out of the L2?
extern "C" __global__ void dram_write_read(Byte* data, unsigned written, unsigned read, unsigned* control,
                                           unsigned* sink)
{
    for (size_t k = first_index(); k < written; k += all_threads())
        store(data + k * 4, (unsigned)k);
    grid_barrier(control);
    unsigned sum = 0;
    for (size_t k = first_index(); k < read; k += all_threads())
        sum += load(data + (written + k) * 4);
    consume(sum, sink);
}
