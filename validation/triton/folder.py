"""Name the folder with the records of the Triton kernels."""

from pathlib import Path

FOLDER = Path(__file__).parent
