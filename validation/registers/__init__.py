"""Registers of kernels on GPUs that no assembler at hand knows: from code for a related GPU, and estimated."""
