"""Tile sizes: what the simulator finds for each, to hold rankings against; ``python -m validation.tiling``."""
