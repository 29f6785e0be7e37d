"""Times of public kernels that multiply matrices in single and half precision, beside published speeds."""
