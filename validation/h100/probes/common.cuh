// What the probes share. Memory is accessed by inline PTX, so that the compiler neither merges nor drops an access and
// the cache operator is known. Values that are read end in `consume`, or the assembler would remove the loads.

#pragma once

typedef unsigned char Byte;

// An ordinary load, LDG.E: with `.ca` it would become LDG.E.STRONG.SM, which compiled kernels do not use.
__device__ __forceinline__ unsigned load(const Byte* at)
{
    unsigned value;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(at));
    return value;
}

// A load past the L1, LDG.E.STRONG.GPU.
__device__ __forceinline__ unsigned load_cg(const Byte* at)
{
    unsigned value;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(at));
    return value;
}

__device__ __forceinline__ void store(Byte* at, unsigned value)
{
    asm volatile("st.global.u32 [%0], %1;" : : "l"(at), "r"(value) : "memory");
}

// The data of the probes never add up to this number (they are zero, or what an earlier probe wrote).
__device__ __forceinline__ void consume(unsigned value, unsigned* sink)
{
    if (value == 0x9e3779b1u)
        asm volatile("st.global.u32 [%0], %1;" : : "l"(sink), "r"(value) : "memory");
}

__device__ __forceinline__ long long clock_now()
{
    long long now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now) : : "memory");
    return now;
}

__device__ __forceinline__ unsigned this_sm()
{
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

// Wait for all blocks of a grid that is resident as a whole. There is no fence, since a fence invalidates the L1; and
// the counter is polled by atomics, which ncu counts apart from loads. It only grows, so that launches may follow each
// other.
__device__ __forceinline__ void grid_barrier(unsigned* counter)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned target = (atomicAdd(counter, 1) / gridDim.x + 1) * gridDim.x;
        while (atomicAdd(counter, 0) < target)
            __nanosleep(100);
    }
    __syncthreads();
}

// Read consecutive words with the threads of the block, four loads in flight per thread as in a loop that the compiler
// has unrolled; `STREAM` loads past the L1.
template <bool STREAM>
__device__ __forceinline__ unsigned read_words(const Byte* data, unsigned bytes)
{
    unsigned sum = 0, step = 4 * blockDim.x, at = 4 * threadIdx.x;
    for (; at + 3 * step < bytes; at += 4 * step) {
        unsigned value[4];
#pragma unroll
        for (int k = 0; k < 4; ++k)
            value[k] = STREAM ? load_cg(data + (at + k * step)) : load(data + (at + k * step));
        sum += value[0] + value[1] + value[2] + value[3];
    }
    for (; at < bytes; at += step)
        sum += STREAM ? load_cg(data + at) : load(data + at);
    return sum;
}
