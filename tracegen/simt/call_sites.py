"""Number the places of a kernel function, and of its helpers, that access memory: the `pc` of its instructions."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from types import CodeType, FrameType

from rdmodel.trace import InstructionSource


class CallSites:
    """The numbers of the places that access memory, for the `code` of a kernel function."""

    def __init__(self, code: CodeType) -> None:
        self._code = code
        self._helpers: dict[int, InstructionSource] = {}
        self._numbers: dict[tuple[int, ...], int] = {}  # by the identities of code objects and the offsets in them
        self._codes: dict[int, CodeType] = {}  # kept, so that no other object gets their identity

    def number(self, frame: FrameType) -> int:
        """Return a number for a call site: its offset in the kernel or, through helpers, a hash of the call path."""
        if frame.f_code is self._code:
            return frame.f_lasti
        path: list[int] = []
        at: FrameType | None = frame
        while at is not None:
            path += id(at.f_code), at.f_lasti
            at = None if at.f_code is self._code else at.f_back
        key = tuple(path)
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = self._number_helper(frame)
        return known

    def _number_helper(self, frame: FrameType) -> int:
        """Return the number of a place in a helper, and remember its line."""
        way = []
        at: FrameType | None = frame
        while at is not None:
            self._codes[id(at.f_code)] = at.f_code
            way.append(f"{at.f_code.co_qualname}+{at.f_lasti}")
            at = None if at.f_code is self._code else at.f_back
        number = zlib.crc32(" ".join(way).encode()) >> 1
        self._helpers.setdefault(number, InstructionSource(frame.f_code.co_filename, frame.f_lineno or 0))
        return number

    def sources(self) -> Mapping[int, InstructionSource]:
        """Return the lines of the kernel function by number, and those of the helpers that were seen."""
        found = {}
        for first, end, line in self._code.co_lines():
            if line:
                found.update(dict.fromkeys(range(first, end), InstructionSource(self._code.co_filename, line)))
        return {**found, **self._helpers}
