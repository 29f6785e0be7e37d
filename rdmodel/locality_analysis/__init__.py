"""Classify the re-references of a kernel by who touched the line before, and measure how loads concentrate."""
