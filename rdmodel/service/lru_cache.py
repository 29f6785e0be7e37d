"""Cache texts by least recent use."""

from __future__ import annotations

from collections import OrderedDict


class TextLruCache:
    """Texts by key, of at most `max_characters` with their keys; the least recently used texts are dropped first."""

    def __init__(self, max_characters: int) -> None:
        self._max_characters = max_characters
        self._length = 0
        self._texts: OrderedDict[str, str] = OrderedDict()

    def get(self, key: str) -> str | None:
        """Return the text of a key, or None if it is not in the cache."""
        text = self._texts.get(key)
        if text is not None:
            self._texts.move_to_end(key)
        return text

    def put(self, key: str, text: str) -> None:
        """Add the text of a key, and drop other texts if there is no room."""
        self._length -= len(key) + len(self._texts.pop(key)) if key in self._texts else 0
        self._texts[key] = text
        self._length += len(key) + len(text)
        while self._length > self._max_characters:
            old, dropped = self._texts.popitem(last=False)
            self._length -= len(old) + len(dropped)
