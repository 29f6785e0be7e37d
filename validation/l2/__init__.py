"""Compare the model's L2 with the simulator's, and with the hit rates that a GPU counted."""
