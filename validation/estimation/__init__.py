"""Compare quick estimates with exact runs: their errors, and how often their intervals hold the exact number."""
