"""``rdmodel completion``: shells complete commands, options and their values from the script."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

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

ZSH_SETUP = r"""
PROMPT=
fpath=($PWD $fpath)
autoload -Uz compinit
compinit -u -D
bindkey '^I' complete-word
compadd() {
  local -a hits
  # With -O, -A and -D, compadd only asks which words match.
  if [[ " $* " != *" -"[OAD]" "* ]]; then
    builtin compadd -A hits "$@"
    (( $#hits )) && print -rl -- "<"$^hits">"
  fi
  builtin compadd "$@"
}
finish() { compstate[insert]=; compstate[list]=; print -r -- "END<>" }
comppostfuncs=(finish)
print -r -- "READY<>"
"""
"""Makes an interactive zsh print the words that it would offer, between < and >."""


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


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_fish_completes_commands_options_values_and_files(script, tmp_path):
    path = script("fish")
    (tmp_path / "atlas.trc").touch()

    def complete(line: str) -> set[str]:
        argv = ["fish", "--no-config", "-c", f"source {path}; complete -C {line!r}"]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert done.stderr == ""
        return {told.split("\t")[0] for told in done.stdout.splitlines()}

    check_completions(complete)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_completes_commands_options_values_and_files(script, tmp_path, monkeypatch):
    os.rename(script("zsh"), tmp_path / "_rdmodel")
    (tmp_path / "atlas.trc").touch()
    (tmp_path / "setup").write_text(ZSH_SETUP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "dumb")
    check_completions(complete_in_zsh)


def check_completions(complete) -> None:
    assert complete("rdmodel ") == set(COMMANDS)
    assert complete("rdmodel pre") == {"predict"}
    assert complete("rdmodel predict --defini") == {"--definition"}
    assert complete("rdmodel predict --definition ") == {"hardware", "paper"}
    assert complete("rdmodel predict --gpu v10") == {"v100"}
    assert complete("rdmodel predict at") == {"atax.1", "atax.2", "atlas.trc"}
    assert complete("rdmodel predict atax.1 --gpu v100 mv") == {"mvt.1", "mvt.2"}
    assert complete("rdmodel simulate --policy sw") == {name for name in POLICIES if name.startswith("sw")}
    assert complete("rdmodel trace -o atl") == {"atlas.trc"}
    assert complete("rdmodel completion ") == set(SHELLS)


def complete_in_zsh(line: str) -> set[str]:
    """Return the words that an interactive zsh offers on a pseudo terminal."""
    shell = ["zsh", "-f", "-i"]
    process, terminal = pty.fork()
    if not process:
        os.execvp(shell[0], shell)
    try:
        os.write(terminal, b"stty -echo; source ./setup\n")
        read_until(terminal, b"\nREADY<>")
        os.write(terminal, line.encode() + b"\t")
        return set(re.findall(r"<([^<>]+)>", read_until(terminal, b"END<>").decode()))
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
        os.close(terminal)


def read_until(terminal: int, mark: bytes) -> bytes:
    told, end = b"", time.monotonic() + 60
    while mark not in told:
        assert select.select([terminal], [], [], max(0.0, end - time.monotonic()))[0], told
        told += os.read(terminal, 1 << 16)
    return told


def test_a_missing_library_is_named_with_the_command_that_installs_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    status, out, err = run("completion", "bash")
    assert (status, out) == (2, "")
    assert err == "rdmodel: error: completion needs shtab: pip install 'rdmodel[completion]'\n"
