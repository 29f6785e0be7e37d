"""Rank tile sizes by predicted cache traffic, misses or time, without a GPU."""
