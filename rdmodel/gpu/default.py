"""Name the GPUs that commands and functions use where none is given.

This module imports nothing, so that help texts, which must not load NumPy, can name them.
"""

from __future__ import annotations

from collections.abc import Iterable

DEFAULT_GPU = "a100-80g"
"""Preset of commands and functions without a GPU."""

PAPER_GPU = "gtx470-16k"
"""Preset of the definition ``paper`` without a GPU: that of Nugteren et al., HPCA 2014, which fetches whole lines."""


def default_gpu(definitions: Iterable[object] = ()) -> str:
    """Return the preset that runs with these definitions of the model use without a GPU."""
    return PAPER_GPU if any(isinstance(each, str) and each == "paper" for each in definitions) else DEFAULT_GPU
