"""The command ``record``, and the folder that it writes as the source of other commands."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys

import pytest

from rdmodel.cli import main
from tests.support.recorded_programs import build_program, write_images
from tracegen.recording.libraries import stand_ins


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    built = build_program(folder, stand_ins(["libcudart.so.12"]))
    return [str(built), str(write_images(folder)[0])]


@pytest.fixture
def recording(command, tmp_path, capfd):
    folder = str(tmp_path / "out")
    assert main(["record", "-o", folder, "--", *command, "run"]) == 0
    output = capfd.readouterr()
    assert output.out == "0\n"  # the program's own
    assert output.err.splitlines()[-1] == f"rdmodel: {folder}: recorded 2 launches"
    return folder


def test_every_command_takes_a_recording(recording, capfd, tmp_path):
    assert main(["predict", recording, "--json"]) == 0
    both = json.loads(capfd.readouterr().out)
    assert [one["kernel"] for one in both] == ["order", "gather"]
    for picked in (["--kernel", "gather"], ["--launch", "2"], ["--kernel", "2"]):
        assert main(["predict", recording, *picked, "--json"]) == 0
        one = json.loads(capfd.readouterr().out)
        assert one["misses"] == both[1]["misses"]
    assert main(["simulate", recording, "--kernel", "order", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["kernel"] == "order"
    assert main(["report", recording, "--kernel", "gather", "--no-what-if", "--no-ablation", "--json"]) == 0
    (page,) = json.loads(capfd.readouterr().out)["kernels"]
    assert page["source"] == f"{recording}: gather, launch 2"
    lines = [line for group in page["commands"].values() for line in group]
    assert lines
    assert all("--launch 2" in line and "--kernel" not in line for line in lines)
    assert main(["trace", recording, "--launch", "1", "-o", str(tmp_path / "order"), "--all"]) == 0
    assert main(["mrc", str(tmp_path / "order"), "--json"]) == 2  # it only stores
    capfd.readouterr()


def test_results_of_several_launches_have_their_numbers(recording, capfd):
    def printed(*argv):
        assert main([*argv[:1], recording, *argv[1:]]) == 0
        return capfd.readouterr().out

    for command in ("predict", "simulate", "time"):
        both = json.loads(printed(command, "--json"))
        assert [one.get("launch", one.get("config", {}).get("trace", {}).get("launch")) for one in both] == [1, 2]
        rows = list(csv.DictReader(printed(command, "--csv").splitlines()))
        assert [(row["kernel"], row["launch"]) for row in rows] == [("order", "1"), ("gather", "2")]
        assert "gather (launch 2) on a100-80g" in printed(command)


def test_a_program_in_the_current_folder_is_found(command, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app").symlink_to(command[0])
    assert main(["record", "--", "./app", command[1], "run"]) == 0
    assert capfd.readouterr().err.endswith("rdmodel: app.recording: recorded 2 launches\n")


def test_info_lists_the_launches(recording, capfd):
    for options in ([], ["--launches"]):
        assert main(["info", recording, *options]) == 0
        text = capfd.readouterr().out
        assert [line.split() for line in text.splitlines()[3:]] == [
            ["1", "order", "2x1x1", "128x1x1", "256"],
            ["2", "gather", "2x1x1", "128x1x1", "256"],
        ]
    assert main(["info", recording, "--launch", "2", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["kernel"] == "gather"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["mrc", "OUT"], "holds 2 launches; --launch N or --kernel NAME picks one (rdmodel info OUT lists them)"),
        (["predict", "OUT", "--launch", "3"], "no launch matches kernel='3'; there are 1 (order), 2 (gather)"),
        (["predict", "OUT", "--kernel", "scatter"], "no launch matches kernel='scatter'"),
        (["predict", "OUT", "--kernel", "order", "--launch", "1"], "--launch: cannot be combined with --kernel"),
        (["predict", "OUT", "--block", "64"], "--block: OUT is a recording, which has its own launches"),
        (["predict", "OUT", "-D", "N=1"], "--define: OUT is a recording, which has its own launches"),
        (["record"], "record: needs a program: rdmodel record -- ./app args"),
        (["record", "--", "./no-such-app"], "./no-such-app: no such program, or it is not executable"),
        (["record", "--gpu", "no-gpu", "--", "true"], "no-gpu"),
    ],
)
def test_bad_usage_says_what_to_do(recording, capfd, argv, message):
    assert main([word.replace("OUT", recording) for word in argv]) == 2
    assert message.replace("OUT", recording) in capfd.readouterr().err


def test_the_status_tells_that_the_program_failed(command, tmp_path, capfd):
    folder = str(tmp_path / "out")
    assert main(["record", "--values", "--json", "-o", folder, "--", *command, "fail"]) == 1
    output = capfd.readouterr()
    assert json.loads(output.out.partition("\n")[2])["launches"] == 2
    assert f"{command[0]}: ended with status 3; {folder} holds its 2 launches" in output.err


def test_ctrl_c_stops_the_program_and_keeps_its_launches(command, tmp_path, capfd):
    folder = tmp_path / "out"
    argv = [sys.executable, "-m", "rdmodel", "record", "-o", str(folder), "--", *command, "wait"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "waiting\n"
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    message = f"rdmodel: error: interrupted; {folder} holds the 2 launches until then\n"
    assert (running.returncode, out, err) == (130, "", message)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert json.loads((folder / "recording.json").read_text())["complete"] is False
    assert main(["info", str(folder)]) == 0
    assert "2 launches" in capfd.readouterr().out
