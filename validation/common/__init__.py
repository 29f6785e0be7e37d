"""Share claims, counters of runs, and records between the validations."""
