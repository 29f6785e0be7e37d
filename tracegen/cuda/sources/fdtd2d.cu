// fdtd2d: one time step of a 2-D finite-difference time-domain solver (PolyBench/GPU): fields ey, ex, then hz.
// One thread per point, x along the row. PAD=1 is the layout of the suite, where ex and ey have a border.

#ifndef NX
#define NX 2048
#endif
#ifndef NY
#define NY 2048
#endif
#ifndef PAD
#define PAD 0
#endif

extern "C" __global__ void fdtd2d_1(const float *fict, float *ey, const float *hz, int t) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < NX && j < NY) {
    if (i == 0) {
      ey[i * NY + j] = fict[t];
    } else {
      ey[i * NY + j] = ey[i * NY + j] - 0.5f * (hz[i * NY + j] - hz[(i - 1) * NY + j]);
    }
  }
}

extern "C" __global__ void fdtd2d_2(float *ex, const float *hz) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < NX && j < NY && j > 0) {
    ex[i * (NY + PAD) + j] = ex[i * (NY + PAD) + j] - 0.5f * (hz[i * NY + j] - hz[i * NY + (j - 1)]);
  }
}

extern "C" __global__ void fdtd2d_3(const float *ex, const float *ey, float *hz) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < NX - 1 + PAD && j < NY - 1 + PAD) {
    hz[i * NY + j] = hz[i * NY + j] - 0.7f * (ex[i * (NY + PAD) + (j + 1)] - ex[i * (NY + PAD) + j] +
                                              ey[(i + 1) * NY + j] - ey[i * NY + j]);
  }
}
