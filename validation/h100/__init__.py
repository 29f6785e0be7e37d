"""Counters of an H100 that this project measured with its own kernels, beside predictions (docs/accuracy.md)."""
