"""Whether the estimates of samples are honest: against exact runs, on the suite."""
