// <optional>: the type that nvcc compiles for the device, too, from NVIDIA's C++ library.
#pragma once
#if __has_include(<cuda/std/optional>)
#include <cuda/std/optional>
namespace std {
using ::cuda::std::nullopt;
using ::cuda::std::nullopt_t;
using ::cuda::std::optional;
}
#endif
