"""The model's L2 beside the simulator's, and beside the hit rates that a GPU counted."""
