"""The reader of PPT-GPU's .mem files against a split of the text, its configuration, and every kind of bad file."""

import contextlib
import gzip
import random
import shutil

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from rdmodel.errors import TraceError
from rdmodel.trace import ALL_NEEDS, LAST_ADDRESS, Op
from tests.support.damage import damaged
from tests.support.examples import examples
from tests.support.paths import DATA as TEST_DATA
from tests.support.ppt_texts import config, record
from tracegen import formats
from tracegen.formats import compressed
from tracegen.formats.ppt import read_ppt

DATA = TEST_DATA / "formats"
relaxed = examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def run(tmp_path):
    """Return a function that writes a run of the tool, {file: text}, and returns its folder."""

    def write(files, app_config=None):
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "memory_traces").mkdir(parents=True)
        for name, text in files.items():
            data = text if isinstance(text, bytes) else text.encode()
            (folder / "memory_traces" / name).write_bytes(data)
        if app_config is not None:
            (folder / "app_config.py").write_text(app_config)
        return folder

    return write


# ---- The oracle: str.split

KNOWN = {"LDG": Op.LOAD, "LD": Op.LOAD, "LDL": Op.LOAD, "STG": Op.STORE, "ATOMG": Op.ATOMIC, "LDGSTS": Op.LOAD}
WIDTH = {"64": 8, "128": 16, "U8": 1}


def parse_plainly(text, threads, opcodes):
    """Return the rows (opcode number, op, size, gap, addresses) of every warp of a block, and the lanes left out."""
    warps, dropped = -(-threads // 32), 0
    last = threads - 32 * (warps - 1)
    turns, result, gaps = {}, [[] for _ in range(warps)], [0] * warps
    for part in text.split("\n=====\n"):
        words = part.split()
        if not words:
            continue
        opcode, addresses = words[0], [int(word, 16) for word in words[1:]]
        number = opcodes.setdefault(opcode, len(opcodes))
        name, *suffixes = opcode.split(".")
        if name == "LDGSTS":
            addresses = [address for address in addresses if address >= 2**18]
        warp = turns.get(opcode, 0) % warps
        turns[opcode] = turns.get(opcode, 0) + 1
        if name in KNOWN and len(addresses) > last and warp == warps - 1:
            if warps == 1:
                dropped += len(addresses) - last
                addresses = addresses[:last]
            else:
                turns[opcode] += 1
                warp = 0
        if name not in KNOWN or not addresses:
            gaps[warp] += 1
            continue
        size = next((WIDTH[s] for s in suffixes if s in WIDTH), 4)
        result[warp].append((number, KNOWN[name], size, gaps[warp], addresses))
        gaps[warp] = 0
    return result, dropped


def rows_of(trace):
    """Return {block: [[(pc, op, size, gap, addresses)] of every warp]}; lanes must be the lowest ones."""
    trace.columns.check()
    result = {}
    for block in trace.blocks:
        columns = trace.block(block)
        result[block] = warps = [[] for _ in range(columns.warps)]
        for warp in range(columns.warps):
            for i in range(columns.warp_start[warp], columns.warp_start[warp + 1]):
                held = columns.addresses[columns.address_start[i] : columns.address_start[i + 1]].tolist()
                assert columns.mask[i] == (1 << len(held)) - 1
                warps[warp].append((*(int(getattr(columns, n)[i]) for n in ("pc", "op", "size", "gap")), held))
    return result


OPCODES = ["LDG.E.SYS", "LDG.E.64.SYS", "LDG.E.128", "LDL.U8", "STG.E.SYS", "ATOMG.ADD", "CCTL.IVALL", "LDGSTS.E.64"]


@st.composite
def blocks(draw):
    """The text of a block, as the tool writes it."""
    addresses = st.lists(st.one_of(st.integers(1, LAST_ADDRESS), st.integers(1, 2**19)), max_size=32)
    rows = draw(st.lists(st.tuples(st.sampled_from(OPCODES), addresses), max_size=20))
    rows.insert(0, ("LD.E", [2**40]))
    return "".join("\n=====\n" + record(*row) for row in rows)


# ---- Laws


@relaxed
@given(
    texts=st.lists(blocks(), min_size=1, max_size=3),
    threads=st.sampled_from([1, 32, 33, 64, 256]),
    memory=st.sampled_from([0, 1 << 20]),
    chunk=st.sampled_from([50, 1 << 20]),
)
def test_the_records_of_each_opcode_are_dealt_in_turn(run, texts, threads, memory, chunk):
    files = {f"kernel_1_block_{n}.mem": text for n, text in enumerate(texts)}
    folder = run(files, config(kernel_1=("scale", len(texts), threads)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressed, "CHUNK_BYTES", chunk)
        trace = read_ppt(folder, memory=memory, lenient=True)
    opcodes = {}
    plain = [parse_plainly(text, threads, opcodes) for text in texts]
    assert rows_of(trace) == {n: rows for n, (rows, _) in enumerate(plain)}
    assert trace.skipped == formats.Skipped(lanes=sum(dropped for _, dropped in plain))
    assert (trace.columns.needs == ALL_NEEDS).all()
    assert (trace.launch.kernel, trace.launch.grid, trace.launch.block) == (
        "scale",
        (len(texts), 1, 1),
        (threads, 1, 1),
    )
    assert (trace.launch.registers, trace.launch.shared_memory) == (18, 96)


# ---- Scenarios

ONE = {"kernel_1_block_0.mem": "\n=====\n" + record()}


def test_a_run_its_traces_and_a_single_block_are_read(run):
    files = {f"kernel_1_block_{n}.mem": record(addresses=[4096 * n + 4096]) + "\n" for n in range(3)}
    folder = run(files, config(kernel_1=("scale", 3, 32)))
    for path in (folder, folder / "memory_traces"):
        assert formats.recognise(path).name == "ppt"
        assert formats.read(path).columns.addresses.tolist() == [4096, 8192, 12288]
    single = formats.read(folder / "memory_traces" / "kernel_1_block_1.mem")
    assert (list(single.blocks), single.launch.grid, single.columns.addresses.tolist()) == ([1], (3, 1, 1), [8192])


def test_records_may_stand_one_to_a_line(run):
    text = record() + "\n" + record("STG.E") + "\n\n" + record() + "\r\n"
    assert len(read_ppt(run({"kernel_1_block_0.mem": text}), block=(64, 1, 1))) == 3


def test_files_may_be_compressed_each(run):
    files = {f"kernel_1_block_{n}.mem.gz": gzip.compress(record().encode()) for n in range(2)}
    assert len(read_ppt(run(files), block=(32, 1, 1))) == 2


def test_without_a_configuration_the_block_has_to_be_given(run):
    folder = run(ONE)
    with pytest.raises(TraceError, match=r"there is no app_config.py; give the threads of a block by --block"):
        formats.read(folder)
    trace = formats.read(folder, block=(8, 4, 2))
    assert (trace.launch.kernel, trace.launch.grid, trace.launch.block) == ("kernel_1", (1, 1, 1), (8, 4, 2))


def test_a_block_of_another_size_than_the_configuration_says_is_refused(run):
    folder = run(ONE, config(kernel_1=("scale", 1, 64)))
    assert read_ppt(folder, block=(8, 8, 1)).launch.block == (8, 8, 1)
    with pytest.raises(TraceError, match=r"block=\(32, 1, 1\): has 32 threads, but app_config.py says 64"):
        read_ppt(folder, block=(32, 1, 1))
    with pytest.raises(TraceError, match=r"block=\(2048, 1, 1\): must be 1 to 1024 threads"):
        read_ppt(run(ONE), block=(2048, 1, 1))


def test_a_launch_is_picked_by_number_or_pattern(run):
    files = {f"kernel_{k}_block_0.mem": record(addresses=[4096 * k]) for k in (1, 2)}
    folder = run(files, config(kernel_1=("atax", 1, 32), kernel_2=("gemm", 1, 32)))
    assert formats.read(folder, kernel="2").columns.addresses.tolist() == [8192]
    assert formats.read(folder, kernel="at*").columns.addresses.tolist() == [4096]
    with pytest.raises(TraceError, match=r"several launches: 1 \(atax\), 2 \(gemm\); --kernel"):
        formats.read(folder)
    with pytest.raises(TraceError, match=r"no launch matches kernel='mvt'; there are 1 \(atax\), 2 \(gemm\)"):
        formats.read(folder, kernel="mvt")


def test_blocks_without_a_file_are_said(run):
    files = {f"kernel_1_block_{n}.mem": record() for n in (0, 2, 3)}
    folder = run(files, config(kernel_1=("scale", 10**9, 32)))
    with pytest.raises(TraceError, match="999999997 of 1000000000 blocks have no file, block 1 is the first"):
        read_ppt(folder)
    trace = read_ppt(folder, lenient=True)
    assert trace.skipped.lines == 999999997
    assert list(trace.blocks) == [0, 2, 3]


def test_a_missing_block_accesses_nothing_if_read_leniently(run):
    folder = run({f"kernel_1_block_{n}.mem": record() for n in (0, 2)}, config(kernel_1=("scale", 5, 32)))
    trace = read_ppt(folder, lenient=True)
    assert [len(trace.block(block)) for block in range(5)] == [1, 0, 1, 0, 0]
    with pytest.raises(TraceError, match="3 of 5 blocks have no file, block 1 is the first"):
        read_ppt(folder)


def test_a_block_whose_file_is_empty_is_held_and_accesses_nothing(run):
    files = {"kernel_1_block_0.mem": record(), "kernel_1_block_1.mem": "", "kernel_1_block_2.mem": record()}
    trace = read_ppt(run(files, config(kernel_1=("scale", 3, 64))))
    assert [len(trace.block(block)) for block in trace.blocks] == [1, 0, 1]


def test_a_file_is_told_by_its_first_record(tmp_path):
    (tmp_path / "trace").write_text("\n=====\n" + record() + "\n=====\n" + record())
    assert formats.recognise(tmp_path / "trace").name == "ppt"
    assert len(formats.read(tmp_path / "trace", block=(32, 1, 1))) == 2


# ---- Bad input


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("", "", "no accesses"),
        ("\n=====\n", "", "no accesses"),
        (record("LDG.E", []), "", "no accesses"),
        (record("CCTL"), "", "no accesses"),
        (record() + "\n4096\n", ":2", "expected an opcode"),
        (record() + "\nLDG.E 4096\n", ":2", "expected an opcode"),
        (record() + "\nLDG.E 0x10 -1\n", ":2", "expected an opcode"),
        (record() + "\nLDG.E 0x10,0x20\n", ":2", "expected an opcode"),
        (record() + "\nLDG.E 0x\n", ":2", "expected an opcode"),
        (record() + "\nLDG.E 0x10 LDG.E 0x20\n", ":2", "expected an opcode"),
        (record() + "\n=====\n\nldg 0x10\n", ":4", "expected an opcode"),
        (record() + "\nLDG.E 0x0\n", ":2", "addresses must be 0x1 to"),
        (record() + "\nLDG.E 0x7ffffffffffffff1\n", ":2", "addresses must be 0x1 to"),
        (record() + "\nLDG.E 0x1ffffffffffffffff\n", ":2", "expected an opcode"),
        (record(addresses=range(4096, 4129)), ":1", "more than 32 addresses"),
        (record("FROB"), ":1", "FROB is not known"),
        (record() + "\nLDG.E " + "0" * 5000 + "\n", ":2", "longer than"),
        (record().encode() + b"\n" + bytes(range(256)), ":2", "expected an opcode"),
    ],
)
def test_a_bad_file_is_refused_with_one_line_that_says_where(run, text, where, problem):
    folder = run({"kernel_1_block_0.mem": text}, config(kernel_1=("scale", 1, 32)))
    with pytest.raises(TraceError) as error:
        read_ppt(folder)
    message = str(error.value)
    assert message.startswith(f"{folder}/memory_traces/kernel_1_block_0.mem{where}: " if where else f"{folder}: ")
    assert problem in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kernel_1 = 3", "is not a configuration"),
        ("kernel_1 = {", "is not a configuration"),
        ("kernel_1 = __import__('os').system('false')", "is not a configuration"),
        ("\0", "is not a configuration"),
        ("kernel_1 = " + "(" * 5000, "is not a configuration"),
        (config(kernel_1=("scale", 1, "9" * 400 + "+1j")), "is not a configuration of PPT-GPU: OverflowError"),
        (config(kernel_1=("scale", 1, "9" * 5000)), "is not a configuration of PPT-GPU: SyntaxError"),
        (config(kernel_1=("scale", 0, 32)), "grid_size must be 1 to"),
        (config(kernel_1=("scale", 1, -32)), "block_size must be 1 to 1024"),
        (config(kernel_1=("scale", 1, 2048)), "block_size must be 1 to 1024"),
        (config(kernel_1=("scale", 1, '"many"')), "block_size must be 1 to 1024"),
        (config(kernel_1=("scale", 1, 32)).replace("grid_size", "gird_size"), "grid_size"),
    ],
)
def test_a_bad_configuration_is_refused_and_nothing_of_it_is_run(run, text, problem):
    with pytest.raises(TraceError, match=r"app_config\.py") as error:
        read_ppt(run(ONE, text))
    assert problem in str(error.value)


def test_a_block_outside_of_the_grid_or_twice_is_refused(run):
    files = {f"kernel_1_block_{n}.mem": record() for n in range(2)}
    with pytest.raises(TraceError, match="block 1 lies outside of the grid of 1"):
        read_ppt(run(files, config(kernel_1=("scale", 1, 32))))
    with pytest.raises(TraceError, match=r"block_0.mem.gz: holds the same block as kernel_1_block_0.mem"):
        read_ppt(run(ONE | {"kernel_1_block_0.mem.gz": gzip.compress(b"")}), block=(32, 1, 1))


def test_lenient_reading_counts_bad_lines_and_keeps_the_rest(run):
    text = "junk\n" + record() + "\n=====\nLDG.E 12\nFROB 0x1\n" + record()
    trace = read_ppt(run({"kernel_1_block_0.mem": text}), block=(32, 1, 1), lenient=True)
    assert len(trace) == 2
    assert trace.skipped.lines == 3
    assert [message.split(": ")[0].rsplit(":", 1)[1] for message in trace.skipped.examples] == ["1", "4", "5"]


def test_a_corpus_of_bad_files_is_refused():
    files = sorted(DATA.glob("ppt-*.mem"))
    assert len(files) >= 6
    for path in files:
        with pytest.raises(TraceError):
            read_ppt(path, block=(64, 1, 1))


def test_damaged_files_never_do_more_than_raise_a_trace_error(tmp_path):
    rng = random.Random(21)
    text = "".join("\n=====\n" + record(rng.choice(OPCODES), range(2**30, 2**30 + 128, 4)) for _ in range(8)).encode()
    path = tmp_path / "kernel_1_block_0.mem"
    for _ in range(1000):
        path.write_bytes(damaged(text, rng))
        with contextlib.suppress(TraceError):
            read_ppt(path, block=(64, 1, 1), lenient=rng.random() < 0.5).columns.check()


@pytest.mark.parametrize("lenient", [False, True])
def test_a_block_beside_that_of_a_single_file_is_in_the_folder(run, lenient):
    folder = run({f"kernel_1_block_{n}.mem": record() for n in range(2)}, config(kernel_1=("scale", 2, 32)))
    trace = read_ppt(folder / "memory_traces" / "kernel_1_block_1.mem", lenient=lenient)
    with pytest.raises(TraceError, match=r"block 0 is not in the trace .* read the folder of its file instead"):
        trace.block(0)
