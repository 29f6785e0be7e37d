"""Compare the model with the simulator, and both with counters that were measured on a GPU."""
