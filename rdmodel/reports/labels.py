"""Define the causes of misses and the labels of re-references for all parts of a report."""

from __future__ import annotations

LAST_ACCESS_LABELS = {
    "intra_thread": "the same thread",
    "inter_thread": "other threads of the same warp",
    "intra_block": "another warp of the block",
    "intra_core": "another block on the SM",
    "inter_core": "another SM only",
}
"""The last access to a line before a re-reference, by class of the re-reference."""
