"""Test what the readers of plain lines refuse, with file and line, and what they leave out leniently."""

import pytest

from rdmodel.errors import TraceError
from rdmodel.trace import LAST_ADDRESS
from tests.support.plain_lines import LOAD, rows_of
from tests.support.trace_files import file_writer
from tracegen import formats
from tracegen.formats.plain import MAX_SIZE, PLAIN_FORMATS

HIGH = f"{LAST_ADDRESS + 1:x}"
GOOD = {"addresses": "8\n", "csv": "8,4\n", "lackey": " L 8,4\n", "dinero": "0 8\n"}
HEADER = {"csv": "address,size\n"}

BAD_LINES = [
    ("addresses", f"0x{HIGH}", "address must be at most 0x7ffffffffffffff0"),
    ("addresses", str(2**63), "address must be at most"),
    ("addresses", "1" * 400, "address must be at most"),
    ("addresses", "-4", "expected one address"),
    ("addresses", "7fff", "expected one address"),
    ("addresses", "0x", "expected one address"),
    ("addresses", "1 2", "expected one address"),
    ("addresses", "1.5", "expected one address"),
    ("addresses", "\x00\x01\xff", "expected one address"),
    ("addresses", "1" * 5000, "longer than 4096 bytes"),
    ("csv", "8", "not as many fields as the header has"),
    ("csv", "8,4,1", "not as many fields as the header has"),
    ("csv", "8,", "expected whole numbers"),
    ("csv", "8,four", "expected whole numbers"),
    ("csv", "8,-4", "expected whole numbers"),
    ("csv", "8,0", f"an access must have 1 to {MAX_SIZE} bytes"),
    ("csv", f"8,{MAX_SIZE + 1}", f"an access must have 1 to {MAX_SIZE} bytes"),
    ("csv", f"{LAST_ADDRESS},32", "address must be at most"),
    ("csv", '8,"4', "a field in double quotes must end with one"),
    ("csv", '"8"x,4', "a field in double quotes must end with one"),
    ("lackey", " L 8", "expected 'I', 'L', 'S' or 'M'"),
    ("lackey", " L 0x8,4", "expected 'I', 'L', 'S' or 'M'"),
    ("lackey", " X 8,4", "expected 'I', 'L', 'S' or 'M'"),
    ("lackey", "L8,4", "expected 'I', 'L', 'S' or 'M'"),
    ("lackey", " S 8,-4", "expected 'I', 'L', 'S' or 'M'"),
    ("lackey", " M 8,0", f"an access must have 1 to {MAX_SIZE} bytes"),
    ("lackey", f" L {HIGH},1", "address must be at most"),
    ("dinero", "5 8", "expected a label of 0 to 4"),
    ("dinero", "\x10 8", "expected a label of 0 to 4"),
    ("dinero", "0", "expected a label of 0 to 4"),
    ("dinero", "0 8g", "expected a label of 0 to 4"),
    ("dinero", "r 8", "expected a label of 0 to 4"),
    ("dinero", "4 0", "flushes .* have no counterpart in a trace"),
    ("dinero", "v 0 4", "flushes .* have no counterpart in a trace"),
    ("dinero", "0 8 0", f"an access must have 1 to {MAX_SIZE} bytes"),
]


@pytest.fixture
def written(tmp_path):
    """Return a function that writes text or bytes to a file and returns its path."""
    return file_writer(tmp_path, "run.txt")


@pytest.mark.parametrize(("form", "line", "message"), BAD_LINES)
def test_a_bad_line_is_refused_by_its_number_and_left_out_leniently(written, form, line, message):
    path = written((HEADER.get(form, "") + "# first\n" + GOOD[form] + line + "\n" + GOOD[form]).encode("latin-1"))
    number = 3 + (form == "csv")
    with pytest.raises(TraceError, match=rf"run\.txt:{number}: {message}.*, found '") as refusal:
        formats.read(path, format=form)
    assert str(refusal.value).isprintable()
    trace = formats.read(path, format=form, lenient=True)
    assert (trace.columns.addresses.tolist(), trace.skipped.lines) == ([8, 8], 1)
    assert f"run.txt:{number}: " in trace.skipped.examples[0]


def test_a_line_that_is_left_out_keeps_its_turn(written):
    """Otherwise all later lines would go to other threads."""
    path = written("0\nfour\n8\n12\n16\n20\n24\n28\n")
    trace = formats.read(path, format="addresses", block=(4, 1, 1), lenient=True)
    assert rows_of(trace)[0, 0] == [
        (0, 0, LOAD, 4, {0: 0, 2: 8, 3: 12}),
        (0, 0, LOAD, 4, {0: 16, 1: 20, 2: 24, 3: 28}),
    ]


@pytest.mark.parametrize("form", PLAIN_FORMATS)
def test_a_file_without_accesses_is_refused(written, form):
    for text in ("", "\n \n", "# nothing\n", HEADER.get(form, "") + "junk\n"):
        lenient = "junk" in text and not (form == "csv" and "," not in text)
        with pytest.raises(TraceError, match=r"run\.txt: no line accesses memory"):
            formats.read(written(text), format=form, lenient=lenient)


@pytest.mark.parametrize("form", PLAIN_FORMATS)
def test_a_file_cut_in_its_last_line_is_refused(written, form):
    path = written(HEADER.get(form, "") + GOOD[form] + GOOD[form].rstrip("\n"))
    with pytest.raises(TraceError, match=r"run\.txt:[23]: the last line is incomplete.*--lenient leaves it out"):
        formats.read(path, format=form)
    assert len(formats.read(path, format=form, lenient=True)) == 1


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("4096,4", "expected a header that names the columns, separated by commas, with 'address' or 'addr'"),
        ("address;size", "expected a header that names the columns, separated by commas"),
        ("address,addr", "the header names the column 'address' twice"),
        ('address,"size', "the header is no line of CSV"),
        ("address,lane", "the columns lane do not name the threads; give thread,"),
        ("address,thread,warp,lane", "the columns lane, thread, warp do not name the threads"),
        ("address,tid", "the columns name the threads; give the threads of a block by --block X,Y,Z"),
    ],
)
def test_a_header_that_says_too_little_or_too_much_is_refused(written, header, message):
    with pytest.raises(TraceError, match=rf"run\.txt:2: {message}"):
        formats.read(written(f"# a comment\n{header}\n1,2\n"), format="csv")


@pytest.mark.parametrize(
    ("columns", "line", "message"),
    [
        ("block,thread", "0,32", "the thread lies outside of the block"),
        ("block,thread", "2,0", "the block lies outside of the grid"),
        ("thread", "64", "the block lies outside of the grid"),
        ("thread", str(2**64), "the block lies outside of the grid"),
        ("warp,lane", "2,0", "the block lies outside of the grid"),
        ("block,warp,lane", "0,1,0", "the thread lies outside of the block"),
        ("block,warp,lane", f"0,0,{2**63}", "lane must be below 32"),
    ],
)
def test_a_thread_that_the_launch_does_not_have_is_refused(written, columns, line, message):
    path = written(f"{columns},address\n{line},4096\n")
    with pytest.raises(TraceError, match=rf"run\.txt:2: {message}, found"):
        formats.read(path, format="csv", block=(32, 1, 1), grid=(2, 1, 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": (1025, 1, 1)}, "block=.* must be 1 to 1024 threads"),
        ({"block": (0, 1, 1)}, "block=.* must be 1 to 1024 threads"),
        ({"grid": (2**16, 2**16, 1)}, "grid=.* must be 1 to 2147483647 blocks"),
        ({"grid": (2**31 - 1, 1, 1)}, "grid=.* is too large for 1 lines"),
        ({"kernel": "x"}, "takes no option kernel"),
    ],
)
def test_shapes_beyond_what_the_lines_can_fill_are_refused(written, options, message):
    with pytest.raises(TraceError, match=message):
        formats.read(written("8\n"), format="addresses", **options)


# ---- Recognition


@pytest.mark.parametrize("name", ["run.txt", "run.csv", "run.din", "run"])
@pytest.mark.parametrize("text", ["LD 0x1000\nLD 0x1080\n", "4096\n", "address,size\n8,4\n", "0 1000\n", " L 8,4\n"])
def test_plain_lines_are_not_guessed_at(written, name, text):
    with pytest.raises(TraceError, match=r"not a trace of a known format .*--input-format addresses\|csv\|lackey\|din"):
        formats.read(written(text, name))


def test_records_of_ppt_gpu_are_known_by_their_name_or_their_separator(written):
    assert formats.recognise(written("LD 0x1000 \n", "kernel_1_block_0.mem")).name == "ppt"
    assert formats.recognise(written("\n=====\nLD 0x1000 \n")).name == "ppt"
