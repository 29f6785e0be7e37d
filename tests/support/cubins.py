"""Make files in the format of a cubin, of which the machine code of a kernel is all."""

from __future__ import annotations

import struct


def cubin(*instructions: tuple[int, int], kernel: str = "k") -> bytes:
    """Return a file in ELF format with the code of a kernel."""
    text = b"".join(struct.pack("<QQ", *words) for words in instructions)
    names = b"\0.shstrtab\0" + f".text.{kernel}".encode() + b"\0"
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + bytes(24)
    table = 64 + len(names) + len(text)
    head += struct.pack("<QI6H", table, 0, 64, 0, 0, 64, 3, 1)
    rows = [(0, 0, 0, 0, 0, 0), (1, 3, 0, 0, 64, len(names)), (11, 1, 0, 0, 64 + len(names), len(text))]
    return head + names + text + b"".join(struct.pack("<IIQQQQ", *row) + bytes(24) for row in rows)
