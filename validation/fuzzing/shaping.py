"""Change binary files within their format, so that readers get past the outer form."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import re
import zlib
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from validation.fuzzing.mutation import Case, Mutator, Shaper
from validation.fuzzing.seeds import npy

_UNPACKED = 1 << 20
INTEGERS = [0, 1, 2, -1, 3, 31, 32, 255, 256, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 56) + 1]
INTEGERS += [(1 << 62) + 1, (1 << 63) - 16, (1 << 63) - 15, (1 << 63) - 1, -(1 << 63)]
_ANY: list[Any] = [
    None,
    True,
    1.5,
    1e300,
    "",
    "1",
    "a\nb",
    "\ud800",
    [],
    [1, 1],
    {},
    1 << 64,
    10**18,
    10**25,
    *INTEGERS,
]


def any_value(rng: Random) -> Any:
    """Return a JSON value that is probably invalid at any place."""
    return rng.choice(_ANY)


def change_json(value: Any, rng: Random) -> Any:
    """Return a JSON value with something in it replaced, dropped, repeated or nested."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(list(value))
        kind = rng.random()
        if kind < 0.1:
            return {key: held for key, held in value.items() if key != name}
        if kind < 0.15:
            return {**value, rng.choice(("", "x", "kernel", name.upper())): value[name]}
        return {**value, name: change_json(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        at, kind = rng.randrange(len(value)), rng.random()
        if kind < 0.15:
            return value[:at] + value[at + 1 :]
        if kind < 0.3:
            return value[: at + 1] + value[at:]
        return [*value[:at], change_json(value[at], rng), *value[at + 1 :]]
    kind = rng.random()
    if isinstance(value, int) and kind < 0.4:
        return value + rng.choice((-1, 1))
    if kind < 0.02:
        return nested(value, rng.choice((20, 100, 3000)))
    return any_value(rng)


def nested(value: Any, depth: int) -> Any:
    """Return a value within `depth` lists."""
    for _ in range(depth):
        value = [value]
    return value


def dumped(value: Any) -> bytes:
    """Return JSON, also of what is nested deeper than the encoder likes."""
    try:
        return json.dumps(value).encode()
    except RecursionError:
        return b"[" * 5000 + b"]" * 5000


def json_file(name: str) -> Shaper:
    """Return what changes the values in a file of JSON."""

    def shape(case: Case, rng: Random) -> Case:
        try:
            value = json.loads(case.get(name, b""))
        except (ValueError, RecursionError):
            return case
        for _ in range(rng.randint(1, 3)):
            value = change_json(value, rng)
        return {**case, name: dumped(value)}

    return shape


# ---- Packed files


def repacked(tokens: Sequence[bytes], kinds: tuple[str, ...]) -> Shaper:
    """Return what changes the text in packed files, or packs it in other ways."""

    def shape(case: Case, rng: Random) -> Case:
        name = rng.choice(list(case)) if case else ""
        text = unpacked(case.get(name, b""))
        if text is None:
            return case
        if rng.random() < 0.7:
            text = Mutator(rng, tokens, ()).changed({name: text}, {})[name]
        return {**case, name: pack(text, rng, kinds)}

    return shape


def unpacked(data: bytes) -> bytes | None:
    """Return what a packed file holds, at most 1 MiB; None if it is damaged or larger."""
    from backports import zstd

    try:
        if data[:2] == b"\x1f\x8b":
            text = zlib.decompressobj(31).decompress(data, _UNPACKED)
        elif data[:6] == b"\xfd7zXZ\0":
            text = lzma.LZMADecompressor(memlimit=1 << 28).decompress(data, _UNPACKED)
        else:
            text = zstd.ZstdDecompressor().decompress(data, _UNPACKED)
    except (zlib.error, lzma.LZMAError, zstd.ZstdError, EOFError):
        return None
    return text if len(text) < _UNPACKED else None


def pack(text: bytes, rng: Random, kinds: tuple[str, ...]) -> bytes:
    """Return a text packed in one of some ways, as one stream or several, with padding or junk behind it."""
    at = rng.randint(0, len(text)) if rng.random() < 0.3 else 0
    parts = [text[:at], text[at:]] if at else [text]
    ends = [b""] * 6 + [
        b"\0" * 4,
        b"\0" * (70_000 if rng.random() < 0.01 else 12),
        b"\0",
        b"junk",
        b"\x1f",
        b"\x1f\x8b",
        b"\xfd7zXZ\0",
        b"\x28\xb5\x2f\xfd",
    ]
    return b"".join(_packed(part, rng, rng.choice(kinds)) for part in parts) + rng.choice(ends)


def _packed(text: bytes, rng: Random, kind: str) -> bytes:
    from backports import zstd

    if kind == "gzip":
        data = bytearray(gzip.compress(text, rng.choice((0, 1)), mtime=0))
        flag = rng.choice((0, 0, 0, 2, 4, 8, 16, 31, 128))
        fields = (b"\x02\0ab" if flag & 4 else b"") + (b"n\0" if flag & 8 else b"") + (b"c\0" if flag & 16 else b"")
        data[3] = flag
        checksum = zlib.crc32(bytes(data[:10]) + fields).to_bytes(4, "little")[:2] if flag & 2 else b""
        data[10:10] = fields + checksum
        return bytes(data)
    if kind == "xz":
        check = rng.choice((lzma.CHECK_NONE, lzma.CHECK_CRC32, lzma.CHECK_CRC64, lzma.CHECK_SHA256))
        size = rng.choice((1 << 12, 1 << 16))
        return lzma.compress(text, check=check, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": size}])
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    flags = zstd.CompressionParameter.checksum_flag, zstd.CompressionParameter.content_size_flag
    options = {int(flag): rng.randrange(2) for flag in flags}
    return (skippable if rng.random() < 0.1 else b"") + bytes(zstd.compress(text, options=options))


# ---- Folders of the native form


def column(case: Case, rng: Random) -> Case:
    """Change values, length, type or header of a ``.npy`` file; sometimes the length in ``meta.json`` as well."""
    names = [name for name in case if name.endswith(".npy")]
    if not names:
        return case
    name = rng.choice(names)
    try:
        array = np.load(io.BytesIO(case[name]), allow_pickle=False)
    except Exception:  # NumPy raises nearly anything for a bad header
        return case
    if array.ndim != 1 or array.size > 4096:
        return case
    kind = rng.randrange(5)
    data = npy(_values(array, rng)) if kind < 2 else npy(_resized(array, rng)) if kind == 2 else _header(array, rng)
    changed = {**case, name: data}
    return _told(changed, name, rng) if kind == 2 and rng.random() < 0.8 else changed


def _values(array: Any, rng: Random) -> Any:
    if not array.size:
        return array
    at = rng.randrange(array.size)
    wide = array.copy().reshape(-1)
    with np.errstate(all="ignore"):
        wide[at] = np.array([rng.choice(INTEGERS)]).astype(wide.dtype)[0] if wide.dtype.kind in "iub" else wide[0]
    return wide


def _resized(array: Any, rng: Random) -> Any:
    flat = array.reshape(-1)
    at = rng.randint(0, len(flat))
    return flat[:at] if rng.random() < 0.5 else np.concatenate([flat, flat[:at]])


_DESCRIPTIONS = [
    "<i8",
    ">i8",
    "|O",
    "|V8",
    "<f8",
    "<U3",
    "|S0",
    "<M8[s]",
    "",
    "<i99",
    [("a", "<i8")],
    None,
    8,
    "?",
    "<c16",
]


def _header(array: Any, rng: Random) -> bytes:
    """Return a ``.npy`` file with a header that contradicts its data."""
    shape: Any = rng.choice(
        [array.shape, (len(array) + 1,), (1, len(array)), (), (-1,), (1 << 62,), (1 << 64,), (None,), 3]
    )
    head: Any = {"descr": array.dtype.str, "fortran_order": rng.choice((False, True, 1)), "shape": shape}
    if rng.random() < 0.5:
        head["descr"] = rng.choice(_DESCRIPTIONS)
    text = repr(head)
    if rng.random() < 0.3:
        words = ("(" * 300, "-" * 9000, "9" * 5000, "1L", "\\d", "1if 1else 2", "#", "}", "None", "1e999", "{[]}")
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice(words) + text[at:]
    if rng.random() < 0.1:
        text = re.sub(r"'\w+'", rng.choice(("''", "0", "'x'", "[]", "1j")), text, count=rng.randint(1, 3))
    raw = text.encode("latin-1", "replace")
    raw += b" " * (-(len(raw) + 11) % 64) + b"\n"
    version = rng.choice([b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\4\0", b"\0\0"])
    length = len(raw) + rng.choice((0, 0, 0, 0, -1, 1, 1 << 15))
    size = 2 if version <= b"\1\0" else 4
    told = (length % (1 << (8 * size))).to_bytes(size, "little")
    return b"".join((b"\x93NUMPY", version, told, raw, array.tobytes()))


def _told(case: Case, name: str, rng: Random) -> Case:
    try:
        meta = json.loads(case["meta.json"])
        meta["columns"][os.path.splitext(name)[0]] = len(np.load(io.BytesIO(case[name])))
    except (KeyError, ValueError, TypeError):
        return case
    return {**case, "meta.json": json.dumps(meta).encode()}


def missing(case: Case, rng: Random) -> Case:
    """Remove a file, or give it the content of another."""
    if len(case) < 2:
        return case
    one, other = rng.sample(list(case), 2)
    if rng.random() < 0.3:
        return {name: data for name, data in case.items() if name != one}
    return {**case, one: case[other]}


def renamed(names: tuple[str, ...]) -> Shaper:
    """Return a shaper that renames a file to one of `names`."""

    def shape(case: Case, rng: Random) -> Case:
        if not case:
            return case
        one = rng.choice(list(case))
        rest = {name: data for name, data in case.items() if name != one or rng.random() < 0.3}
        return {**rest, rng.choice(names): case[one]}

    return shape


# ---- Matrix Market files


def entries(case: Case, rng: Random) -> Case:
    """Change the entries of a Matrix Market file within its size, and declare as many as there are."""
    lines = case["a.mtx"].splitlines(keepends=True)
    size = next(at for at, line in enumerate(lines) if at and line.strip() and not line.startswith(b"%"))
    head, kept = lines[size].split(), [line for line in lines[size + 1 :] if line.strip()]
    if rng.random() < 0.5:
        kept += [rng.choice(kept)] * rng.randrange(4)
        rng.shuffle(kept)
    else:
        head[:2] = [b"%d" % rng.choice((1, 2, 3, 5, 40, 1 << 12, 1 << 20))] * 2
    if len(head) == 3:
        head[2] = b"%d" % len(kept)
    lines[size:] = [b" ".join(head) + b"\n", *kept]
    return {"a.mtx": b"".join(lines)}
