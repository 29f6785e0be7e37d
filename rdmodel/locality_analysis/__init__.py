"""Classify the re-references of a kernel by the thread, warp, block or SM that touched the line before.

`concentration` measures how an index function spreads the transactions of loads over the sets.
"""
