// cuda_runtime.h and cuda.h, included before every file: the implicit declarations of nvcc.
#pragma once
#include <cmath>
#include <stdint.h>
#include <limits.h>
namespace std {
}
