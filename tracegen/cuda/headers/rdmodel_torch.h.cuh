// <torch/...>, <ATen/...>, <c10/...>: the numbers of PyTorch in device code, its accessors of tensors, functions
// of warps and macros.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <type_traits>

#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#define C10_RESTRICT __restrict__
#define C10_WARP_SIZE 32
#define CUDA_KERNEL_ASSERT(condition)
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type) \
  for (int64_t rdmodel_##i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; rdmodel_##i < (n); \
       rdmodel_##i += (int64_t)blockDim.x * gridDim.x) \
    if (index_type i = (index_type)rdmodel_##i; true)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)

namespace c10 {

// A number of 16 bits that computes in single precision.
#define RDMODEL_TORCH_NUMBER(Number, Native, to_float, from_float) \
  struct alignas(2) Number { \
    unsigned short x; \
    Number() = default; \
    __device__ Number(float value) : x(__builtin_bit_cast(unsigned short, from_float(value))) {} \
    __device__ Number(const Native &value) : x(__builtin_bit_cast(unsigned short, value)) {} \
    __device__ operator float() const { return to_float(__builtin_bit_cast(Native, x)); } \
    __device__ operator Native() const { return __builtin_bit_cast(Native, x); } \
    __device__ Number &operator+=(Number b) { return *this = Number((float)*this + (float)b); } \
    __device__ Number &operator-=(Number b) { return *this = Number((float)*this - (float)b); } \
    __device__ Number &operator*=(Number b) { return *this = Number((float)*this * (float)b); } \
    __device__ Number &operator/=(Number b) { return *this = Number((float)*this / (float)b); } \
  }; \
  inline __device__ Number operator+(Number a, Number b) { return Number((float)a + (float)b); } \
  inline __device__ Number operator-(Number a, Number b) { return Number((float)a - (float)b); } \
  inline __device__ Number operator*(Number a, Number b) { return Number((float)a * (float)b); } \
  inline __device__ Number operator/(Number a, Number b) { return Number((float)a / (float)b); } \
  inline __device__ Number operator-(Number a) { return Number(-(float)a); } \
  inline __device__ float operator+(Number a, float b) { return (float)a + b; } \
  inline __device__ float operator-(Number a, float b) { return (float)a - b; } \
  inline __device__ float operator*(Number a, float b) { return (float)a * b; } \
  inline __device__ float operator/(Number a, float b) { return (float)a / b; } \
  inline __device__ float operator+(float a, Number b) { return a + (float)b; } \
  inline __device__ float operator-(float a, Number b) { return a - (float)b; } \
  inline __device__ float operator*(float a, Number b) { return a * (float)b; } \
  inline __device__ float operator/(float a, Number b) { return a / (float)b; }
RDMODEL_TORCH_NUMBER(Half, __half, __half2float, __float2half_rn)
RDMODEL_TORCH_NUMBER(BFloat16, __nv_bfloat16, __bfloat162float, __float2bfloat16_rn)
#undef RDMODEL_TORCH_NUMBER

template <class T> struct alignas(2 * sizeof(T)) complex {
  using value_type = T;
  T real_ = T(0), imag_ = T(0);
  constexpr complex() = default;
  __device__ constexpr complex(T re, T im = T(0)) : real_(re), imag_(im) {}
  template <class U> __device__ constexpr explicit complex(const complex<U> &z) : real_(z.real_), imag_(z.imag_) {}
  __device__ constexpr T real() const { return real_; }
  __device__ constexpr T imag() const { return imag_; }
  __device__ complex &operator+=(complex b) { return *this = *this + b; }
  __device__ complex &operator-=(complex b) { return *this = *this - b; }
  __device__ complex &operator*=(complex b) { return *this = *this * b; }
  __device__ complex &operator/=(complex b) { return *this = *this / b; }
  friend __device__ complex operator+(complex a) { return a; }
  friend __device__ complex operator-(complex a) { return {-a.real_, -a.imag_}; }
  friend __device__ complex operator+(complex a, complex b) { return {a.real_ + b.real_, a.imag_ + b.imag_}; }
  friend __device__ complex operator-(complex a, complex b) { return {a.real_ - b.real_, a.imag_ - b.imag_}; }
  friend __device__ complex operator*(complex a, complex b) {
    return {a.real_ * b.real_ - a.imag_ * b.imag_, a.real_ * b.imag_ + a.imag_ * b.real_};
  }
  friend __device__ complex operator/(complex a, complex b) {
    const T scale = b.real_ * b.real_ + b.imag_ * b.imag_;
    return {(a.real_ * b.real_ + a.imag_ * b.imag_) / scale, (a.imag_ * b.real_ - a.real_ * b.imag_) / scale};
  }
  friend __device__ bool operator==(complex a, complex b) { return a.real_ == b.real_ && a.imag_ == b.imag_; }
  friend __device__ bool operator!=(complex a, complex b) { return !(a == b); }
};

}  // namespace c10

namespace std {
template <class T> __device__ constexpr T real(c10::complex<T> z) { return z.real_; }
template <class T> __device__ constexpr T imag(c10::complex<T> z) { return z.imag_; }
template <class T> __device__ constexpr T norm(c10::complex<T> z) { return z.real_ * z.real_ + z.imag_ * z.imag_; }
template <class T> __device__ T abs(c10::complex<T> z) { return ::hypot(z.real_, z.imag_); }
template <class T> __device__ constexpr c10::complex<T> conj(c10::complex<T> z) { return {z.real_, -z.imag_}; }
}  // namespace std

namespace at {
using c10::BFloat16;
using c10::Half;
class Tensor;

struct PhiloxCudaState {
  uint64_t seed_, offset_;
};

// The type in which device code sums.
template <class T, bool is_cuda> struct AccumulateType { using type = T; };
template <bool is_cuda> struct AccumulateType<Half, is_cuda> { using type = float; };
template <bool is_cuda> struct AccumulateType<BFloat16, is_cuda> { using type = float; };
template <class T, bool is_cuda> using acc_type = typename AccumulateType<T, is_cuda>::type;

template <class T> struct DefaultPtrTraits { using PtrType = T *; };
template <class T> struct RestrictPtrTraits { using PtrType = T *__restrict__; };

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
struct TensorAccessor {
  typename Traits<T>::PtrType data_;
  const Index *sizes_, *strides_;
  __device__ Index size(Index i) const { return sizes_[i]; }
  __device__ Index stride(Index i) const { return strides_[i]; }
  __device__ T *data() const { return data_; }
  __device__ decltype(auto) operator[](Index i) const {
    if constexpr (N == 1) return (data_[strides_[0] * i]);
    else return TensorAccessor<T, N - 1, Traits, Index>{data_ + strides_[0] * i, sizes_ + 1, strides_ + 1};
  }
};

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
struct GenericPackedTensorAccessor {
  typename Traits<T>::PtrType data_;
  Index sizes_[N], strides_[N];
  __device__ Index size(Index i) const { return sizes_[i]; }
  __device__ Index stride(Index i) const { return strides_[i]; }
  __device__ T *data() const { return data_; }
  __device__ decltype(auto) operator[](Index i) const {
    return TensorAccessor<T, N, Traits, Index>{data_, sizes_, strides_}[i];
  }
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, Index>;
}  // namespace at

namespace torch {
using namespace at;
}  // namespace torch

template <class T> __device__ T WARP_SHFL(T x, int lane, int width = 32, unsigned mask = 0xffffffff) {
  return __shfl_sync(mask, x, lane, width);
}
template <class T> __device__ T WARP_SHFL_XOR(T x, int lanes, int width = 32, unsigned mask = 0xffffffff) {
  return __shfl_xor_sync(mask, x, lanes, width);
}
template <class T> __device__ T WARP_SHFL_UP(T x, unsigned lanes, int width = 32, unsigned mask = 0xffffffff) {
  return __shfl_up_sync(mask, x, lanes, width);
}
template <class T> __device__ T WARP_SHFL_DOWN(T x, unsigned lanes, int width = 32, unsigned mask = 0xffffffff) {
  return __shfl_down_sync(mask, x, lanes, width);
}
inline __device__ unsigned WARP_BALLOT(int predicate, unsigned mask = 0xffffffff) {
  return __ballot_sync(mask, predicate);
}
inline __device__ unsigned WARP_ACTIVE() { return __activemask(); }

template <class T> __device__ T gpuAtomicAdd(T *address, T value) { return atomicAdd(address, value); }
inline __device__ c10::Half gpuAtomicAdd(c10::Half *address, c10::Half value) {
  return c10::Half(atomicAdd((__half *)address, (__half)value));
}
inline __device__ c10::BFloat16 gpuAtomicAdd(c10::BFloat16 *address, c10::BFloat16 value) {
  return c10::BFloat16(atomicAdd((__nv_bfloat16 *)address, (__nv_bfloat16)value));
}
template <class T> __device__ void gpuAtomicAddNoReturn(T *address, T value) { gpuAtomicAdd(address, value); }
