"""What the project claims, checked: scenarios, committed reference data with their sources, and records."""
