"""Try hypotheses about errors that are not explained, each with its number: ``python -m validation.hypotheses``."""
