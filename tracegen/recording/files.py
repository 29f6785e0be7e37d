"""Name the files of a recording, and tell a recording from other folders."""

from __future__ import annotations

from pathlib import Path

HEAD_FILE, EVENTS_FILE, DATA_FILE = "recording.json", "events.jsonl", "data.bin"
"""Names of the files of a recording, apart from the modules."""


def is_recording(path: Path) -> bool:
    """Return whether a path is a folder with the head of a recording."""
    return (path / HEAD_FILE).is_file()
