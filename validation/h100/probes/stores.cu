// Probes of stores in the L1: when does ncu count a sector of a store as a hit, and what does a store leave behind?

#include "common.cuh"

// Kinds of accesses, as numbers in the plan.
enum Kind {
    NONE,
    LOAD,
    STORE,
    LOAD_CG,
    LOAD_VOLATILE,
    STORE_BYTE,
    REDUCE,
    LOAD_READ_ONLY,
    ATOMIC,
    STORE_CG,
    STORE_WT,
    LOAD_CA
};

__device__ __forceinline__ unsigned access(unsigned kind, Byte* at)
{
    unsigned value = 0;
    switch (kind) {
    case LOAD:
        return load(at);
    case STORE:
        store(at, 1);
        break;
    case LOAD_CG:
        return load_cg(at);
    case LOAD_VOLATILE:
        asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
        break;
    case STORE_BYTE:
        asm volatile("st.global.u8 [%0], %1;" : : "l"(at), "r"(1) : "memory");
        break;
    case REDUCE:
        asm volatile("red.global.add.u32 [%0], %1;" : : "l"(at), "r"(1) : "memory");
        break;
    case LOAD_READ_ONLY:
        asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(value) : "l"(at));
        break;
    case ATOMIC:
        asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(value) : "l"(at), "r"(1) : "memory");
        break;
    case STORE_CG:
        asm volatile("st.global.cg.u32 [%0], %1;" : : "l"(at), "r"(1) : "memory");
        break;
    case LOAD_CA:
        asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(value) : "l"(at));
        break;
    case STORE_WT:
        asm volatile("st.global.wt.u32 [%0], %1;" : : "l"(at), "r"(1) : "memory");
        break;
    }
    return value;
}

struct Step {
    unsigned kind, stride, offset;  // the last two in bytes
};

struct Steps {
    Step step[3];
};

// Does the second (third) access hit, by the kinds of the accesses and by the parts of the sectors and lines that they
// touch? Each block has its own data, and a barrier separates the steps. 2^`twins` warps do each access at about the
// same time: do the later ones hit?
extern "C" __global__ void store_steps(Byte* data, unsigned bytes, unsigned twins, Steps steps, unsigned* sink)
{
    Byte* mine = data + (size_t)blockIdx.x * bytes;
    unsigned first = threadIdx.x / 32 >> twins << 5 | threadIdx.x % 32, threads = blockDim.x >> twins, sum = 0;
#pragma unroll
    for (int k = 0; k < 3; ++k) {
        Step step = steps.step[k];
        if (step.kind == NONE)
            break;
        for (unsigned at = first * step.stride; at < bytes; at += threads * step.stride)
            sum += access(step.kind, mine + (at + step.offset));
        consume(sum, sink);  // before the barrier, so that what was loaded has arrived
        __syncthreads();
    }
}

// Does an access hit on what another block of the same SM has brought? Of the two blocks that are resident on each SM,
// the second waits until the first is done.
extern "C" __global__ void __launch_bounds__(1024, 2)
    store_by_neighbour(Byte* data, unsigned bytes, unsigned first_kind, unsigned second_kind, unsigned* control,
                       unsigned* sink)
{
    __shared__ unsigned ticket;
    unsigned sm = this_sm();
    unsigned *tickets = control + 64 * sm, *done = tickets + 32, sum = 0;
    if (threadIdx.x == 0)
        ticket = atomicAdd(tickets, 1);
    __syncthreads();
    bool second = ticket % 2;
    if (second && threadIdx.x == 0)
        while (atomicAdd(done, 0) < (ticket + 1) / 2)
            __nanosleep(100);
    __syncthreads();
    Byte* mine = data + (size_t)sm * bytes;
    for (unsigned at = 4 * threadIdx.x; at < bytes; at += 4 * blockDim.x)
        sum += access(second ? second_kind : first_kind, mine + at);
    consume(sum, sink);
    __syncthreads();
    if (!second && threadIdx.x == 0)
        atomicAdd(done, 1);
}

// How many stores hit when each block of many loads 8 KiB into shared memory and stores them where they were, as a fast
// Walsh transform does? The blocks resident on an SM follow from the dynamic shared memory and the size of a block.
extern "C" __global__ void store_back(Byte* data)
{
    extern __shared__ unsigned buffer[];
    Byte* mine = data + (size_t)blockIdx.x * 8192;
    for (unsigned k = threadIdx.x; k < 2048; k += blockDim.x)
        buffer[k] = load(mine + 4 * k);
    __syncthreads();
    for (unsigned k = threadIdx.x; k < 2048; k += blockDim.x)
        store(mine + 4 * k, buffer[k ^ 1] + 1);
}
