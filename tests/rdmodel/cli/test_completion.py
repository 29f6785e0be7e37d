"""``rdmodel completion``: bash completes commands, options and their values from the script."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from rdmodel import presets
from rdmodel.cli.arguments import COMMANDS, SHELLS, command_parser
from rdmodel.policies import POLICIES

DRIVER = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
compopt() { :; }
_shtab_rdmodel
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""Completes the last of the words that follow the name of the script."""


@pytest.fixture
def script(run, tmp_path):
    """Return a function that writes the script of a shell."""
    pytest.importorskip("shtab")

    def write(shell: str) -> str:
        status, out, err = run("completion", shell)
        assert (status, err) == (0, "")
        path = tmp_path / f"rdmodel.{shell}"
        path.write_text(out)
        return str(path)

    return write


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_can_read_its_script(script, shell):
    path = script(shell)
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    subprocess.run([shell, "-n", path], check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_options_values_and_files(script, tmp_path):
    path = script("bash")
    (tmp_path / "atlas.trc").touch()

    def complete(*words: str) -> set[str]:
        argv = ["bash", "-c", DRIVER, "bash", path, "rdmodel", *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert done.stderr == ""
        return set(done.stdout.split())

    assert complete("") == set(COMMANDS)
    assert complete("pre") == {"predict"}
    assert complete("predict", "--defini") == {"--definition"}
    assert complete("predict", "--") == {*command_parser("predict").option_names()}
    assert complete("predict", "--definition", "") == {"hardware", "paper"}
    assert complete("predict", "--gpu", "v100") == {"v100"}
    assert complete("gpus", "") == {*presets.names(), "atlas.trc", "rdmodel.bash"}
    assert complete("predict", "at") == {"atax.1", "atax.2", "atlas.trc"}
    assert complete("predict", "atax.1", "--gpu", "v100", "mvt") == {"mvt.1", "mvt.2"}
    assert complete("simulate", "--policy", "sw") == {name for name in POLICIES if name.startswith("sw")}
    assert complete("trace", "-o", "atl") == {"atlas.trc"}
    assert complete("completion", "") == set(SHELLS)


def test_a_missing_library_is_named_with_the_command_that_installs_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    status, out, err = run("completion", "bash")
    assert (status, out) == (2, "")
    assert err == "rdmodel: error: completion needs shtab: pip install 'rdmodel[completion]'\n"
