// cuda_runtime.h and cuda.h, included before every file: what nvcc declares without being asked.
#pragma once
#include <cmath>
#include <stdint.h>
#include <limits.h>
namespace std {
}
