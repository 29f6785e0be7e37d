"""Write and read recordings: folders with the events of a program that matter to its kernels.

A recording holds these files:

``recording.json``
    ``format``, ``version``, ``program`` (its command line), ``gpu``, ``values`` (whether kernels were executed),
    ``complete`` (whether the program ended by itself), ``status`` (its exit status or null), ``notes``, and the numbers
    of ``modules``, ``events``, ``launches`` and ``data`` bytes.
``events.jsonl``
    One event per line, in order (`EVENTS`). Addresses and sizes are numbers of bytes.
``data.bin``
    The contents that the program copied to the device.
``module-N.ptx``
    The PTX of the modules, from number 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.regular_files import open_regular_file, read_bounded_bytes, read_bounded_text
from rdmodel.errors import TraceError
from tracegen.recording.fatbinary import MAX_PTX_BYTES
from tracegen.recording.files import DATA_FILE, EVENTS_FILE, HEAD_FILE

RECORDING_FORMAT = "rdmodel-recording"
RECORDING_VERSION = 1
"""The format's name and version, as ``recording.json`` has them."""

MAX_HEAD_BYTES = 1 << 22
MAX_LINE_BYTES = 1 << 24
"""Largest sizes of the head and of a line of the events."""

MAX_ADDRESS = 1 << 44
"""End of the addresses of a recording."""

_NUMBER, _SHAPE, _TEXT, _PLACES, _HEX = (
    "a whole number",
    "three whole numbers",
    "a text",
    "a table",
    "hexadecimal digits",
)

EVENTS: Mapping[str, Mapping[str, str]] = {
    "allocate": {"address": _NUMBER, "bytes": _NUMBER, "kind": _TEXT},
    "free": {"address": _NUMBER},
    "write": {"address": _NUMBER, "bytes": _NUMBER, "data": _NUMBER},
    "fill": {"address": _NUMBER, "value": _HEX, "count": _NUMBER},
    "copy": {"to": _NUMBER, "from": _NUMBER, "bytes": _NUMBER},
    "texture": {
        **dict.fromkeys(("handle", "address", "width", "height", "depth", "components", "bytes", "block"), _NUMBER),
        **dict.fromkeys(("pitch", "normalized", "linear"), _NUMBER), "kind": _TEXT, "mode": _TEXT,
    },
    "load": {"module": _NUMBER, "variables": _PLACES},
    "launch": {
        "module": _NUMBER, "kernel": _TEXT, "grid": _SHAPE, "block": _SHAPE, "shared": _NUMBER, "parameters": _HEX,
    },
}  # fmt: skip
"""The fields of every event, and their kinds; a launch may have those of `OPTIONAL`, too.

``write`` takes its bytes from ``data.bin`` at offset ``data``; ``fill`` repeats the bytes ``value`` ``count`` times;
``variables`` has the addresses of the variables of a module by name; ``parameters`` are the bytes of a launch. The
fields of ``texture`` are those of `tracegen.recording.textures.RecordedTexture`.
"""

OPTIONAL: Mapping[str, str] = {"cluster": _SHAPE}
"""Fields that events may lack."""

Event = dict[str, Any]
"""An event: its fields, and its name as ``event``."""


def module_file(number: int) -> str:
    """Return the name of the file of a module."""
    return f"module-{number}.ptx"


# ---- writing


class EventWriter:
    """Write the files of a recording into a folder as the program runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._events = (folder / EVENTS_FILE).open("x", encoding="utf-8")
        self._data = (folder / DATA_FILE).open("xb")
        self._offsets: dict[bytes, int] = {}
        self.counts = {"modules": 0, "events": 0, "launches": 0, "data": 0}

    def add(self, event: str, **fields: Any) -> None:
        """Add an event."""
        self._events.write(json.dumps({"event": event, **fields}, separators=(",", ":")) + "\n")
        self.counts["events"] += 1
        self.counts["launches"] += event == "launch"

    def add_content(self, address: int, content: bytes) -> None:
        """Add the event that bytes are written at an address; equal contents are stored once."""
        if content.count(content[:1]) == len(content):
            self.add("fill", address=address, value=content[:1].hex(), count=len(content))
            return
        import hashlib  # loads OpenSSL, whose memory would count in every command

        digest = hashlib.blake2b(content, digest_size=16).digest()
        if digest not in self._offsets:
            self._offsets[digest] = self.counts["data"]
            self._data.write(content)
            self.counts["data"] += len(content)
        self.add("write", address=address, bytes=len(content), data=self._offsets[digest])

    def add_module(self, ptx: str) -> int:
        """Store a module and return its number."""
        number = self.counts["modules"]
        (self._folder / module_file(number)).write_text(ptx, encoding="utf-8")
        self.counts["modules"] += 1
        return number

    def finish(self, **head: Any) -> None:
        """Write the head, with the numbers of everything in the recording."""
        self._events.close()
        self._data.close()
        whole = {"format": RECORDING_FORMAT, "version": RECORDING_VERSION, **head, **self.counts}
        (self._folder / HEAD_FILE).write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


# ---- reading


@dataclass(frozen=True, slots=True)
class RecordingHead:
    """The head of a recording: its `folder` and the fields of ``recording.json``."""

    folder: Path
    program: tuple[str, ...]
    gpu: str
    values: bool
    complete: bool
    notes: tuple[str, ...]
    counts: Mapping[str, int] = field(default_factory=dict)


def read_head(folder: Path) -> RecordingHead:
    """Read the head of a recording; raises `TraceError`, which names the file and the field."""
    path = folder / HEAD_FILE
    try:
        table = json.loads(read_bounded_bytes(path, MAX_HEAD_BYTES))
    except (ValueError, RecursionError) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"{path}: {error}") from None
    if not isinstance(table, dict) or table.get("format") != RECORDING_FORMAT:
        raise TraceError(f"{path}: format: must be {RECORDING_FORMAT!r}")
    version = table.get("version")
    if version != RECORDING_VERSION or isinstance(version, bool):
        raise TraceError(f"{path}: version={version!r:.40}: must be {RECORDING_VERSION}; record the program again")

    def take(name: str, kind: type, allowed: str) -> Any:
        value = table.get(name)
        is_negative = isinstance(value, int) and value < 0
        if not isinstance(value, kind) or is_negative or (kind is int and isinstance(value, bool)):
            raise TraceError(f"{path}: {name}={value!r:.40}: must be {allowed}")
        return value

    texts = {name: take(name, list, "a list of texts") for name in ("program", "notes")}
    for name, items in texts.items():
        if not all(isinstance(item, str) for item in items):
            raise TraceError(f"{path}: {name}: must be a list of texts")
    counts = {name: take(name, int, "a whole number") for name in ("modules", "events", "launches", "data")}
    head = RecordingHead(
        folder, tuple(texts["program"]), take("gpu", str, "a text"), take("values", bool, "true or false"),
        take("complete", bool, "true or false"), tuple(texts["notes"]), counts,
    )  # fmt: skip
    size = (folder / DATA_FILE).stat().st_size if (folder / DATA_FILE).is_file() else -1
    if size != counts["data"]:
        found = "is missing" if size < 0 else f"has {size} bytes"
        raise TraceError(f"{folder / DATA_FILE}: {found}, must have the {counts['data']} bytes that {HEAD_FILE} names")
    return head


def read_events(head: RecordingHead) -> Iterator[tuple[Event, Callable[[str], TraceError]]]:
    """Yield every event of a recording, and a function that makes an error about its line from a message.

    The fields have the kinds in `EVENTS`. Raises `TraceError`, which names the file, the line and the field, also for a
    missing end.
    """
    path = head.folder / EVENTS_FILE
    number = launches = 0
    with open_regular_file(path) as file:
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1

            def fail(message: str, number: int = number) -> TraceError:
                return TraceError(f"{path}: line {number}: {message}")

            if len(line) > MAX_LINE_BYTES or not line.endswith(b"\n"):
                raise fail("is cut off, or too long")
            event = _read_event(line, fail)
            launches += event["event"] == "launch"
            yield event, fail
    for name, found in (("events", number), ("launches", launches)):
        if found != head.counts[name]:
            raise TraceError(f"{path}: holds {found} {name}, must hold the {head.counts[name]} that {HEAD_FILE} names")


def _read_event(line: bytes, fail: Callable[[str], TraceError]) -> Event:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise fail(str(error)) from None
    name = event.get("event") if isinstance(event, dict) else None
    if not isinstance(name, str) or name not in EVENTS:
        raise fail(f"event={name!r:.40}: must be one of {', '.join(EVENTS)}")
    for key, kind in EVENTS[name].items():
        if key not in event or not _CHECKS[kind](event[key]):
            raise fail(f"{key}={event.get(key)!r:.40}: must be {kind}")
    for key, kind in OPTIONAL.items():
        if key in event and not _CHECKS[kind](event[key]):
            raise fail(f"{key}={event[key]!r:.40}: must be {kind}")
    return dict(event)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_ADDRESS


def _is_hex(value: Any) -> bool:
    try:
        return isinstance(value, str) and bytes.fromhex(value).hex() == value
    except ValueError:
        return False


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    _NUMBER: _is_number,
    _SHAPE: lambda value: isinstance(value, list) and len(value) == 3 and all(map(_is_number, value)),
    _TEXT: lambda value: isinstance(value, str),
    _PLACES: lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
    _HEX: _is_hex,
}


def read_ptx(head: RecordingHead, number: int) -> str:
    """Return the PTX of a module of a recording; raises `TraceError`."""
    return read_bounded_text(head.folder / module_file(number), MAX_PTX_BYTES)
