// Probes of throughput and latency, which are timed. Where a kernel takes `clocks`, each block writes there the cycles
// that it took from its first access to its last.

#include "common.cuh"

__device__ __forceinline__ void load(unsigned& value, const Byte* at)
{
    value = load(at);
}

__device__ __forceinline__ void load(uint2& value, const Byte* at)
{
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "l"(at));
}

__device__ __forceinline__ void load(uint4& value, const Byte* at)
{
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "l"(at));
}

__device__ __forceinline__ void stream(unsigned& value, const Byte* at)
{
    value = load_cg(at);
}

__device__ __forceinline__ void stream(uint4& value, const Byte* at)
{
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "l"(at));
}

__device__ __forceinline__ void write(unsigned value, Byte* at)
{
    store(at, value);
}

__device__ __forceinline__ void write(uint4 value, Byte* at)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 : : "l"(at), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w) : "memory");
}

__device__ __forceinline__ unsigned total(unsigned value) { return value; }

__device__ __forceinline__ unsigned total(uint2 value) { return value.x + value.y; }

__device__ __forceinline__ unsigned total(uint4 value) { return value.x + value.y + value.z + value.w; }

__device__ __forceinline__ long long start_clock()
{
    __syncthreads();
    return clock_now();
}

__device__ __forceinline__ void stop_clock(long long start, long long* clocks)
{
    __syncthreads();
    long long stop = clock_now();
    if (threadIdx.x == 0)
        clocks[blockIdx.x] = stop - start;
}

// How many bytes per cycle does the L1 give, by warps, width of a load, and distance of the lanes in bytes?
// `iterations` times 8 loads per thread, or 4 of 16 bytes, so that 64 warps have registers enough; the warps go round
// in 16 KiB (and a little more for far lanes), from different places.
template <typename T>
__device__ __forceinline__ void l1_rate(const Byte* data, unsigned distance, unsigned iterations, long long* clocks,
                                        unsigned* sink)
{
    constexpr int BATCH = sizeof(T) == 16 ? 4 : 8;
    const Byte* lane = data + threadIdx.x % 32 * distance;
    unsigned sum = 0, at = threadIdx.x / 32 * 1024 & 16383;
    sum += read_words<false>(data, 32768);
    consume(sum, sink);  // all that follows hits
    long long start = start_clock();
    for (unsigned k = 0; k < iterations; ++k) {
        T value[BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; ++j)
            load(value[j], lane + at + j * 32 * sizeof(T));
#pragma unroll
        for (int j = 0; j < BATCH; ++j)
            sum += total(value[j]);
        at = at + BATCH * 32 * sizeof(T) & 16383;
    }
    consume(sum, sink);
    stop_clock(start, clocks);
}

#define L1_RATE(NAME, TYPE)                                                                                         \
    extern "C" __global__ void __launch_bounds__(1024, 2)                                                           \
        NAME(const Byte* data, unsigned distance, unsigned iterations, long long* clocks, unsigned* sink)           \
    {                                                                                                               \
        l1_rate<TYPE>(data, distance, iterations, clocks, sink);                                                    \
    }
L1_RATE(l1_rate_4, unsigned)
L1_RATE(l1_rate_8, uint2)
L1_RATE(l1_rate_16, uint4)

// How many bytes per cycle does the L2 give to all SMs? In each round a block reads what another one read before. The
// count of rounds and of 4 loads per thread make the work: `quads` * 4 * threads of the grid is the data per round.
template <typename T>
__device__ __forceinline__ void l2_rate(const Byte* data, unsigned quads, unsigned rounds, unsigned* sink)
{
    unsigned sum = 0, width = blockDim.x * sizeof(T);
    for (unsigned round = 0; round < rounds; ++round) {
        unsigned block = (blockIdx.x + round * 37) % gridDim.x;
        const Byte* at = data + (size_t)block * quads * 4 * width + threadIdx.x * sizeof(T);
        for (unsigned k = 0; k < quads; ++k, at += 4 * width) {
            T value[4];
#pragma unroll
            for (int j = 0; j < 4; ++j)
                stream(value[j], at + j * width);
#pragma unroll
            for (int j = 0; j < 4; ++j)
                sum += total(value[j]);
        }
    }
    consume(sum, sink);
}

extern "C" __global__ void l2_rate_4(const Byte* data, unsigned quads, unsigned rounds, unsigned* sink)
{
    l2_rate<unsigned>(data, quads, rounds, sink);
}

extern "C" __global__ void l2_rate_16(const Byte* data, unsigned quads, unsigned rounds, unsigned* sink)
{
    l2_rate<uint4>(data, quads, rounds, sink);
}

// How many bytes per second does the DRAM give or take, by the shape of the grid? Each thread accesses every n-th
// element, n the threads of the grid, four at a time where there are as many.
template <typename T, bool READ, bool WRITE>
__device__ __forceinline__ void dram_rate(const Byte* source, Byte* target, unsigned count, unsigned* sink)
{
    size_t threads = (size_t)gridDim.x * blockDim.x, at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned sum = 0;
    T value[4] = {};
    for (; at + 3 * threads < count; at += 4 * threads) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
            if (READ)
                load(value[j], source + (at + j * threads) * sizeof(T));
#pragma unroll
        for (int j = 0; j < 4; ++j)
            if (WRITE)
                write(value[j], target + (at + j * threads) * sizeof(T));
            else
                sum += total(value[j]);
    }
    for (; at < count; at += threads) {
        if (READ)
            load(value[0], source + at * sizeof(T));
        if (WRITE)
            write(value[0], target + at * sizeof(T));
        else
            sum += total(value[0]);
    }
    consume(sum, sink);
}

#define DRAM_RATE(NAME, TYPE, READ, WRITE)                                                                  \
    extern "C" __global__ void NAME(const Byte* source, Byte* target, unsigned count, unsigned* sink)       \
    {                                                                                                       \
        dram_rate<TYPE, READ, WRITE>(source, target, count, sink);                                          \
    }
DRAM_RATE(dram_read_4, unsigned, true, false)
DRAM_RATE(dram_read_16, uint4, true, false)
DRAM_RATE(dram_copy_4, unsigned, true, true)
DRAM_RATE(dram_copy_16, uint4, true, true)
DRAM_RATE(dram_write_4, unsigned, false, true)
DRAM_RATE(dram_write_16, uint4, false, true)

// How many cycles does a load from shared memory take if `degree` lanes use each bank (a power of two)? `iterations`
// times 8 loads per thread. They are volatile, since the addresses repeat.
extern "C" __global__ void shared_rate(unsigned degree, unsigned iterations, long long* clocks, unsigned* sink)
{
    __shared__ unsigned buffer[2048];
    for (unsigned k = threadIdx.x; k < 2048; k += blockDim.x)
        buffer[k] = k;
    unsigned sum = 0, at = (unsigned)__cvta_generic_to_shared(buffer + threadIdx.x % 32 * degree);
    long long start = start_clock();
    for (unsigned k = 0; k < iterations; ++k) {
        unsigned value[8];
#pragma unroll
        for (int j = 0; j < 8; ++j)
            asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(value[j]) : "r"(at + j * 128));
#pragma unroll
        for (int j = 0; j < 8; ++j)
            sum += value[j];
    }
    consume(sum, sink);
    stop_clock(start, clocks);
}

template <typename T>
__device__ __forceinline__ unsigned digest(T value)
{
    if (sizeof(T) == 8)  // both halves, or the assembler would compute one only
        return total(reinterpret_cast<uint2&>(value));
    return (unsigned)value;
}

// How many operations per cycle does an SM do? `iterations` times 32 operations per thread, in 8 independent chains.
#define RATE(NAME, TYPE, OPERATION)                                                                                 \
    extern "C" __global__ void rate_##NAME(unsigned iterations, TYPE a, TYPE b, long long* clocks, unsigned* sink)  \
    {                                                                                                               \
        TYPE x[8];                                                                                                  \
        for (int j = 0; j < 8; ++j)                                                                                 \
            x[j] = a + (TYPE)(threadIdx.x + j);                                                                     \
        long long start = start_clock();                                                                            \
        for (unsigned k = 0; k < iterations; ++k) {                                                                 \
            _Pragma("unroll") for (int j = 0; j < 32; ++j) OPERATION;                                               \
        }                                                                                                           \
        unsigned sum = 0;                                                                                           \
        for (int j = 0; j < 8; ++j)                                                                                 \
            sum += digest(x[j]);                                                                                    \
        consume(sum, sink);                                                                                         \
        stop_clock(start, clocks);                                                                                  \
    }
RATE(ffma, float, asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x[j % 8]) : "f"(a), "f"(b)))
RATE(fadd, float, asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(x[j % 8]) : "f"(a)))
RATE(mufu, float, asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[j % 8])))
RATE(imad, unsigned, asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(x[j % 8]) : "r"(a), "r"(b)))
RATE(iadd, unsigned, asm volatile("add.u32 %0, %0, %1;" : "+r"(x[j % 8]) : "r"(x[(j + 1) % 8])))
RATE(imad_wide, unsigned long long,
     asm volatile("{.reg .u32 low, high, a; mov.b64 {low, high}, %0; cvt.u32.u64 a, %1; mad.wide.u32 %0, high, a, %0;}"
                  : "+l"(x[j % 8]) : "l"(a)))
RATE(i2f, int, asm volatile("{.reg .f32 f; cvt.rn.f32.s32 f, %0; mov.b32 %0, f;}" : "+r"(x[j % 8])))
RATE(f2i, int, asm volatile("{.reg .f32 f; mov.b32 f, %0; cvt.rzi.s32.f32 %0, f;}" : "+r"(x[j % 8])))
RATE(dadd, double, asm volatile("add.rn.f64 %0, %0, %1;" : "+d"(x[j % 8]) : "d"(a)))
RATE(dfma, double, asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(x[j % 8]) : "d"(a), "d"(b)))

// Write a ring of pointers: element k, of `stride` bytes, points to element k + `step`; with step 0 to itself. `state`
// gets the first.
extern "C" __global__ void chase_init(Byte* data, unsigned count, unsigned stride, unsigned step, Byte** state)
{
    size_t threads = (size_t)gridDim.x * blockDim.x;
    for (size_t k = (size_t)blockIdx.x * blockDim.x + threadIdx.x; k < count; k += threads)
        *(Byte**)(data + k * stride) = data + (k + step) % count * stride;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *state = data;
}

template <bool STREAM>
__device__ __forceinline__ const Byte* follow(const Byte* at, unsigned steps)
{
#pragma unroll 8
    for (unsigned k = 0; k < steps; ++k)
        if (STREAM)
            asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at));
        else
            asm volatile("ld.global.u64 %0, [%0];" : "+l"(at));
    return at;
}

// What is the latency of a load, from where the ring is? Use 8 steps times a number. `warm`: steps before the clock
// runs. The next launch goes on where this one ends, so that it does not find in the L2 what this one has read.
template <bool STREAM>
__device__ __forceinline__ void chase(unsigned warm, unsigned steps, const Byte** state, long long* clocks)
{
    const Byte* at = follow<STREAM>(*state, warm);
    if (at == nullptr)
        return;  // never; the clock shall start when the last warm load has arrived
    long long start = clock_now();
    at = follow<STREAM>(at, steps);
    if (at == nullptr)
        return;
    clocks[0] = clock_now() - start;
    *state = at;
}

extern "C" __global__ void chase_ca(unsigned warm, unsigned steps, const Byte** state, long long* clocks)
{
    chase<false>(warm, steps, state, clocks);
}

extern "C" __global__ void chase_cg(unsigned warm, unsigned steps, const Byte** state, long long* clocks)
{
    chase<true>(warm, steps, state, clocks);
}

// Which SMs are near to which sectors of the L2? One thread per block; the sectors, `stride` bytes apart, point to
// themselves. Block b writes its SM and then the cycles for each sector, in a row of `count` + 1 numbers.
extern "C" __global__ void l2_distance(const Byte* data, unsigned count, unsigned stride, unsigned steps,
                                       long long* clocks)
{
    long long* row = clocks + (size_t)blockIdx.x * (count + 1);
    row[0] = this_sm();
    for (unsigned k = 0; k < count; ++k) {
        const Byte* at = follow<true>(data + (size_t)k * stride, 8);
        if (at == nullptr)
            return;
        long long start = clock_now();
        at = follow<true>(at, steps);
        if (at == nullptr)
            return;
        row[1 + k] = clock_now() - start;
    }
}

// How long does a barrier take? `count` times 4 of them, one block.
extern "C" __global__ void barrier_latency(unsigned count, long long* clocks)
{
    long long start = start_clock();
    for (unsigned k = 0; k < count; ++k) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
            __syncthreads();
    }
    stop_clock(start, clocks);
}

// What is the latency of a load from shared memory? `steps` is a multiple of 8; one thread.
extern "C" __global__ void shared_latency(unsigned steps, long long* clocks)
{
    __shared__ unsigned ring[64];
    for (unsigned k = 0; k < 64; ++k)
        ring[k] = (unsigned)__cvta_generic_to_shared(ring + (k + 5) % 64);
    unsigned at = (unsigned)__cvta_generic_to_shared(ring);
    long long start = start_clock();
#pragma unroll 8
    for (unsigned k = 0; k < steps; ++k)
        asm volatile("ld.volatile.shared.u32 %0, [%0];" : "+r"(at) : : "memory");
    if (at == 0)
        return;
    stop_clock(start, clocks);
}

// What do spilled registers cost? Each round stores 64 words of local memory per thread and loads them again; `shift`,
// which is zero, keeps them from being registers.
extern "C" __global__ void __launch_bounds__(1024, 2)
    local_round_trip(unsigned rounds, unsigned shift, long long* clocks, unsigned* sink)
{
    unsigned words[64], sum = threadIdx.x, at = (unsigned)__cvta_generic_to_local(words) + shift;
    long long start = start_clock();
    for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll 1  // loops, across which the assembler does not mix the stores and the loads
        for (unsigned place = at; place < at + 256; place += 64) {
#pragma unroll
            for (int k = 0; k < 16; ++k)
                asm volatile("st.local.u32 [%0], %1;" : : "r"(place + 4 * k), "r"(sum) : "memory");
        }
#pragma unroll 1
        for (unsigned place = at; place < at + 256; place += 64) {
            unsigned value[16];
#pragma unroll
            for (int k = 0; k < 16; ++k)
                asm volatile("ld.local.u32 %0, [%1];" : "=r"(value[k]) : "r"(place + 4 * k) : "memory");
#pragma unroll
            for (int k = 0; k < 16; ++k)
                sum += value[k];
        }
    }
    consume(sum, sink);
    stop_clock(start, clocks);
}
