"""Pipes and devices that are given as files are refused at once: reading them may never end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.forked_programs import run_forked

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with a name")

ARGUMENTS = {
    "gpu.toml": "predict vectoradd --gpu {file}",
    "a.mtx": "predict spmv --param matrix={file}",
    "g.mtx.gz": "predict bfs.1 --param graph={file}",
    "text.txt": "predict wc --param text={file}",
    "latencies.txt": "calibrate --measured {file}",
    "report.csv": "compare vectoradd --ncu {file}",
    "sweep.toml": "sweep vectoradd --gpu {file} --vary ways=4 --no-cache",
}
"""Commands by the name of the file that they read."""


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_file_without_an_end_is_refused_at_once(tmp_path, name, kind):
    path = Path(tmp_path) / name
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    code = "from rdmodel.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
    done = run_forked(code, *ARGUMENTS[name].format(file=path).split(), timeout=60)
    assert done.returncode == 2
    assert f"{name}: is a {kind}, must be a regular file" in done.stderr
    assert done.stderr.count("\n") == 1
