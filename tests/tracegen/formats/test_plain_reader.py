"""Test the readers of addresses, CSV, lackey and dinero against a few lines of plain Python, and in scenarios."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from rdmodel.trace import ALL_NEEDS, LAST_ADDRESS
from tests.support.examples import examples
from tests.support.plain_lines import ATOMIC, LOAD, STORE, files, read_plainly, rows_of
from tests.support.trace_files import file_writer
from tests.support.trc_traces import assert_same_columns
from tracegen import formats
from tracegen.formats import compressed, plain, thread_accesses
from tracegen.formats.plain import PLAIN_FORMATS, read_plain


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text or bytes to a file and returns its path."""
    return file_writer(tmp_path, "run.txt")


def threads_of(shape):
    x, y, z = shape or (1, 1, 1)
    return x * y * z


# ---- Laws


@pytest.mark.parametrize("form", PLAIN_FORMATS)
@examples(80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_every_line_arrives_as_plain_python_reads_it_however_the_file_is_cut(written, form, data):
    text, block, grid = data.draw(files(form))
    expected = read_plainly(text, form, threads_of(block), threads_of(block) * threads_of(grid))
    path = written(text)
    whole = read_plain(path, form, block=block, grid=grid)
    whole.columns.check()
    assert rows_of(whole) == expected
    assert (whole.columns.needs == ALL_NEEDS).all()
    assert whole.launch.block == (block or (1, 1, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressed, "CHUNK_BYTES", data.draw(st.integers(1, 80)))
        patch.setattr(plain, "_ROOM", data.draw(st.integers(600, 640)))
        patch.setattr(thread_accesses, "_GROUPED_INSTRUCTIONS", data.draw(st.integers(1, 9)))
        cut = read_plain(path, form, block=block, grid=grid, memory=data.draw(st.sampled_from([0, 1000, 40_000])))
    assert_same_columns(cut, whole)


GROWING = """
import resource, sys
from tracegen.formats.plain import read_plain
path, form = sys.argv[1:]
lines = range(10_000)
text = "".join(f"{i * 7 % 6400},{i << 20}\\n" if form == "csv" else f"I  {i:x},4\\n L {i << 20:x},8\\n" for i in lines)
for parts in (20, 80):
    with open(path, "w") as file:
        file.write("thread,address\\n" if form == "csv" else "")
        for _ in range(parts):
            file.write(text)
    trace = read_plain(path, form, block=(64, 1, 1) if form == "csv" else None, memory=4 << 20)
    assert len(trace.columns.addresses) == parts * len(lines)
    del trace
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.parametrize("form", ["csv", "lackey"])
def test_memory_does_not_grow_with_the_file(tmp_path, form):
    """Accesses of 3 MB and 13 MB, and twice that, in 4 MB: of all threads in turn, and of one thread."""
    command = [sys.executable, "-c", GROWING, str(tmp_path / "large.txt"), form]
    small, large = map(int, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert (large - small) * (1 if sys.platform == "darwin" else 1024) < 6 << 20


# ---- Scenarios


def test_a_list_of_addresses_is_one_thread_that_loads_four_bytes_each(written):
    trace = formats.read(written("0x1000\n4096\r\n\n# again\n 0X1FFF \n"), format="addresses")
    assert rows_of(trace) == {(0, 0): [(0, 0, LOAD, 4, {0: a}) for a in (0x1000, 4096, 0x1FFF)]}
    assert (trace.launch.grid, trace.launch.block, trace.launch.kernel) == ((1, 1, 1), (1, 1, 1), "run")


def test_lines_are_dealt_to_the_threads_of_all_blocks_in_turn(written):
    """Two blocks of two threads: the fifth line is the second one of the first thread."""
    path = written("".join(f"{n}\n" for n in range(6)))
    trace = formats.read(path, format="addresses", block=(2, 1, 1), grid=(2, 1, 1))
    assert rows_of(trace) == {
        (0, 0): [(0, 0, LOAD, 4, {0: 0, 1: 1}), (0, 0, LOAD, 4, {0: 4, 1: 5})],
        (1, 0): [(0, 0, LOAD, 4, {0: 2, 1: 3})],
    }
    wide = formats.read(path, format="addresses", block=(32, 1, 1), grid=(1, 2, 1))
    assert (len(wide), list(wide.blocks), wide.launch.grid) == (1, [0, 1], (1, 2, 1))
    assert wide.block(1).mask.tolist() == []


def test_lanes_whose_lines_differ_form_an_instruction_each_and_meet_again_in_the_next_line(written):
    text = "address,op,size\n0,load,4\n64,store,4\n128,load,32\n4,load,4\n68,load,4\n132,load,4\n"
    trace = formats.read(written(text), format="csv", block=(3, 1, 1))
    assert rows_of(trace)[0, 0] == [
        (0, 0, LOAD, 4, {0: 0}),
        (1, 0, STORE, 4, {1: 64}),
        (0, 0, LOAD, 16, {2: 128}),
        (0, 0, LOAD, 16, {2: 144}),
        (0, 0, LOAD, 4, {0: 4, 1: 68, 2: 132}),
    ]


LACKEY = b"""==1== Lackey, an example Valgrind tool
==1== Command: ./a
I  0401ab70,3
I  0401ab73,5
 S 1fff000778,8
I  0401b770,1
 M 04222c40,4
I  0401b771,7
 L 04222c50,32
==1== Exit code:       0
"""


def test_lackey_counts_instructions_without_accesses_as_gaps_and_a_modification_twice(written):
    path = written(LACKEY)
    assert formats.recognise(path).name == "lackey"
    trace = formats.read(path)
    first, second, third = 0x0401AB73, 0x0401B770, 0x0401B771
    assert rows_of(trace)[0, 0] == [
        (first, 1, STORE, 8, {0: 0x1FFF000778}),
        (second, 0, LOAD, 4, {0: 0x04222C40}),
        (second, 0, STORE, 4, {0: 0x04222C40}),
        (third, 0, LOAD, 16, {0: 0x04222C50}),
        (third, 0, LOAD, 16, {0: 0x04222C60}),
    ]


def test_dinero_takes_labels_as_numbers_and_as_letters(written):
    text = "2 0 this is a fetch\n0 1000\n1 70f60888 8\n3 10 10\nR 0x20 4\nw 30 2 comment\nm 40 1\n"
    trace = formats.read(written(text), format="dinero")
    assert [row[2:] for row in rows_of(trace)[0, 0]] == [
        (LOAD, 4, {0: 0x1000}),
        (STORE, 8, {0: 0x70F60888}),
        (LOAD, 16, {0: 0x10}),
        (LOAD, 4, {0: 0x20}),
        (STORE, 2, {0: 0x30}),
        (LOAD, 1, {0: 0x40}),
    ]


def test_a_csv_that_names_threads_may_be_in_any_order(written):
    text = '\ufeffblock,warp,lane,addr,rw,pc\n1,1,7,"0x40",w,8\n0,0,0,0,A,9\n1,1,6,0x3c,Store,8\n'
    trace = formats.read(written(text), format="csv", block=(40, 1, 1))
    assert rows_of(trace) == {(0, 0): [(9, 0, ATOMIC, 4, {0: 0})], (1, 1): [(8, 0, STORE, 4, {6: 0x3C, 7: 0x40})]}
    assert trace.launch.grid == (2, 1, 1)
    more = formats.read(written(text), format="csv", block=(40, 1, 1), grid=(2, 2, 1), lenient=True)
    assert (list(more.blocks), more.skipped.blocks) == ([0, 1, 2, 3], 2)


def test_columns_that_nobody_knows_are_ignored_by_name(written):
    text = 'time,address,"kernel, name"\n1.5,0x10,"f(int, ""a"")"\n2.5,0x20,\n'
    trace = formats.read(written(text), format="csv")
    assert trace.columns.addresses.tolist() == [0x10, 0x20]
    (note,) = trace.notes
    assert note.endswith("columns that are ignored: 'time', 'kernel, name'")


def test_the_highest_address_keeps_all_its_bits(written):
    trace = formats.read(written(f"0x{LAST_ADDRESS:x}\n"), format="addresses")
    assert trace.columns.addresses.tolist() == [LAST_ADDRESS]


def test_compressed_files_are_read_like_others(written):
    import gzip

    text = "".join(f"{n}\n" for n in range(50))
    trace = formats.read(written(gzip.compress(text.encode()), "run.txt.gz"), format="addresses")
    assert np.array_equal(trace.columns.addresses, np.arange(50))
