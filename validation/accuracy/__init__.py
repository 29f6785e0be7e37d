"""Summarise all comparisons with counters of GPUs: a table, and the errors to expect of new kernels."""
