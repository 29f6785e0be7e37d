"""Name the default of the option `work`, without the imports of the model."""

DEFAULT_WORK = 15_000_000
"""Transactions that are run at most if nothing else is requested; a larger grid is sampled."""
