"""Times that runs of Kernel Tuner have measured at random points of two tuning spaces."""
