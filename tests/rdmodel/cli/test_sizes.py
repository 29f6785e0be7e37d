"""Sizes on the command line are judged before anything is made: one line that names the size and what is allowed."""

from __future__ import annotations

import re

import pytest

from rdmodel.common import memory

BEYOND = [
    ("predict vectoradd --sms 1000000000", "sms=1000000000: must be at most 4096"),
    ("predict vectoradd --sms 1000000000 --model-sms all", "sms=1000000000: must be at most 4096"),
    ("predict vectoradd --set sms=1000000000", "sms=1000000000: must be at most 4096"),
    ("simulate vectoradd --sms 1000000000 --blocks 1", "sms=1000000000: must be at most 4096"),
    ("locality vectoradd --sms 1000000000 --blocks 1", "sms=1000000000: must be at most 4096"),
    ("compare vectoradd --sms 1000000000 --blocks 1", "sms=1000000000: must be at most 4096"),
    ("calibrate --set sms=1000000000", "sms=1000000000: must be at most 4096"),
    ("policies vectoradd --sms 1000000000 --blocks 1", "sms=1000000000: must be at most 4096"),
    ("mrc vectoradd --sms 1000000000", "sms=1000000000: must be at most 4096"),
    ("report vectoradd --json --sms 1000000000", "sms=1000000000: must be at most 4096"),
    ("info vectoradd --sms 1000000000", "sms=1000000000: must be at most 4096"),
    ("predict vectoradd --seeds 1000000000", "seeds=1000000000: must be at most 65536"),
    ("report vectoradd --json --seeds 1000000000", "seeds=1000000000: must be at most 65536"),
    ("sweep vectoradd --seeds 1000000000 --vary mshrs=4 --no-cache", "seeds=1000000000: must be at most 65536"),
    ("predict vectoradd --jobs 1000000000", "n_jobs=1000000000: must be at most 4096"),
    ("policies vectoradd --jobs 1000000000", "n_jobs=1000000000: must be at most 4096"),
    ("sweep vectoradd --jobs 1000000000 --vary mshrs=4 --no-cache", "n_jobs=1000000000: must be at most 4096"),
    ("tiles gemm.tiled --jobs 1000000000 --tile TI=8", "n_jobs=1000000000: must be at most 4096"),
    ("serve --jobs 1000000000", "n_jobs=1000000000: must be at most 4096"),
    ("simulate vectoradd --set l2.slices=1000000000", "l2.slices=1000000000: must be at most 4096"),
    ("simulate vectoradd --set dram.banks=1000000000", "dram.banks=1000000000: must be at most 4096"),
    ("predict vectoradd --l1 1048576M:1:128 --index linear", "l1: 8589934592 sets on 1 modelled SMs: needs about"),
    ("simulate vectoradd --l1 1048576M:1:128 --index linear", "sets on all SMs and slices: needs about"),
    ("predict spmv --param N=1000000000", "spmv: matrix: N=1000000000, DEGREE=16: the product must be below 214748"),
    ("predict spmv --param N=100000000", "spmv: matrix: N=100000000, DEGREE=16: needs about 155G, more than the 8G"),
    ("predict btree --param N=500000000", "btree: N=500000000, M=4096: needs about"),
    ("predict ss --param N=16383", "ss: N=16383: needs about"),
    ("predict vectoradd --param N=1000000000000", "grid"),
]


@pytest.mark.parametrize(("line", "message"), BEYOND)
def test_a_size_beyond_all_measure_is_refused_before_anything_is_made(run, monkeypatch, line, message):
    room = 1 if "ss --param" in line else 8
    monkeypatch.setattr(memory, "room_bytes", lambda: room << 30)
    status, out, err = run(*line.split())
    assert (status, out) == (2, "")
    assert message in err
    assert re.fullmatch(r"rdmodel: error: .*\n", err)
