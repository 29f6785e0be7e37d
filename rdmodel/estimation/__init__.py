"""Estimate the prediction for a whole grid from a small excerpt of it, with an interval for every number."""
