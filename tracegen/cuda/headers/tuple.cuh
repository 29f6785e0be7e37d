// <tuple>: functions that nvcc compiles for the device, too, from NVIDIA's C++ library.
#pragma once
#if __has_include(<cuda/std/tuple>)
#include <cuda/std/tuple>
namespace std {
using ::cuda::std::get;
using ::cuda::std::make_tuple;
using ::cuda::std::tie;
using ::cuda::std::tuple;
}
#endif
