"""Describe GPUs: cores, caches, memory and latencies, and the occupancy of an SM by a launch."""
