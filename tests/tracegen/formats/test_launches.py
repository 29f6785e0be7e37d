"""The launches of a file are listed as reading them one by one finds them, and what cannot be listed says why."""

import json
import lzma

import pytest

from rdmodel.cli.main import main
from rdmodel.errors import TraceError
from tests.support import nvbit_texts, ppt_texts
from tests.support.accelsim_traces import one_warp
from tracegen import formats


def nvbit_log(*launches):
    """Return the text of a log with a load of each launch (number, name, grid, block) between what a program says."""
    lines = ["the program begins\n"]
    for number, name, grid, block in launches:
        lines.append(nvbit_texts.header(number, name, grid, block))
        lines.append(nvbit_texts.record(nvbit_texts.lanes(), launch=number))
    return "".join(lines)


LAUNCHES = (
    (0, "copy(float*, int)", (4, 2, 1), (64, 1, 1)),
    (3, "void ns::sum<float>(float*)", (1, 1, 1), (32, 2, 1)),
    (4, "copy(float*, int)", (70000, 1, 1), (1024, 1, 1)),
)


def shapes(found):
    return [(one.number, one.launch.kernel, one.launch.grid, one.launch.block) for one in found]


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "app.log"
    path.write_text(nvbit_log(*LAUNCHES))
    return path


def accelsim_list(folder):
    """Write a list with a copy, a comment, two kernels, one of them packed, and one of them named twice."""
    for number, name in ((1, "copy"), (2, "sum")):
        text = one_warp("0000 ffffffff 1 R1 LDG.E.SYS 1 R2 4 1 0x1000 4 0", name=name, grid=f"({number},3,1)")
        text = text.replace("-kernel id = 1\n", f"-kernel id = {number}\n")
        (folder / f"kernel-{number}.traceg").write_text(text)
    packed = folder / "kernel-2.traceg"
    (folder / "kernel-2.traceg.xz").write_bytes(lzma.compress(packed.read_bytes()))
    packed.unlink()
    path = folder / "kernelslist.g"
    path.write_text(
        "MemcpyHtoD,0x1000,64\n# twice\nkernel-1.traceg\nkernel-2.traceg.xz\n./kernel-1.traceg\nkernel-1.traceg\n"
    )
    return path


def test_a_log_lists_its_launches_in_order(log):
    assert shapes(formats.launches(log)) == list(LAUNCHES)


def test_a_packed_log_is_listed_too(log):
    packed = log.with_suffix(".xz")
    packed.write_bytes(lzma.compress(log.read_bytes()))
    assert formats.launches(packed) == formats.launches(log)


def test_what_is_listed_is_what_is_read(log, tmp_path):
    folder = tmp_path / "accelsim"
    folder.mkdir()
    for path in (log, accelsim_list(folder), folder):
        found = formats.launches(path)
        assert len(found) > 1
        for one in found:
            assert formats.read(path, kernel=str(one.number)).launch == one.launch


def test_a_list_names_each_kernel_once(tmp_path):
    assert [(n, kernel, grid) for n, kernel, grid, _ in shapes(formats.launches(accelsim_list(tmp_path)))] == [
        (1, "copy", (1, 3, 1)),
        (2, "sum", (2, 3, 1)),
    ]


def test_a_folder_of_blocks_lists_its_launches(tmp_path):
    (tmp_path / "app_config.py").write_text(ppt_texts.config(kernel_1=("copy", 2, 32), kernel_7=("sum", 1, 64)))
    for number, block in ((1, 0), (1, 1), (7, 0)):
        (tmp_path / f"kernel_{number}_block_{block}.mem").write_text(ppt_texts.record())
    found = formats.launches(tmp_path)
    assert shapes(found) == [(1, "copy", (2, 1, 1), (32, 1, 1)), (7, "sum", (1, 1, 1), (64, 1, 1))]
    for one in found:
        assert formats.read(tmp_path, kernel=str(one.number)).launch == one.launch


@pytest.mark.parametrize(("kernel", "numbers"), [("copy", [0, 4]), ("sum", [3]), ("3", [3]), ("*o*", [0, 3, 4])])
def test_a_pattern_leaves_out_the_others(log, kernel, numbers):
    assert [one.number for one in formats.launches(log, kernel=kernel)] == numbers


def test_a_pattern_that_matches_nothing_says_what_there_is(log):
    with pytest.raises(TraceError, match=r"no launch matches kernel='gemm'; there are 0 \(copy"):
        formats.launches(log, kernel="gemm")


def test_a_mistake_in_an_announcement_names_its_line(log):
    log.write_text(log.read_text().replace("grid size 1,1,1", "grid size 0,1,1"))
    with pytest.raises(TraceError, match=r"app.log:4: grid x must be 1 to"):
        formats.launches(log)


def test_a_launch_that_is_announced_twice_is_a_mistake(log):
    log.write_text(nvbit_log(LAUNCHES[0], LAUNCHES[0]))
    with pytest.raises(TraceError, match=r"app.log:4: launch 0 was announced before"):
        formats.launches(log)


def test_a_list_of_what_is_not_there_names_its_line(tmp_path):
    path = accelsim_list(tmp_path)
    (tmp_path / "kernel-1.traceg").unlink()
    with pytest.raises(TraceError, match=r"kernelslist.g:3: .*kernel-1.traceg: No such file"):
        formats.launches(path)


def test_a_kernel_without_shapes_cannot_be_listed(tmp_path):
    path = accelsim_list(tmp_path)
    one = tmp_path / "kernel-1.traceg"
    one.write_text(one.read_text().replace("-block dim", "-block dims"))
    with pytest.raises(TraceError, match=r"kernelslist.g:3: .*no valid line '-block dim"):
        formats.launches(path)


def test_a_format_of_one_launch_says_so(tmp_path):
    path = tmp_path / "one.trc"
    path.write_text("blocksize: 32 1 1\n0 0 4096 4\n")
    with pytest.raises(TraceError, match=r"one.trc: a trace of the format 'trc' is one launch"):
        formats.launches(path)


def test_the_command_prints_a_table_or_json(log, capsys):
    assert main(["info", str(log), "--launches"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{log}: 3 launches (format nvbit)"
    assert lines[3].split("  ")[-1].strip() == "512"
    assert main(["info", str(log), "--launches", "--json", "--kernel", "sum"]) == 0
    [one] = json.loads(capsys.readouterr().out)["launches"]
    assert one == {
        "number": 3,
        "kernel": "void ns::sum<float>(float*)",
        "grid": [1, 1, 1],
        "block": [32, 2, 1],
        "registers": 16,
        "shared_memory": 0,
    }


def test_the_names_of_templates_leave_room_for_the_rest(log, capsys):
    log.write_text(nvbit_log((0, "void " + 40 * "deep<" + 40 * ">" + "(int)", (1, 1, 1), (32, 1, 1))))
    assert main(["info", str(log), "--launches"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines()[1:])) < 100


def test_a_kernel_that_is_no_file_has_no_list(capsys):
    assert main(["info", "atax.1", "--launches"]) == 2
    assert "atax.1: no such file; --launches lists the launches of a file" in capsys.readouterr().err


def test_a_launch_may_be_chosen_by_a_whole_number(tmp_path):
    path = tmp_path / "two.txt"
    path.write_text(
        nvbit_texts.header(3)
        + nvbit_texts.header(5, "other")
        + nvbit_texts.record(nvbit_texts.lanes(), launch=3)
        + nvbit_texts.record(nvbit_texts.lanes(8192), launch=5)
    )
    assert formats.read(path, kernel=5).columns.addresses[0] == 8192
    assert [entry.number for entry in formats.launches(path, kernel=3)] == [3]
    with pytest.raises(TraceError, match="no launch matches kernel='4'"):
        formats.read(path, kernel=4)
