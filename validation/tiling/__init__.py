"""Compare rankings of tiles with simulations of every tile; ``python -m validation.tiling``."""
