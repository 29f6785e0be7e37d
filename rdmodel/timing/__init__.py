"""Estimate the time of a kernel launch from its work, its cache traffic and the rates of a GPU (docs/time.md)."""
