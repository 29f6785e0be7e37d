"""Share of the kernels of public CUDA files that compile and can be executed, by suite and class of failure."""
