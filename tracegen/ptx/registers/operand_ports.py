"""Count the cycles for which multiply-adds wait for the ports of the register file, from machine code.

The registers of a sub-core lie in two banks, the even and the odd ones, each with one port that reads a register of a
warp per cycle. A fixed-latency instruction reads its operands in the three cycles after its issue, and is issued later
if the ports are not free for as many of them. A small cache keeps an operand that the compiler has marked for the next
instruction, at the same place (Huerta et al., "Analyzing Modern NVIDIA GPU cores", arXiv 2503.20481, section 5.3). Such
waits matter where a sub-core begins a multiply-add of a warp per cycle, which reads three operands.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_READ_CYCLES = 3
"""Cycles after its issue in which an instruction reads its operands."""

INSTRUCTION_BYTES = 16
"""Bytes of an instruction, since Volta."""

_MULTIPLY_ADD, _BRANCHES = 0x023, (0x947, 0x547)
"""FFMA, in the lower 9 of 12 bits, which are followed by the form of its operands; BRA and BRA.U."""

_THREE_REGISTERS = 1
"""Form in which the second operand is a register, too."""

_ZERO_REGISTER = 255

_WORDS_SINCE = 90
"""Architecture since which branches count in words of four bytes, the lowest eight bits of which lie apart."""

Reads = tuple[int, ...]
"""The registers of a multiply-add by the places of its operands, or -1; then whether each of them is kept."""


def operand_stalls(code: bytes, kernel: str, architecture: int) -> float:
    """Return the cycles for which a multiply-add of single precision waits for its operands, in the mean of the loops.

    `code` is a file in the format of a cubin. The innermost loops count, or the whole kernel if it has none. 0.0 for
    code without such instructions, or without the kernel. O(instructions).
    """
    text = section(code, f".text.{kernel}")
    if len(text) < INSTRUCTION_BYTES or len(text) % INSTRUCTION_BYTES:
        return 0.0
    words = np.frombuffer(text, "<u8").reshape(-1, 2)
    reads = list(_reads(words))
    ranges = _innermost_loops(words, architecture)
    stalls = total = 0
    for first, end in ranges if any(any(reads[a:b]) for a, b in ranges) else [(0, len(words))]:
        stalls += _stalls(reads[first:end])
        total += sum(each is not None for each in reads[first:end])
    return stalls / total if total else 0.0


def section(code: bytes, name: str) -> bytes:
    """Return a section of a file in ELF format; empty if there is none, or if it is no such file."""
    if code[:5] != b"\x7fELF\x02" or len(code) < 64:
        return b""
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count, names = struct.unpack_from("<3H", code, 58)
    if table + size * count > len(code) or names >= count:
        return b""
    rows = [struct.unpack_from("<IIQQQQ", code, table + size * at) for at in range(count)]
    text = code[rows[names][4] : rows[names][4] + rows[names][5]]
    for start, _, _, _, offset, length in rows:
        if text[start : text.find(b"\0", start)] == name.encode():
            return code[offset : offset + length]
    return b""


def _reads(words: NDArray[Any]) -> Iterator[Reads | None]:
    """Yield the registers that each instruction reads if it is a multiply-add, and None for others."""
    low, high = words[:, 0], words[:, 1]
    three = (low >> 9 & 7) == _THREE_REGISTERS
    registers = np.stack((low >> 24 & 255, np.where(three, low >> 32 & 255, _ZERO_REGISTER), high & 255), axis=1)
    registers = np.where(registers == _ZERO_REGISTER, -1, registers.astype(np.int64))
    kept = np.stack([high >> bit & 1 for bit in (58, 59, 60)], axis=1)
    rows = np.concatenate((registers, kept.astype(np.int64)), axis=1).tolist()
    for is_one, row in zip((low & 0x1FF) == _MULTIPLY_ADD, rows, strict=True):
        yield tuple(row) if is_one else None


def _innermost_loops(words: NDArray[Any], architecture: int) -> list[tuple[int, int]]:
    """Return the loops that contain no others: the first instruction of each, and the one behind its branch back."""
    found = set()
    for at in np.flatnonzero(np.isin(words[:, 0] & 0xFFF, _BRANCHES)).tolist():
        low, high = (int(word) for word in words[at])
        if architecture >= _WORDS_SINCE:
            distance = 4 * (_signed(low >> 34 | (high & 0x3FFFF) << 30, 48) << 8 | (low >> 16 & 255))
        else:
            distance = _signed(low >> 32 | (high & 0x3FFFF) << 32, 50)
        target = at + 1 + distance // INSTRUCTION_BYTES
        if 0 <= target < at:
            found.add((target, at + 1))
    return [
        (first, end)
        for first, end in sorted(found)
        if not any((a, b) != (first, end) and first <= a and b <= end for a, b in found)
    ]


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> (bits - 1) & 1 else number


def _stalls(instructions: Sequence[Reads | None]) -> int:
    """Return the cycles in which the issue of some instructions waits for ports, if one warp is issued at a time."""
    busy = [0, 0]  # the next cycles, by bit, in which the port of each bank is taken
    cache: tuple[int, ...] = (-1, -1, -1)
    stalls = 0
    for reads in instructions:
        if reads is None:
            cache = (-1, -1, -1)
        else:
            needed = [0, 0]
            for place in range(3):
                register = reads[place]
                if register >= 0 and cache[place] != register:
                    needed[register & 1] += 1
            cache = tuple(reads[place] if reads[place + 3] else -1 for place in range(3))
            while any(_READ_CYCLES - busy[bank].bit_count() < needed[bank] for bank in (0, 1)):
                stalls += 1
                busy = [each >> 1 for each in busy]
            for bank in (0, 1):
                for _ in range(needed[bank]):
                    busy[bank] |= ~busy[bank] & (busy[bank] + 1)
        busy = [each >> 1 for each in busy]
    return stalls
