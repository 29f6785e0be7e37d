"""The option ``--unroll``: every source whose trace is made takes it, and recorded traces refuse it."""

from __future__ import annotations

import json

import rdmodel as rd

LOOP = {"for": "i", "to": 10, "do": [{"load": "A", "at": ["x + i"]}]}
NEST = {"name": "sum", "arrays": {"A": [64]}, "block": [32], "grid": [1], "body": [LOOP, {"store": "A", "at": ["x"]}]}
PTX = """.version 8.0 .target sm_80 .address_size 64 .visible .entry k(.param .u64 A) {
    .reg .b64 %rd<3>; .reg .f32 %f<3>; .reg .b32 %r<2>; .reg .pred %p;
    ld.param.u64 %rd1, [A]; mov.u64 %rd2, %rd1; mov.u32 %r1, 0; mov.f32 %f1, 0f00000000;
    L: ld.global.f32 %f2, [%rd2]; add.f32 %f1, %f1, %f2; add.s64 %rd2, %rd2, 4; add.u32 %r1, %r1, 1;
    setp.lt.u32 %p, %r1, 10; @%p bra L; st.global.f32 [%rd1], %f1; ret; }"""
LAUNCH = 'source = "sum.ptx"\ngrid = 1\nblock = 32\nargs = { A = "float[64]" }\n'
BY_TWO = [0, 0, *[0b11, 0] * 4, 0b11]


def test_every_source_whose_trace_is_made_takes_it(run, tmp_path):
    (tmp_path / "sum.json").write_text(json.dumps(NEST))
    (tmp_path / "sum.ptx").write_text(PTX)
    (tmp_path / "sum.toml").write_text(LAUNCH)
    ptx = ["--grid", "1", "--block", "32", "--arg", "A=float[64]"]
    columns = ["--param", "NI=10", "--param", "NJ=4"]
    for source, options in (("sum.json", []), ("sum.ptx", ptx), ("sum.toml", []), ("gramschmidt.1", columns)):
        name = str(tmp_path / source) if source.startswith("sum") else source
        assert run("trace", name, *options, "--unroll", "2", "-o", str(tmp_path / f"{source}.out"))[0] == 0
        assert rd.load(tmp_path / f"{source}.out").columns.needs.tolist()[:11] == BY_TWO


def test_recorded_traces_and_numbers_that_cannot_be_are_refused(run, tmp_path):
    assert run("trace", "gramschmidt.1", "--param", "NI=10", "-o", str(tmp_path / "t"))[0] == 0
    status, _, err = run("predict", str(tmp_path / "t"), "--unroll", "2")
    assert status != 0
    assert "--unroll" in err
    assert "it takes no such option" in err
    status, _, err = run("predict", "gramschmidt.1", "--unroll", "twice")
    assert status != 0
    assert "unroll='twice': must be a whole number from 1 to 64, or 'none'" in err
