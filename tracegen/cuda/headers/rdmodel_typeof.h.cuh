// The types of expressions as gcc and nvcc name them.
#pragma once
#include <type_traits>
#define __typeof__(...) std::remove_reference_t<decltype(__VA_ARGS__)>
#define __typeof __typeof__
