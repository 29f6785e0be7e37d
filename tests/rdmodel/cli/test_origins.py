"""Origins of misses on the command line: ``rdmodel predict --by``."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from rdmodel.cli import main
from rdmodel.cli.text_origins import MAX_SHOWN_ORIGINS

SIZES = [word for name in ("NI", "NJ", "NK") for word in ("--param", f"{name}=64")]

SOURCE = """
__global__ void copy(const float *a, float *b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    b[i] = a[32 * i];  // a line per thread
}
"""


def predict(capsys, *words: str) -> str:
    assert main(["predict", *words, "--gpu", "v100"]) == 0
    return capsys.readouterr().out


def test_tables_of_origins_follow_the_prediction(capsys):
    out = predict(capsys, "gemm", *SIZES, "--by", "array", "--by", "line")
    arrays, lines = (part.splitlines() for part in out.rstrip().split("\n\n")[-2:])
    assert arrays[0].split()[:3] == ["by", "array", "transactions"]
    assert {line.split()[0] for line in arrays[1:]} == {"a", "b", "c"}
    assert lines[0].split()[:2] == ["by", "line"]
    assert re.search(r"polybench.py:\d+ .* a +k.load\(a, i, n\)$", "\n".join(lines), re.MULTILINE)


def test_an_origin_that_is_given_twice_is_shown_once(capsys):
    assert predict(capsys, "gemm", *SIZES, "--by", "array", "--by", "array").count("by array") == 1


def test_json_has_the_origins_that_were_asked_for_with_the_lines_of_the_source(capsys):
    plain = json.loads(predict(capsys, "gemm", *SIZES, "--by", "line", "--json"))
    assert list(plain["by"]) == ["line"]
    assert sum(row["misses"]["total"] for row in plain["by"]["line"]) == plain["misses"]["total"]
    assert {row["source"] for row in plain["by"]["line"]} > {"k.load(a, i, n)", "k.store(c, i, j)"}
    assert list(plain)[-1] == "config"


def test_csv_has_a_row_for_each_origin_of_each_kernel(capsys):
    out = predict(capsys, "gemm", "gemm.tiled", *SIZES, "--by", "array", "--by", "instruction", "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {(row["kernel"], row["by"]) for row in rows} == {
        (kernel, by) for kernel in ("gemm", "gemm.tiled") for by in ("array", "instruction")
    }


def test_csv_cannot_have_metrics_of_kernels_beside_origins(capsys):
    assert main(["predict", "gemm", *SIZES, "--gpu", "v100", "--by", "array", "--csv", "--metrics", "ncu"]) == 2
    assert "a row for each kernel with --metrics, or for each origin with --by" in capsys.readouterr().err


def test_metrics_and_origins_are_shown_together(capsys):
    out = predict(capsys, "gemm", *SIZES, "--by", "array", "--metrics", "ncu")
    assert out.index("l1tex__t_sectors") < out.index("by array")


def test_an_unknown_origin_is_refused_by_name(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["predict", "gemm", "--by", "lines"])
    assert stop.value.code == 2
    assert "did you mean 'line'" in capsys.readouterr().err


def test_lines_of_a_cuda_program_are_those_of_its_file(tmp_path, capsys):
    source = tmp_path / "copy.cu"
    source.write_text(SOURCE)
    words = ["--grid", "2", "--block", "64", "--arg", "a=float[4096]", "--arg", "b=float[128]"]
    out = predict(capsys, str(source), *words, "--by", "line", "--by", "instruction")
    assert re.search(r"^  copy.cu:4 .* a, b +b\[i\] = a\[32 \* i\];  // a line per thread$", out, re.MULTILINE)
    assert re.search(r"^  ld.global.\S* %\w+, \[%rd\d+\] .* a  ", out, re.MULTILINE)


def test_of_many_origins_those_with_most_misses_are_shown(tmp_path, capsys):
    body = [{"load": "a", "at": [f"32*x + {1024 * at}"]} for at in range(MAX_SHOWN_ORIGINS + 5)]
    nest = {"name": "many", "arrays": {"a": [1 << 16]}, "block": [32], "threads": [32], "body": body}
    file = tmp_path / "many.json"
    file.write_text(json.dumps(nest))
    out = predict(capsys, str(file), "--by", "instruction")
    assert out.count("load a[") == MAX_SHOWN_ORIGINS
    assert out.endswith("  and 5 more (--json, --csv)\n")


def test_misses_of_loads_past_the_l1_have_no_cause(capsys):
    assert main(["predict", "gemm", *SIZES, "--gpu", "titan-x-pascal", "--by", "array"]) == 0
    assert "misses include the sectors of loads past the L1, which have no cause" in capsys.readouterr().out


def test_a_source_that_is_gone_leaves_the_lines_without_text(tmp_path, capsys):
    source = tmp_path / "copy.ptx"
    source.write_text(
        '.version 7.0\n.target sm_70\n.address_size 64\n.file 1 "/nowhere/copy.cu"\n'
        ".visible .entry copy(.param .u64 a) {\n.reg .u64 %rd<2>;\n.reg .u32 %r<2>;\n"
        "ld.param.u64 %rd1, [a];\n.loc 1 7 3\nld.global.u32 %r1, [%rd1];\nret;\n}\n"
    )
    out = predict(capsys, str(source), "--grid", "1", "--block", "32", "--arg", "a=int[32]", "--by", "line")
    [line] = [line for line in out.splitlines() if line.startswith("  copy.cu:7")]
    assert line.split()[-1] == "a"
