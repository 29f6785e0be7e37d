"""Streams: what compressed files hold, damage to them, and lines, against the standard library on whole files."""

import bz2
import contextlib
import gzip
import importlib
import io
import lzma
import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from tests.support.examples import examples
from tracegen.formats import compressed
from tracegen.formats.compressed import first_bytes, kernel_name, open_stream, whole_lines

try:
    zstd = importlib.import_module("compression.zstd")
except ImportError:
    zstd = pytest.importorskip("backports.zstd")

relaxed = examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
PACKERS = {"plain": bytes, "gzip": gzip.compress, "xz": lzma.compress, "zstd": zstd.compress}
TEXT = b"".join(b"line %d of some text\n" % i for i in range(5000))


@pytest.fixture
def written(tmp_path):
    def write(data, name="file"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def read_all(path):
    with open_stream(path) as stream:
        return stream.read()


# ---- What is in a file


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_a_file_is_read_as_what_it_holds_whatever_its_name(written, pack):
    assert read_all(written(pack(TEXT), "trace.txt")) == TEXT
    assert read_all(written(pack(b""), "empty.zst")) == b""
    assert first_bytes(written(pack(TEXT)), 10) == TEXT[:10]
    assert first_bytes(written(pack(b"ab")), 10) == b"ab"


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstd.compress], ids=["gzip", "xz", "zstd"])
def test_streams_that_follow_each_other_are_read_one_after_another(written, pack):
    assert read_all(written(pack(TEXT) + pack(b"") + pack(b"more\n"))) == TEXT + b"more\n"
    assert read_all(written(pack(TEXT) + bytes(8))) == TEXT


@relaxed
@given(
    data=st.binary(max_size=3000), sizes=st.lists(st.integers(1, 400), max_size=30), kind=st.sampled_from([*PACKERS])
)
def test_pieces_of_any_size_make_up_the_whole(written, data, sizes, kind):
    with open_stream(written(PACKERS[kind](b"t" + data))) as stream:
        parts = [stream.read(size) for size in sizes]
        assert b"".join([*parts, stream.read()]) == b"t" + data


def test_the_name_of_a_kernel_is_that_of_its_file():
    assert kernel_name("a/b/gemm.trc") == "gemm"
    assert kernel_name("a/b/gemm.trc.XZ") == "gemm"
    assert kernel_name("atax.1.trc.gz") == "atax.1"


# ---- Damage


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstd.compress], ids=["gzip", "xz", "zstd"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_file_that_is_cut_off_is_an_error_that_names_it(written, pack, share):
    packed = pack(TEXT)
    path = written(packed[: max(int(len(packed) * share), 7)])
    with pytest.raises(TraceError, match=r"file: is damaged or ends early: .*"):
        read_all(path)


@relaxed
@given(data=st.data(), kind=st.sampled_from(["gzip", "xz", "zstd"]))
def test_damage_is_an_error_or_harmless_but_never_anything_else(written, data, kind):
    packed = bytearray(PACKERS[kind](TEXT[:4000]))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(6, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(TraceError):
        read_all(written(bytes(packed)))


def test_junk_behind_a_stream_is_an_error(written):
    for pack in (gzip.compress, lzma.compress, zstd.compress):
        with pytest.raises(TraceError, match="damaged"):
            read_all(written(pack(TEXT) + b"junk" * 20))


class CountingFile(io.BytesIO):
    """A file that counts the bytes that are read from it."""

    count = 0

    def read(self, size=-1):
        data = super().read(size)
        self.count += len(data)
        return data


@pytest.mark.parametrize("kind", ["gzip", "xz", "zstd"])
def test_the_file_is_read_once_however_small_its_streams_are(monkeypatch, kind):
    data = PACKERS[kind](b"") * 3000 + PACKERS[kind](TEXT)
    file = CountingFile(data)
    monkeypatch.setattr(compressed, "open_regular_file", lambda name: file)
    assert read_all("packed") == TEXT
    assert file.count <= len(data) + 6


@pytest.mark.parametrize("content", [b"", b"x"])
@pytest.mark.parametrize("kind", ["gzip", "xz", "zstd"])
def test_many_streams_with_hardly_any_content_are_refused(written, monkeypatch, kind, content):
    monkeypatch.setattr(compressed, "_MAX_TINY_STREAMS", 20)
    pack = PACKERS[kind]
    assert read_all(written(pack(content) * 20)) == content * 20
    assert read_all(written((pack(TEXT) + pack(content)) * 40)) == (TEXT + content) * 40
    with pytest.raises(TraceError, match=r"ends early: there are 2\d streams in it with hardly any content"):
        read_all(written(pack(content) * 30))


def test_what_cannot_be_opened_is_named(tmp_path):
    with pytest.raises(TraceError, match="gone: No such file"):
        open_stream(tmp_path / "gone")
    with pytest.raises(TraceError, match="is a folder, must be a regular file"):
        open_stream(tmp_path)


def test_a_pipe_is_refused_as_one(tmp_path):
    read, write = os.pipe()
    os.write(write, b"blocksize: 32 1 1\n")
    os.close(write)
    try:
        with pytest.raises(TraceError, match="is a pipe, must be a regular file"):
            open_stream(f"/dev/fd/{read}")
    finally:
        os.close(read)


def test_other_compressions_are_left_as_they_are(written):
    packed = bz2.compress(TEXT)
    assert read_all(written(packed)) == packed


def test_without_the_package_for_zstd_the_extra_is_named(written, monkeypatch):
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.setitem(sys.modules, "backports", None)
    with pytest.raises(TraceError, match=r"compressed with zstd; reading it needs: pip install 'rdmodel\[zstd\]'"):
        open_stream(written(zstd.compress(TEXT)))


# ---- Memory

BOMB = """
import resource, sys
from tracegen.formats.compressed import open_stream, whole_lines
with open_stream(sys.argv[1]) as stream:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = sum(len(piece) for piece in whole_lines(stream, 100))
    print(total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("kind", ["gzip", "xz", "zstd"])
@pytest.mark.parametrize("line", [b"\0", b"a" * 49 + b"\n"], ids=["endless-line", "lines"])
def test_a_file_that_unpacks_to_much_more_costs_no_memory(written, kind, line):
    quickly = {"gzip": {"compresslevel": 1}, "xz": {"preset": 0}, "zstd": {}}
    packed = PACKERS[kind](line * ((40 << 20) // len(line)), **quickly[kind])
    assert len(packed) < 1 << 20
    path = written(packed)
    found = subprocess.run([sys.executable, "-c", BOMB, path], check=True, capture_output=True, text=True).stdout
    total, grown = map(int, found.split())
    assert total >= 101
    assert grown * (1 if sys.platform == "darwin" else 1024) < 24 << 20


def test_windows_beyond_the_limit_are_refused(written):
    """A frame of zstd that asks for a window of 2 GiB, and holds nothing."""
    frame = b"\x28\xb5\x2f\xfd" + bytes([0, (31 - 10) << 3]) + b"\x01\x00\x00"
    with pytest.raises(TraceError, match="damaged or ends early"):
        read_all(written(frame))


# ---- Lines


@relaxed
@given(
    lines=st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b" ")), max_size=40),
    last=st.booleans(),
    chunk=st.integers(1, 64),
    longest=st.integers(1, 20),
)
def test_pieces_end_with_lines_and_only_long_lines_are_cut(written, lines, last, chunk, longest):
    text = b"".join(line + b"\n" for line in lines)[: None if last else -1]
    with open_stream(written(b"#\n" + text)) as stream:
        stream.readline()
        pieces = [bytes(piece) for piece in whole_lines(stream, longest, chunk)]
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])
    found, expected = b"".join(pieces).split(b"\n"), text.split(b"\n")
    assert len(found) == len(expected)
    for line, whole in zip(found, expected, strict=True):
        assert line == whole if len(whole) <= longest else whole.startswith(line) or len(line) > longest
        assert len(line) > longest or line == whole


def test_an_endless_line_is_never_held():
    class Endless:
        def readinto(self, place):
            self.left -= 1
            place[:] = b"x" * len(place)
            return len(place) if self.left else 0

    stream = Endless()
    stream.left = 100
    assert [len(piece) for piece in whole_lines(stream, 50, 1000)] == [51]
    assert compressed.CHUNK_BYTES == 1 << 20
