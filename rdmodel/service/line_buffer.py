"""Split a byte stream into lines of bounded length."""

from __future__ import annotations

from collections import deque


class LineBuffer:
    """Bytes that come in by `feed` and go out by `next` as lines, without their line breaks.

    A line of more than `max_bytes` comes out as None; its bytes are not stored.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lines: deque[bytes | None] = deque()
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> None:
        """Add the next bytes of the stream."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._add(end)
            self._finish()
        self._add(rest)

    def end(self) -> None:
        """Mark the end of the stream: bytes after the last line break are a line as well."""
        if self._length:
            self._finish()

    def next(self) -> bytes | None:
        """Return the next line, or None for one that was too long; raise `IndexError` if there is no line yet."""
        return self._lines.popleft()

    def __len__(self) -> int:
        return len(self._lines)

    def _add(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._max_bytes:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _finish(self) -> None:
        self._lines.append(b"".join(self._parts) if self._length <= self._max_bytes else None)
        self._parts.clear()
        self._length = 0
