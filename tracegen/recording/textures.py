"""Describe the textures and surfaces of a recorded program, whose texels lie in its device memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import TraceError
from tracegen.ptx.emulator.textures import ADDRESSES, block_bytes, texture_row
from tracegen.ptx.isa._code import KINDS

_KINDS = {"float": (2, 4), "signed": (1, 2, 4), "unsigned": (1, 2, 4)}
"""Kinds of components, and the sizes that they have in bytes."""

_COMPONENTS = (1, 2, 4)
_BLOCKS = (0, 1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class RecordedTexture:
    """A texture that kernels read by its `handle`.

    `width`, `height` and `depth` count texels. `block` is the number of pieces of 8 rows on top of each other, or 0 for
    rows that lie `pitch` bytes apart.
    """

    handle: int
    address: int
    width: int
    height: int
    depth: int
    components: int
    bytes: int
    kind: str
    block: int
    pitch: int
    normalized: int
    linear: int
    mode: str

    def __post_init__(self) -> None:
        """Reject values that no texture has; raises `TraceError`."""
        allowed = {
            "kind": tuple(_KINDS), "components": _COMPONENTS, "bytes": _KINDS.get(self.kind, ()), "block": _BLOCKS,
            "normalized": (0, 1), "linear": (0, 1), "mode": tuple(ADDRESSES),
        }  # fmt: skip
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                text = ", ".join(map(str, values))
                raise TraceError(f"{name}={getattr(self, name)!r:.40}: must be one of {text}")
        for name in ("width", "height", "depth"):
            if getattr(self, name) < 1:
                raise TraceError(f"{name}={getattr(self, name)}: must be at least 1")
        if self.pitch < self._row:
            raise TraceError(f"pitch={self.pitch}: must be at least the {self._row} bytes of a row")

    @classmethod
    def of(cls, event: Mapping[str, Any]) -> RecordedTexture:
        """Return the texture of an event."""
        return cls(**{name: event[name] for name in cls.__dataclass_fields__})

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the event."""
        return asdict(self)

    @property
    def _row(self) -> int:
        return self.width * self.components * self.bytes

    @property
    def _slice(self) -> int:
        """Bytes of a slice."""
        if not self.block:
            return self.pitch * (self.height - 1) + self._row if self.depth == 1 else self.pitch * self.height
        return block_bytes(self._row, self.height, self.block)

    @property
    def size(self) -> int:
        """Bytes of the texels in memory."""
        return self._slice * self.depth

    def row(self) -> tuple[int, ...]:
        """Return the row of the table of textures."""
        return texture_row(
            self.handle, self.address, (self.width, self.height, self.depth), self.components, self.bytes,
            KINDS[self.kind.upper()], self.block, self.pitch, self._slice, normalised=bool(self.normalized),
            linear=bool(self.linear), address=ADDRESSES[self.mode],
        )  # fmt: skip
