"""The PTX in fat binaries is found, plain or compressed, and damaged ones are refused."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel.errors import TraceError
from tests.support.recorded_programs import PTX, fat_binary
from tracegen.recording.fatbinary import LZ4, ZSTD, decompress_lz4, find_linked_ptx, find_ptx

TEXT = PTX.encode()


def compress_lz4(data: bytes) -> bytes:
    """Compress by the longest match with an earlier place, found by search."""

    def extended(number: int) -> bytes:
        return bytes([255] * (number // 255) + [number % 255])

    out, at, begin = b"", 0, 0
    while at < len(data):
        length, place = 0, 0
        if at + 12 < len(data):  # the last bytes are literals
            while (
                length < len(data) - 5 - at
                and (found := data.rfind(data[at : at + max(4, length + 1)], 0, at + max(3, length))) >= 0
            ):
                length, place = max(4, length + 1), found
                if at - place > 65535:
                    length = 0
                    break
        if length < 4:
            at += 1
            continue
        literals = data[begin:at]
        out += bytes([min(15, len(literals)) << 4 | min(15, length - 4)])
        out += extended(len(literals) - 15) if len(literals) >= 15 else b""
        out += literals + (at - place).to_bytes(2, "little")
        out += extended(length - 19) if length >= 19 else b""
        at = begin = at + length
    literals = data[begin:]
    return (
        out
        + bytes([min(15, len(literals)) << 4])
        + (extended(len(literals) - 15) if len(literals) >= 15 else b"")
        + literals
    )


@pytest.mark.parametrize("data", [TEXT, bytes(1000), b"ab" * 400, b"short", np.random.default_rng(0).bytes(600)])
def test_a_compressed_text_is_read(data):
    packed = compress_lz4(data)
    assert decompress_lz4(packed, len(data)) == data


def test_entries_of_every_kind_are_read():
    packed = compress_lz4(TEXT)
    assert len(packed) < len(TEXT)
    assert find_ptx(fat_binary([(1, 75, LZ4, packed, len(TEXT))]), 80) == PTX
    assert find_ptx(fat_binary([(2, 75, 0, b"\x7fELF", 0), (1, 75, 0, TEXT + bytes(3), 0)]), 80) == PTX
    assert find_ptx(TEXT + bytes(1), 80) == PTX
    zstd = pytest.importorskip("backports.zstd")
    assert find_ptx(fat_binary([(1, 75, ZSTD, zstd.compress(TEXT), len(TEXT))]), 80) == PTX


@pytest.mark.parametrize(("capability", "chosen"), [(70, "seven"), (75, "seven"), (86, "eight"), (60, "seven")])
def test_the_newest_text_that_the_device_runs_is_taken(capability, chosen):
    image = fat_binary([(1, 80, 0, b"eight", 0), (1, 70, 0, b"seven", 0), (1, 90, 0, b"nine", 0)])
    assert find_ptx(image, capability) == chosen


def test_an_image_with_machine_code_only_names_the_option():
    with pytest.raises(TraceError, match=r"machine code and no PTX: .*-gencode"):
        find_ptx(fat_binary([(2, 75, 0, b"\x7fELF", 0)]), 80)


def test_a_damaged_image_is_refused_or_read():
    image = fat_binary([(1, 75, LZ4, compress_lz4(TEXT[:300]), 300), (1, 80, 0, TEXT[:50], 0)])
    random = np.random.default_rng(1)
    for length in range(4, len(image)):
        with pytest.raises(TraceError, match="fat binary"):
            find_ptx(image[:length], 75)
    for _ in range(500):
        damaged = bytearray(image)
        for at in random.integers(4, len(image), 3):
            damaged[at] = random.integers(256)
        try:
            find_ptx(bytes(damaged), 75)
        except TraceError:
            continue


def test_units_behind_each_other_are_all_found_and_those_without_ptx_are_left_out():
    first, second = (fat_binary([(1, 75, 0, text, 0)]) for text in (TEXT, b"two"))
    machine = fat_binary([(2, 75, 0, b"\x7fELF machine code", 0)])
    assert find_linked_ptx(first + machine + second, 80) == f"{PTX}\ntwo"
    assert find_linked_ptx(TEXT, 80) == PTX
    with pytest.raises(TraceError, match="holds machine code and no PTX"):
        find_linked_ptx(machine + machine, 80)


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_units_that_are_cut_off_are_refused(cut):
    whole = fat_binary([(1, 75, 0, TEXT, 0)])
    for images in (whole + whole[:-cut], whole[:-cut]):
        with pytest.raises(TraceError, match="fat binary: claims"):
            find_linked_ptx(images, 80)
