"""Texts that were needed a short while ago."""

from __future__ import annotations

from collections import OrderedDict


class Recent:
    """Texts by key, of which those whose last use is longest ago go when all are longer than `most` characters."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._length = 0
        self._held: OrderedDict[str, str] = OrderedDict()

    def get(self, key: str) -> str | None:
        """Return the text of a key, if it is still there."""
        text = self._held.get(key)
        if text is not None:
            self._held.move_to_end(key)
        return text

    def put(self, key: str, text: str) -> None:
        """Hold a text by a key."""
        self._length -= len(key) + len(self._held.pop(key)) if key in self._held else 0
        self._held[key] = text
        self._length += len(key) + len(text)
        while self._length > self._most:
            old, dropped = self._held.popitem(last=False)
            self._length -= len(old) + len(dropped)
