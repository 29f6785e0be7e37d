"""Describe GPUs: their SMs, caches, memory and latencies, and the occupancy of an SM by a launch."""
