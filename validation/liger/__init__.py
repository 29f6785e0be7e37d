"""Times of the operations of Liger-Kernel, which are written in Triton, beside published ones."""
