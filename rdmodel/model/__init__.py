"""Predict L1 and L2 behaviour with the analytical model: `predict`, its options, and the compiled cores."""
