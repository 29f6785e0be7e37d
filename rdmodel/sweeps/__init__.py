"""Run kernels under all points of a grid of GPUs and options, in several processes, resumably."""
