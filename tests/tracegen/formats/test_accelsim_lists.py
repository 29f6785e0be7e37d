"""Test lists of Accel-Sim kernels: the choice of a kernel, bad lists, and the recognition of the format."""

import lzma

import pytest

from rdmodel.errors import TraceError
from tests.support.accelsim_traces import A, B, one_warp
from tests.support.trace_files import file_writer
from tracegen import formats


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text or bytes to a file and returns its path."""
    return file_writer(tmp_path, "kernel-1.traceg")


GOOD = one_warp(A)


@pytest.fixture
def folder(tmp_path):
    """A folder with a list of three kernels, one of them compressed."""
    names = {1: "void init(float*)", 2: "void gemm_128(float*)", 7: "void gemm_64(float*)"}
    commands = ["MemcpyHtoD,0x00007efe7b500000,2052"]
    for number, name in names.items():
        text = one_warp(A, *[B] * number, name=name).replace("-kernel id = 1", f"-kernel id = {number}")
        file = f"kernel-{number}.traceg" + (".xz" if number == 2 else "")
        (tmp_path / file).write_bytes(lzma.compress(text.encode()) if number == 2 else text.encode())
        commands += [file, "MemcpyDtoH,0x00007efe7b500000,4"]
    (tmp_path / "kernelslist.g").write_text("\n".join(commands) + "\n\n")
    return tmp_path


@pytest.mark.parametrize(("kernel", "number"), [("1", 1), ("2", 2), ("7", 7), ("*init*", 1), ("*_64*", 7)])
def test_a_kernel_is_picked_by_number_or_by_pattern(folder, kernel, number):
    for path in (folder / "kernelslist.g", folder):
        assert len(formats.read(path, kernel=kernel)) == 1 + number


def test_a_list_of_one_kernel_needs_no_choice(folder):
    (folder / "kernelslist.g").write_text("MemcpyHtoD,0x00007efe7b500000,2052\nkernel-1.traceg\n")
    assert len(formats.read(folder / "kernelslist.g")) == 2


@pytest.mark.parametrize("name", ["kernel\x1b[2J.traceg", "kernel-1\u2028.traceg", "kernel\0.traceg"])
def test_a_list_that_names_a_file_with_control_characters_is_refused_with_them_escaped(folder, name):
    (folder / "kernelslist.g").write_text(f"kernel-1.traceg\n{name}\n")
    with pytest.raises(TraceError, match=r"kernelslist\.g:2: expected a kernel's file") as refused:
        formats.read(folder / "kernelslist.g")
    assert str(refused.value).isprintable()
    trace = formats.read(folder / "kernelslist.g", lenient=True)
    assert trace.skipped.lines == 1


@pytest.mark.parametrize("kernel", [None, "*gemm*"])
def test_several_kernels_want_a_choice(folder, kernel):
    with pytest.raises(TraceError, match=r"kernelslist\.g: .*2 \(void gemm_128.*7 \(void gemm_64.*--kernel"):
        formats.read(folder / "kernelslist.g", kernel=kernel)


def test_a_kernel_that_is_not_there_is_refused_with_those_that_are(folder):
    with pytest.raises(TraceError, match=r"no launch matches kernel='3'.* 1 \(void init"):
        formats.read(folder / "kernelslist.g", kernel="3")
    with pytest.raises(TraceError, match=r"kernel-7\.traceg: no launch matches kernel='3'.* 7 \(void gemm_64"):
        formats.read(folder / "kernel-7.traceg", kernel="3")
    assert len(formats.read(folder / "kernel-7.traceg", kernel="*gemm*")) == 8


def test_a_bad_list_is_refused_with_the_line(folder):
    path = folder / "kernelslist.g"
    path.write_text("MemcpyHtoD,0x0,4\nkernel-1.traceg\nlaunch it\n")
    with pytest.raises(
        TraceError, match=r"kernelslist\.g:3: expected a kernel's file or a Memcpy command, found 'laun"
    ):
        formats.read(path)
    assert formats.read(path, lenient=True).skipped.lines == 1
    path.write_text("kernel-9\0.traceg\n")
    with pytest.raises(TraceError, match=r"kernelslist\.g:1: expected a kernel's file"):
        formats.read(path)
    path.write_text("kernel" + "9" * 5000 + ".traceg\n")
    with pytest.raises(TraceError, match=r"\.traceg: File name too long"):
        formats.read(path)
    path.write_text("kernelslist.g\n")
    with pytest.raises(TraceError, match=r"kernelslist\.g:1: #BEGIN_TB is missing"):
        formats.read(path)
    path.write_text("kernel-9.traceg\n")
    with pytest.raises(TraceError, match=r"kernel-9\.traceg: No such file"):
        formats.read(path)
    path.write_text("MemcpyHtoD,0x0,4\n")
    with pytest.raises(TraceError, match="holds no launch"):
        formats.read(path)


@pytest.mark.parametrize("place", ["kernel-7.traceg", "./kernel-7.traceg", "sub/kernel-7.traceg", "{}/kernel-7.traceg"])
def test_a_list_names_files_from_its_own_folder_or_from_the_root(folder, place):
    (folder / "sub").mkdir()
    if "sub" in place:
        (folder / "kernel-7.traceg").rename(folder / "sub" / "kernel-7.traceg")
    list_ = folder / "list"
    list_.write_text("# only one of them\n" + place.format(folder.absolute()) + "\n")
    assert formats.recognise(list_).name == "kernelslist"
    list_.rename(folder / "kernelslist.g")
    assert len(formats.read(folder)) == 8


def test_a_file_that_a_list_names_twice_is_one_kernel(folder):
    (folder / "kernelslist.g").write_text("kernel-7.traceg\nMemcpyDtoH,0x0,4\nkernel-7.traceg\n")
    assert len(formats.read(folder)) == 8


def test_a_file_that_is_gone_is_told_with_the_line_of_the_list(folder):
    (folder / "kernelslist.g").write_text("kernel-7.traceg\nkernel-9.traceg\n")
    with pytest.raises(TraceError, match=r"kernelslist\.g:2: .*kernel-9\.traceg: No such file"):
        formats.read(folder, kernel="7")
    trace = formats.read(folder, kernel="7", lenient=True)
    assert (len(trace), trace.skipped.lines) == (8, 1)


def test_formats_are_recognised_by_content_then_by_extension(written):
    assert formats.recognise(written(GOOD, "no-extension")).name == "accelsim"
    assert formats.recognise(written("kernel-1.traceg\n", "no-extension")).name == "kernelslist"
    assert formats.recognise(written("MemcpyHtoD,0x0,4\nkernel-1.traceg.xz\n", "list")).name == "kernelslist"
    assert formats.recognise(written("junk", "a.traceg")).name == "accelsim"
    assert formats.recognise(written("junk", "a.g")).name == "kernelslist"
    assert formats.recognise(written(lzma.compress(GOOD.encode()), "packed")).name == "accelsim"
