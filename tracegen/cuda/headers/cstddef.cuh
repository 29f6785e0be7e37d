// <cstddef>: the byte; the compiler itself declares std::size_t and others.
#pragma once
namespace std {
enum class byte : unsigned char {};
template <class T> constexpr __host__ __device__ T to_integer(byte b) { return static_cast<T>(b); }
}
