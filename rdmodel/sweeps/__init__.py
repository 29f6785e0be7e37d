"""Run kernels under all points of a grid of machines and options, in several processes, resumably."""
