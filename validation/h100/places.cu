// Writes for each block the SM that it runs on, and the time at which it began. The blocks of a wave all stay until the
// last of them has begun, since they take longer than the GPU needs to start them.
extern "C" __global__ void place(unsigned *sms, unsigned long long *begins, long long cycles) {
  const long long first = clock64();
  if (threadIdx.x == 0) {
    unsigned sm;
    unsigned long long time;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    sms[blockIdx.x] = sm;
    begins[blockIdx.x] = time;
  }
  while (clock64() - first < cycles) {
  }
}
