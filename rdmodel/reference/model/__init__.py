"""Restate the analytical model in plain Python, as the oracle of the compiled cores."""
