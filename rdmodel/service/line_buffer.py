"""Bytes from a pipe to lines, of which none is held that is too long."""

from __future__ import annotations

from collections import deque


class Lines:
    """The lines of a stream: bytes go in with `feed`, lines come out of `next` in order, without their ends."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._whole: deque[bytes | None] = deque()
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._add(end)
            self._finish()
        self._add(rest)

    def end(self) -> None:
        """Take note that the stream has ended: what came after the last line break is a line as well."""
        if self._length:
            self._finish()

    def next(self) -> bytes | None:
        """Return the next line; None stands for one that was too long. Raises `IndexError` if there is none yet."""
        return self._whole.popleft()

    def __len__(self) -> int:
        return len(self._whole)

    def _add(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._most:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _finish(self) -> None:
        self._whole.append(b"".join(self._parts) if self._length <= self._most else None)
        self._parts.clear()
        self._length = 0
