"""Define the values that `predict` and `simulate` return, and convert them to and from JSON."""
