"""Compare predicted times of Triton kernels with published ones."""
