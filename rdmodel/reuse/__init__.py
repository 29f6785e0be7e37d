"""Measure reuse distances and derive miss-ratio curves, exactly or from a sample of lines."""
