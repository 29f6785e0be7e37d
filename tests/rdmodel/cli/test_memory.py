"""`--memory`: refused at the start with what is needed, or kept, on traces larger than that; results are the same."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import rdmodel as rd
from rdmodel.cli import predict_command
from tests.support.measured_commands import MB, measured, walk, walk_launch
from tests.support.presets import FERMI
from tests.support.random_traces import ProgramTrace
from tests.support.sanitizers import not_sanitized

pytestmark = not_sanitized

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits data and tells the peak")

LOG = (
    b"""MEMTRACE: CTX 0x1 - LAUNCH - Kernel pc 0x2 - Kernel name copy - grid launch id 0 - grid size 1,1,1 - \
block size 32,1,1 - nregs 16 - shmem 0 - cuda stream id 0
MEMTRACE: CTX 0x1 - grid_launch_id 0 - CTA 0,0,0 - warp 0 - LDG.E - 0x80"""
    + 31 * b" 0x0"
    + b"\n"
)

ALL = ("--gpu", FERMI, "--sms", "1", "--threads", "all")


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Return a trace of 290 MiB in which 64 blocks walk over the same 16384 lines."""
    path = tmp_path_factory.mktemp("memory") / "large"
    rd.save(ProgramTrace(walk_launch(64, 4), {block: [walk(1, 4096, 4, 0)] for block in range(64)}), path)
    assert sum(file.stat().st_size for file in path.iterdir()) > 280 * MB
    return str(path)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """Return a trace in which 8 blocks load 409600 lines once each."""
    path = tmp_path_factory.mktemp("memory") / "wide"
    rd.save(ProgramTrace(walk_launch(8, 4), {block: [walk(32, 400, 4, block)] for block in range(8)}), path)
    return str(path)


@pytest.fixture(scope="module")
def palindrome(tmp_path_factory):
    """Return a trace in which one warp loads 409600 lines forth and back: every distance occurs once."""
    path = tmp_path_factory.mktemp("memory") / "palindrome"
    rd.save(ProgramTrace(walk_launch(1, 1), {0: [walk(32, 12800, 1, 0, back) for back in (False, True)]}), path)
    return str(path)


def size_of(text: str) -> float:
    return float(text[:-1]) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[text[-1]]


COMMANDS = {
    "mrc": ALL,
    "predict": ALL,
    "simulate": ("--gpu", FERMI, "--sms", "1"),
    "info": (),
}


# ---- kept


@LINUX
@pytest.mark.parametrize("command", COMMANDS)
def test_a_trace_of_nearly_twice_the_memory_runs_within_it(large, command):
    status, out, err, peak = measured(command, large, *COMMANDS[command], "--memory", "150M", "--json")
    assert (status, err) == (0, "")
    assert peak <= 150 * MB
    assert json.loads(out)["kernel"] == "walk"


@LINUX
def test_a_trace_of_nearly_three_times_the_memory_is_copied_within_it(large, tmp_path):
    copy = tmp_path / "copy"
    status, _, err, peak = measured("trace", large, "-o", str(copy), "--memory", "100M", "--gpu", FERMI)
    assert (status, err) == (0, "")
    assert peak <= 100 * MB
    ours, theirs = (np.load(path / "addresses.npy", mmap_mode="r")[-1000:] for path in (copy, Path(large)))
    assert ours.tolist() == theirs.tolist()


@LINUX
@pytest.mark.parametrize(
    ("trace", "command"),
    [("wide", command) for command in COMMANDS]
    + [("palindrome", command) for command in ("mrc --json", "predict --seeds 2")],
)
def test_what_a_command_says_that_it_needs_is_enough_and_not_exceeded(request, trace, command):
    name, *more = command.split()
    argv = (name, request.getfixturevalue(trace), *COMMANDS[name], *more)
    status, out, err, _ = measured(*argv, "--memory", "132M" if name == "info" else "112M")
    assert (status, out) == (2, "")
    needed = re.search(r"may need (\S+) for up to ([\d,]+) distinct lines; give that much, or", err)
    lines = int(needed[2].replace(",", ""))
    assert 409_600 <= lines <= 1.02 * 409_600
    status, _, err, peak = measured(*argv, "--memory", needed[1])
    assert (status, err) == (0, "")
    assert peak <= size_of(needed[1])
    assert trace == "wide" or size_of(needed[1]) / 3 < peak


@LINUX
@pytest.mark.parametrize(("rate", "form"), [("1", ""), ("0.5", "--json")])
def test_what_a_sample_says_that_it_needs_is_enough_and_not_exceeded(palindrome, rate, form):
    """One warp, 409600 lines, of which each has a distance of its own: a sample of all or half of these."""
    argv = ("mrc", palindrome, "--gpu", FERMI, "--sms", "1", "--sample", rate, *form.split())
    status, out, err, _ = measured(*argv, "--memory", "150M")
    assert (status, out) == (2, "")
    needed = re.search(r"may need (\S+) for up to ([\d,]+) distinct lines; give that much, or follow fewer lines", err)
    assert 409_600 <= int(needed[2].replace(",", "")) <= 1.02 * 409_600
    status, _, err, peak = measured(*argv, "--memory", needed[1])
    assert (status, err) == (0, "")
    assert size_of(needed[1]) / 3 < peak <= size_of(needed[1])


@LINUX
def test_a_small_sample_fits_where_a_large_one_does_not(palindrome):
    argv = ("mrc", palindrome, "--gpu", FERMI, "--sms", "1", "--memory", "150M")
    assert measured(*argv, "--sample", "0.9")[0] == 2
    status, _, err, peak = measured(*argv, "--sample", "0.01")
    assert (status, err) == (0, "")
    assert peak <= 150 * MB


@LINUX
@pytest.mark.parametrize("command", ["mrc", "predict", "simulate"])
def test_a_need_that_was_judged_too_low_ends_in_one_line_instead_of_more_memory(wide, command):
    setup = "from rdmodel.execution import memory_need\nmemory_need.transactions_within = lambda *_: True"
    status, out, err, peak = measured(command, wide, *COMMANDS[command], "--memory", "110M", setup=setup)
    assert (status, out) == (1, "")
    assert err.startswith("rdmodel: error: the run needs more than --memory 110M; fewer blocks")
    assert err.count("\n") == 1
    assert peak <= 110 * MB


# ---- refused


@LINUX
@pytest.mark.parametrize(
    ("extent", "lines", "each"),
    [
        ("--sms 2 --model-sms 1", 204_800, ""),
        ("--sms 2 --model-sms 2", 204_800, " on each SM"),
        ("--sms 2 --model-sms all", 409_600, ""),
        ("--sms 2 --model-sms all --definition paper", 204_800, " on each SM"),
    ],
)
def test_lines_are_those_of_the_sm_that_has_most(wide, extent, lines, each):
    _, _, err, _ = measured("predict", wide, "--threads", "all", *extent.split(), "--memory", "132M", "--gpu", FERMI)
    found = re.search(r"may need \S+ for up to ([\d,]+) distinct lines( on each SM)?; ", err)
    assert lines <= int(found[1].replace(",", "")) <= 1.02 * lines
    assert (found[2] or "") == each
    assert "model fewer blocks (--blocks, --threads) or SMs (--sms, --model-sms)" in err


@LINUX
def test_more_sms_need_more(wide):
    argv = ("predict", wide, "--gpu", FERMI, "--threads", "all", "--sms", "2", "--memory", "132M")
    one, two = (
        size_of(re.search(r"may need (\S+)", measured(*argv, *more)[2])[1]) for more in ((), ("--model-sms", "2"))
    )
    assert one < two


@LINUX
def test_what_a_run_needs_whatever_its_lines_is_said_without_a_look_at_them(wide):
    _, _, err, _ = measured("predict", wide, "--model-sms", "all", "--memory", "120M", "--gpu", FERMI)
    assert re.search(r"predict of walk needs at least \S+M whatever its lines; give that much, or", err)


@LINUX
@pytest.mark.parametrize("command", [*COMMANDS, "trace"])
def test_a_budget_that_does_not_even_hold_the_program_is_refused(large, tmp_path, command):
    extra = ("-o", str(tmp_path / "t")) if command == "trace" else ()
    status, out, err, _ = measured(command, large, *extra, "--memory", "40M")
    assert (status, out) == (2, "")
    assert re.fullmatch(r"rdmodel: error: memory=40M: rdmodel itself takes \S+M; give more\n", err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [*COMMANDS, "trace -o t"])
@pytest.mark.parametrize("size", ["2", "-1G", "0x1G", "G", "1 G", "1P", "nan", "infG", "1e3M"])
def test_a_size_without_a_unit_or_sense_is_bad_usage(run, command, size):
    status, out, err = run(*command.split(), "gemm", "--memory", size)
    assert (status, out) == (2, "")
    assert f"{size!r} is not a size with a unit, such as 512M or 2G" in err
    assert err.count("\n") == 1


@pytest.fixture(scope="module")
def own_size(tmp_path_factory):
    """Megabytes that the program itself takes when it reads a file."""
    path = tmp_path_factory.mktemp("own") / "small.log"
    path.write_bytes(LOG)
    return float(re.search(r"takes (\S+)M", measured("info", str(path), "--memory", "10M", "--gpu", FERMI)[2])[1])


@LINUX
@pytest.mark.parametrize(
    ("command", "ending"),
    [("info", "log"), ("mrc", "parquet"), ("predict", "log"), ("simulate", "parquet"), ("trace", "log")],
)
def test_a_file_that_may_not_fit_while_it_is_read_is_refused_before(tmp_path, own_size, command, ending):
    path = tmp_path / f"large.{ending}"
    path.write_bytes(b"PAR1" if ending == "parquet" else LOG)
    os.truncate(path, 17 << 20)
    extra = ("-o", str(tmp_path / "t")) if command == "trace" else ()
    status, out, err, _ = measured(command, str(path), *extra, "--memory", f"{int(own_size) + 20}M")
    assert (status, out, err.count("\n")) == (2, "", 1)
    found = re.search(r"memory=\S+: reading \S+ may need (\S+)M; give that much, or convert it to a native trace", err)
    status, _, err, _ = measured(command, str(path), *extra, "--memory", f"{float(found[1]) + 8:.0f}M")
    assert "reading" not in err


@pytest.mark.parametrize("command", ["compare", "policies", "locality", "kernels", "gpus"])
def test_other_commands_make_no_such_promise(run, command):
    status, _, err = run(command, "--memory", "2G")
    assert status == 2
    assert "--memory" in err


# ---- around a run


@pytest.mark.parametrize("command", COMMANDS)
def test_results_do_not_depend_on_the_budget(run, wide, command):
    def plain(*more: str) -> object:
        status, out, err = run(command, wide, *COMMANDS[command], "--blocks", "2", "--json", *more)
        assert (status, err) == (0, "")
        return json.loads(re.sub(r'"(trace_)?seconds": \S+', '"seconds": 0,', out).replace(",,", ","))

    assert plain("--memory", "8G") == plain()


@LINUX
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RuntimeError])
def test_the_limit_ends_with_the_command_however_it_ends(run, wide, monkeypatch, error):
    import resource

    seen = []

    def fail(*_: object, **__: object) -> None:
        seen.append(resource.getrlimit(resource.RLIMIT_DATA))
        raise error

    before = resource.getrlimit(resource.RLIMIT_DATA)
    monkeypatch.setattr(predict_command, "predict", fail)
    if error is RuntimeError:
        with pytest.raises(RuntimeError):
            run("predict", wide, "--memory", "8G", "--gpu", FERMI)
    else:
        status = run("predict", wide, "--memory", "8G", "--gpu", FERMI)[0]
        assert status == {KeyboardInterrupt: 130, MemoryError: 1}[error]
    assert seen[0] != before
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_kernels_that_are_made_on_demand_have_a_budget_too(run):
    sizes = ("--param", "NX=64", "--param", "NY=64")
    assert run("predict", "atax.1", *sizes, "--memory", "8G", "--csv", "--gpu", FERMI)[0] == 0
    assert run("info", "atax.1", *sizes, "--memory", "8G", "--gpu", FERMI)[0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--jobs", "2"], "jobs=2: must be 1 with --memory"),
        (["--l2"], "l2 cannot be combined with --memory"),
        (["--sample-sms", "2"], "sample_sms cannot be combined with --memory"),
        (["--sample-blocks", "0.5"], "sample_blocks cannot be combined with --memory"),
    ],
)
def test_what_cannot_be_promised_together_is_refused(options, message, capsys):
    from rdmodel.cli import main

    assert main(["predict", "vectoradd", "--param", "N=1024", "--memory", "16G", *options]) == 2
    assert message in capsys.readouterr().err
