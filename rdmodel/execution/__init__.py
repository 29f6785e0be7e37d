"""Run work in threads and processes, and bound the memory that a run needs."""
