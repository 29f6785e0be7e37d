"""Compare the results of all PolyBench kernels under both engines with recorded ones, bit for bit."""
