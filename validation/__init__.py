"""Check the claims of the project: scenarios, reference data with their sources, and committed records."""
