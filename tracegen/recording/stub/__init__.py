"""Hold the C sources of the stand-ins for CUDA's libraries."""
