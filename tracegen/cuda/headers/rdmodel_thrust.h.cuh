// <thrust/tuple.h>, <thrust/pair.h>, <thrust/complex.h>: types of device code, from NVIDIA's C++ library.
#pragma once
#if __has_include(<cuda/std/tuple>)
#include <cuda/std/complex>
#include <cuda/std/tuple>
#include <cuda/std/utility>
namespace thrust {
using ::cuda::std::complex;
using ::cuda::std::get;
using ::cuda::std::make_pair;
using ::cuda::std::make_tuple;
using ::cuda::std::pair;
using ::cuda::std::tie;
using ::cuda::std::tuple;
}
#endif
