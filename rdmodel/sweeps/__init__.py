"""Run grids of machines and options over kernels and traces, in several processes, resumably."""
