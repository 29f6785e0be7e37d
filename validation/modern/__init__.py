"""Predictions beside counters of GPUs from Pascal to Ampere: miss-ratio curves, stores, and kernels by name.

`curves.csv` and `counters.csv` have the measured numbers with their sources.
"""
