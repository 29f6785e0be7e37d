"""Compare the estimates of samples with exact runs on the suite: how often intervals hold the exact number."""
