"""Write the recording of a program that launches ``gather`` of `PTX` once."""

from __future__ import annotations

from pathlib import Path

from tests.support.recorded_programs import PTX
from tracegen.recording.events import EventWriter

BASE = 1 << 40
INDEX, X, Y, WEIGHT, COUNTER = (BASE + 4096 * n for n in range(5))
"""Addresses of three allocations of 1024 bytes, and of two variables."""


def begin_recording(folder: Path) -> EventWriter:
    """Make the folder of a recording, and write its allocations and its module."""
    folder.mkdir()
    writer = EventWriter(folder)
    for address in (INDEX, X, Y):
        writer.add("allocate", address=address, bytes=1024, kind="device")
    writer.add_module(PTX)
    writer.add("load", module=0, variables={"weight": WEIGHT, "counter": COUNTER})
    return writer


def add_launch(writer: EventWriter, x: int = X) -> None:
    """Write a launch of one warp that gathers from the address `x`."""
    words = (INDEX, x, 0, Y)
    parameters = b"".join(word.to_bytes(8, "little") for word in words).hex()
    writer.add("launch", module=0, kernel="gather", grid=[1, 1, 1], block=[32, 1, 1], shared=0, parameters=parameters)


def end_recording(writer: EventWriter) -> None:
    """Write the head of the recording."""
    writer.finish(program=["./app"], gpu="a100-80g", values=False, complete=True, status=0, notes=[])
