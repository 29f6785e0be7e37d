"""Name the classes and causes that several parts of a report show."""

from __future__ import annotations

CLASSES = {
    "intra_thread": "the same thread",
    "inter_thread": "other threads of the same warp",
    "intra_block": "another warp of the block",
    "intra_core": "another block on the SM",
    "inter_core": "another SM only",
}
"""Classes of re-references, by who touched the line before."""
