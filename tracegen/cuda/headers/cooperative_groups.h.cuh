// cooperative_groups.h: blocks, tiles of a warp, and the active lanes of a warp; without grids and clusters.
#pragma once
namespace cooperative_groups {

struct thread_block {
  __device__ static void sync() { __syncthreads(); }
  __device__ static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  __device__ static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  __device__ static dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  __device__ static dim3 dim_threads() { return group_dim(); }
  __device__ static unsigned thread_rank() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  }
  __device__ static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ static unsigned size() { return num_threads(); }
};

using thread_group = thread_block;
__device__ inline thread_block this_thread_block() { return {}; }

template <unsigned N, class Parent = thread_block> struct thread_block_tile {
  static_assert(N >= 1 && N <= 32 && (N & (N - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads");
  __device__ static unsigned lane() { return thread_block::thread_rank() % 32; }
  __device__ static unsigned mask() { return (N == 32 ? ~0u : (1u << N % 32) - 1) << (lane() / N * N); }
  __device__ static unsigned thread_rank() { return lane() % N; }
  __device__ static constexpr unsigned size() { return N; }
  __device__ static constexpr unsigned num_threads() { return N; }
  __device__ static unsigned meta_group_rank() { return thread_block::thread_rank() / N; }
  __device__ static unsigned meta_group_size() { return (thread_block::size() + N - 1) / N; }
  __device__ static void sync() { __syncwarp(mask()); }
  template <class T> __device__ static T shfl(T value, int rank) { return __shfl_sync(mask(), value, rank, N); }
  template <class T> __device__ static T shfl_up(T value, unsigned by) { return __shfl_up_sync(mask(), value, by, N); }
  template <class T> __device__ static T shfl_down(T value, unsigned by) {
    return __shfl_down_sync(mask(), value, by, N);
  }
  template <class T> __device__ static T shfl_xor(T value, int with) {
    return __shfl_xor_sync(mask(), value, with, N);
  }
  __device__ static int any(int predicate) { return __any_sync(mask(), predicate); }
  __device__ static int all(int predicate) { return __all_sync(mask(), predicate); }
  __device__ static unsigned ballot(int predicate) {
    return (__ballot_sync(mask(), predicate) & mask()) >> (lane() / N * N);
  }
};

template <unsigned N, class Parent> __device__ thread_block_tile<N, Parent> tiled_partition(const Parent&) {
  return {};
}

struct coalesced_group {
  unsigned lanes;
  __device__ unsigned thread_rank() const {
    return __popc(lanes & ((1u << thread_block::thread_rank() % 32) - 1));
  }
  __device__ unsigned size() const { return __popc(lanes); }
  __device__ unsigned num_threads() const { return size(); }
  __device__ void sync() const { __syncwarp(lanes); }
  template <class T> __device__ T shfl(T value, unsigned rank) const {
    unsigned left = lanes;
    for (; rank > 0; --rank) left &= left - 1;
    return __shfl_sync(lanes, value, __ffs(left) - 1);
  }
  __device__ int any(int predicate) const { return __any_sync(lanes, predicate); }
  __device__ int all(int predicate) const { return __all_sync(lanes, predicate); }
};

__device__ inline coalesced_group coalesced_threads() { return {__activemask()}; }

template <class Group> __device__ void sync(const Group& group) { group.sync(); }
template <class Group> __device__ unsigned thread_rank(const Group& group) { return group.thread_rank(); }

template <class T> struct plus { __device__ T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { __device__ T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { __device__ T operator()(T a, T b) const { return a < b ? b : a; } };

template <unsigned N, class Parent, class T, class Combine>
__device__ T reduce(const thread_block_tile<N, Parent>& tile, T value, Combine combine) {
  for (unsigned by = N / 2; by > 0; by /= 2) value = combine(value, tile.shfl_xor(value, by));
  return value;
}

}
