"""Define the targets for traces of other tools, and for packed files."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rdmodel.errors import TraceError
from rdmodel.trace import Trace
from tracegen.formats import accelsim, compressed, nvbit, ppt, trc
from tracegen.formats.plain import PLAIN_FORMATS, read_plain
from tracegen.formats.recorded_trace import RecordedTrace, Skipped
from validation.fuzzing import seeds, shaping
from validation.fuzzing.laws import BrokenLaw, check_equal, check_round_trip, check_trace, plain, require
from validation.fuzzing.mutation import Shaper
from validation.fuzzing.target import NAMED, WAYS, Target, Way
from validation.fuzzing.words import CONFIG, KERNELSLIST, NVBIT, OPCODES, PLAIN, PPT, TRACEG, TRC, words

WATCHED = ("/tracegen/formats/",)

Read = Callable[[Path, Way], RecordedTrace]


def _nvbit(path: Path, way: Way) -> RecordedTrace:
    compressed.CHUNK_BYTES = way.chunk
    return nvbit.read_nvbit(path, kernel=way.kernel, lenient=way.lenient, memory=way.memory)


def _ppt(path: Path, way: Way) -> RecordedTrace:
    compressed.CHUNK_BYTES = way.chunk
    block = (64, 1, 1) if path.is_file() else None
    return ppt.read_ppt(path, kernel=way.kernel, block=block, lenient=way.lenient, memory=way.memory)


def _accelsim(path: Path, way: Way) -> RecordedTrace:
    compressed.CHUNK_BYTES = way.chunk
    return accelsim.read_accelsim(path, kernel=way.kernel, lenient=way.lenient, memory=way.memory)


def _trc(path: Path, way: Way) -> RecordedTrace:
    compressed.CHUNK_BYTES = way.chunk
    return trc.read_trc(path, lenient=way.lenient)


def _plain(path: Path, way: Way, form: str) -> RecordedTrace:
    compressed.CHUNK_BYTES = way.chunk
    return read_plain(path, form, block=(40, 1, 1), lenient=way.lenient, memory=way.memory)


def _check_buffers(found: RecordedTrace, way: Way, path: Path, read: Read) -> None:
    """Check that buffers and leniency do not change a recorded trace, and that it can be written and read back."""
    require(way.lenient or found.skipped == Skipped(), "strict, but something was left out")
    if not way.lenient and path.is_file():
        require(_is_complete(path.read_bytes()), "strict, but the file ends within a line")
    require(all(plain(text) for text in found.skipped.examples), "the report of a skipped line is not one line")
    for lenient in (False, True):
        try:
            again = read(path, Way(lenient, way.kernel, 1 << 14, 1000))
        except TraceError as error:
            left_out = replace(found.skipped, examples=(), blocks=0) != Skipped()
            if not (way.lenient and left_out and not lenient):
                raise BrokenLaw(f"read, but with another buffer refused: {error}") from None
            continue
        filled = found.skipped.blocks != again.skipped.blocks
        check_equal(*((_active(found), _active(again)) if filled else (found, again)), "with another buffer")
        expected = found.skipped.lines if way.lenient else 0
        require(again.skipped.lines == expected, "another number of lines skipped")
        same = (again.skipped.warps, again.skipped.lanes) == (found.skipped.warps, found.skipped.lanes)
        require(same, "another number of warps or lanes left out")
    check_round_trip(found, path if path.is_dir() else path.parent)


def _is_complete(text: bytes) -> bool:
    """Tell whether a text does not end within a line of a tool."""
    last = text.rpartition(b"\n")[2]
    if text.startswith(MAGICS) or not last.strip():
        return True
    return last.endswith(b" ") or (b"MEMTRACE: " in text and b"MEMTRACE: " not in last)


def _active(trace: RecordedTrace) -> Trace:
    """Return a trace without the blocks that access no memory, which lenient readers add."""
    lengths = np.diff(trace.columns.warp_start).reshape(-1, trace.launch.block_warps)
    some = lengths.any(axis=1)
    columns = replace(trace.columns, warp_start=np.concatenate([[0], np.cumsum(lengths[some])]))
    return Trace(trace.launch, columns, np.asarray(trace.blocks, np.int64)[some].tolist())


def _target(name: str, file: str, read: Read, *texts: bytes, **more: Any) -> Target:
    return Target(
        name=name,
        file=file,
        read=read,
        deeply=partial(_check_buffers, read=read),
        watched=WATCHED,
        words=words(*texts),
        **{"ways": WAYS, **more},
    )


_PPT_NAMES = (
    *("kernel_1_block_1.mem", "kernel_1_block_0.mem.gz", "kernel_2_block_0.mem", "app_config.py"),
    *("kernel_1_block_2147483646.mem", "kernel_1_block_9999999999.mem", "memory_traces/app_config.py"),
    *("memory_traces/kernel_1_block_0.mem", "kernel_01_block_01.mem", "kernel_1_block_3.mem.zst"),
)
_TRACE_NAMES = ("kernel-1.traceg", "kernel-2.traceg.xz", "kernel-2.traceg")
_RENAMED: dict[str, tuple[Shaper, ...]] = {
    name: (shaping.missing, shaping.renamed(names)) for name, names in (("ppt", _PPT_NAMES), ("list", _TRACE_NAMES))
}

TEXTS = (
    _target("nvbit", "run.txt", _nvbit, OPCODES, NVBIT, seeds=seeds.nvbit, ways=NAMED, most=6000),
    _target("accelsim", "kernel-1.traceg", _accelsim, OPCODES, TRACEG, seeds=seeds.accelsim),
    _target("trc", "run.trc", _trc, TRC, seeds=seeds.trc),
    *(
        _target(form, "run.txt", partial(_plain, form=form), PLAIN, seeds=seeds.plain_lines(form))
        for form in PLAIN_FORMATS
    ),
    _target("ppt", "kernel_1_block_0.mem", _ppt, OPCODES, PPT, seeds=seeds.ppt),
    _target(
        *("ppt-folder", ".", _ppt, OPCODES, PPT, CONFIG),
        seeds=seeds.ppt_folder,
        ways=NAMED,
        shapers=_RENAMED["ppt"],
        most=8000,
    ),
    _target(
        *("kernelslist", ".", _accelsim, OPCODES, TRACEG, KERNELSLIST),
        seeds=seeds.kernelslist,
        ways=NAMED,
        shapers=_RENAMED["list"],
    ),
)


# ---- Packed files

_MOST_READ = 1 << 24
_SKIPPABLE = tuple(bytes([n]) + b"\x2a\x4d\x18" for n in range(0x50, 0x60))
MAGICS = (b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", *_SKIPPABLE)


def _unpack(path: Path, way: Way) -> tuple[bytes, RecordedTrace | str]:
    """Return the contents of a packed file, at most 16 MiB, and its trace, or the message of the error.

    The error itself is not returned: it refers to this frame, so that the stream would stay open until the next garbage
    collection.
    """
    with compressed.open_stream(path) as stream:
        text = bytearray()
        while len(text) < _MOST_READ and (piece := stream.read(min(way.chunk, 1 << 16))):
            text += piece
    try:
        return bytes(text), _trc(path, way)
    except TraceError as error:
        return bytes(text), str(error)


def _check_unpacked(found: tuple[bytes, Any]) -> None:
    if isinstance(found[1], Trace):
        check_trace(found[1])


def _check_as_plainly_unpacked(
    found: tuple[bytes, Any], way: Way, path: Path, *, plainly: Callable[[bytes], bytes | None]
) -> None:
    """Check that a file is unpacked as by the standard library, and that its trace is that of the unpacked text."""
    text, trace = found
    data = path.read_bytes()
    expected = plainly(data) if data.startswith(MAGICS) else data
    require(len(text) >= _MOST_READ or text == expected, "unpacked differently from the standard library")
    path.write_bytes(text)
    if text.startswith(MAGICS):
        return
    try:
        again = _trc(path, way)
    except TraceError as error:
        require(str(error) == trace, "unpacked, refused for another reason")
        return
    require(isinstance(trace, Trace), "refused when packed, but read when unpacked")
    check_equal(again, trace, "unpacked")


def _gunzip(data: bytes) -> bytes | None:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, ValueError):
        return None


def _unxz(data: bytes) -> bytes | None:
    return _streams(data, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ))


def _unzstd(data: bytes) -> bytes | None:
    from backports import zstd

    return _streams(data, zstd.ZstdDecompressor)


def _streams(data: bytes, new: Callable[[], Any]) -> bytes | None:
    """Return the contents of consecutive streams with zero bytes between them; None if one does not end."""
    text = b""
    while data:
        decoder = new()
        text += decoder.decompress(data)
        if not decoder.eof:
            return None
        data = decoder.unused_data.lstrip(b"\0")
    return text


def _packed(name: str, plainly: Callable[[bytes], bytes | None], more: list[bytes]) -> Target:
    return Target(
        name=name,
        file="run.trc",
        read=_unpack,
        seeds=seeds.packed(name),
        watched=WATCHED,
        check=_check_unpacked,
        deeply=partial(_check_as_plainly_unpacked, plainly=plainly),
        words=tuple(more),
        shapers=(shaping.repacked(words(TRC), (name,)),),
        ways=(Way(), Way(lenient=True, chunk=61), Way(chunk=1000)),
    )


PACKED = (
    _packed("gzip", _gunzip, [b"\x1f\x8b\x08", b"\x1f\x8b\x08\0\0\0\0\0\0\xff", b"\x1f\x8b\x08\x1f", b"\x03\0"]),
    _packed("xz", _unxz, [b"\xfd7zXZ\0", b"\xfd7zXZ\0\0\4", b"YZ", b"\x21\1", b"\0\0\0\0"]),
    _packed("zstd", _unzstd, [*MAGICS[2:], b"\x50\x2a\x4d\x18\3\0\0\0", b"\x50\x2a\x4d\x18\xff\xff\xff\xff"]),
)
