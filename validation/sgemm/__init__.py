"""Times of public kernels that multiply matrices in single precision, beside published speeds."""
