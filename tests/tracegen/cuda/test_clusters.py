"""Clusters of launches: chosen in Python, in launch files and on the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rdmodel.errors import ConfigError, LaunchError
from tests.support.commands import run
from tracegen import cuda

KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry sizes(.param .u64 x) {
  .reg .b64 %rd<5>; .reg .b32 %r<7>;
  ld.param.u64 %rd1, [x]; mov.u32 %r1, %cluster_nctarank; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r2, 32, %r3; mul.lo.u32 %r5, %r4, %r1; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1; ret;
}
"""
"""Every thread writes the blocks of its cluster at its number times this number."""


@pytest.mark.parametrize(("cluster", "size"), [(None, 1), (2, 2), ((4, 1), 4)])
def test_python_chooses_a_cluster(tmp_path, cluster, size):
    (tmp_path / "sizes.ptx").write_text(KERNEL)
    x = np.zeros(1024, np.int32)
    cuda.trace(tmp_path / "sizes.ptx", None, 8, 32, [x], cluster=cluster, check=True)
    assert (x[: 256 * size : size] == size).all()
    assert x.sum() == 256 * size


@pytest.mark.parametrize(
    ("line", "footprint"), [("", 8), ("cluster = 2", 16), ("cluster = [4, 1, 1]", 32)], ids=["none", "two", "four"]
)
def test_a_launch_file_chooses_a_cluster(tmp_path, line, footprint):
    (tmp_path / "sizes.ptx").write_text(KERNEL)
    file = tmp_path / "sizes.toml"
    file.write_text(f'source = "sizes.ptx"\ngrid = 8\nblock = 32\n{line}\n[[launch]]\nargs = {{ 0 = "int[1024]" }}\n')
    (trace,) = cuda.launches(file)
    assert len(np.unique(trace.columns.addresses // 128)) == footprint


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cluster = 3", "grid=8x1x1: sizes has clusters of 3x1x1 blocks"),
        ('cluster = "2"', "cluster='2': must be"),
        ("cluster = [1, 1, 1, 1]", "cluster=[1, 1, 1, 1]: must be"),
    ],
)
def test_a_cluster_that_does_not_fit_is_refused(tmp_path, line, message):
    (tmp_path / "sizes.ptx").write_text(KERNEL)
    file = tmp_path / "sizes.toml"
    file.write_text(f'source = "sizes.ptx"\ngrid = 8\nblock = 32\n{line}\n[[launch]]\nargs = {{ 0 = "int[1024]" }}\n')
    with pytest.raises((ConfigError, LaunchError)) as caught:
        list(cuda.launches(file))
    assert message in str(caught.value)


@pytest.mark.parametrize(("cluster", "sectors"), [([], 32), (["--cluster", "4,1,1"], 128)])
def test_the_command_line_chooses_a_cluster(tmp_path, cluster, sectors):
    (tmp_path / "sizes.ptx").write_text(KERNEL)
    words = ["predict", str(tmp_path / "sizes.ptx"), "--grid", "8", "--block", "32", "--arg", "0=int[1024]", *cluster]
    done = run([*words, "--gpu", "h100-sxm", "--sms", "1", "--json"])
    assert json.loads(done.stdout)["stores"]["sectors"] == sectors
