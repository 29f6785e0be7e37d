"""Names of files and messages of compilers: no character of them controls the terminal."""

from __future__ import annotations

import pytest

from rdmodel.cli.text_trace import format_launches
from tracegen.cuda import nvrtc

ESCAPE = "\x1b[31m"


@pytest.fixture
def written(run, tmp_path):
    """Return the name of a small trace file with a control character in its name."""
    name = str(tmp_path / f"o{ESCAPE}ut.trc")
    status, out, _ = run("trace", "atax.1", "--param", "NX=64", "--param", "NY=64", "--block", "32", "-o", name)
    assert status == 0
    assert "o\\x1b[31mut.trc: wrote" in out
    return name


def test_the_name_of_a_file_of_launches_is_escaped():
    assert format_launches(f"l{ESCAPE}", "nvbit", []).startswith("l\\x1b[31m: 0 launches")


def test_the_name_of_a_report_is_escaped(run, written, tmp_path):
    _status, out, _err = run("report", written, "--sms", "1", "-o", str(tmp_path / f"r{ESCAPE}.html"))
    assert "r\\x1b[31m.html: wrote" in out


@pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")
def test_messages_of_the_compiler_keep_their_lines_and_nothing_else(run, tmp_path):
    source = tmp_path / f"na{ESCAPE}me.cu"
    source.write_text(f'__global__ void k(int *x) {{\n#error "\t{ESCAPE}red \x07\x9b0m"\n}}\n')
    status, _out, err = run("predict", str(source), "--grid", "1", "--block", "32")
    assert status == 2
    first, second, *_ = err.splitlines()
    assert "na\\x1b[31mme.cu(2): catastrophic error" in first
    assert second == '  #error "\t\\x1b[31mred \\x07\\x9b0m"'
    assert not {"\x1b", "\x07", "\x9b"} & set(err)


def test_a_failed_disk_access_names_an_escaped_file(run, tmp_path):
    folder = tmp_path / f"d{ESCAPE}"
    status, _out, err = run("trace", "atax.1", "-o", str(folder / "a.trc"))
    assert status != 0
    assert ESCAPE not in err
    assert "d\\x1b[31m" in err
