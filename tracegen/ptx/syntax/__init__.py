"""Parse PTX text into values."""
