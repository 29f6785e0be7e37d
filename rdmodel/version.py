"""Define the version, which can be read without importing anything else."""

__version__ = "0.1.0"
