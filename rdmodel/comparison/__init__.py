"""Compare the model with the simulator, and both with hit rates that Nsight Compute measured on a GPU."""
