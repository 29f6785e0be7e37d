"""The breadth of CUDA files that compile: outcomes per kernel, classes of failures, and the committed record."""

from __future__ import annotations

import re

import pytest

from tracegen.cuda import nvrtc
from tracegen.cuda.signatures import signatures
from validation.breadth import __main__ as command
from validation.breadth import report
from validation.breadth.classes import classify_log
from validation.breadth.study import Outcome, find_tasks, instances, merge, study_file
from validation.common import records

need_nvrtc = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")

FILES = {
    "good.cu": '#include "part.cuh"\n#include <nowhere.h>\n__global__ void good(float *x) { x[0] = one(); }\n',
    "part.cuh": "__device__ float one() { return 1; }\n__global__ void part(float *x) { x[0] = one(); }\n",
    "made.cu": "const int N = 4;\ntemplate <class T, int n> __global__ void made(T *x) { x[n] = 1; }\n"
    "template <class T> void run(T *x) { made<T, N><<<1, 1>>>(x); }\n",
    "bad.cu": "__global__ void bad(float *x) { x[0] = missing_name; }\n",
    "off.cu": "#ifdef OFF\n__global__ void off(float *x) { x[0] = 1; }\n#endif\n__global__ void on(float *x) {}\n",
    "image.cu": "texture<float> t;\n__global__ void image(float *x) { x[0] = tex1Dfetch(t, 1); }\n",
    "cube.cu": "__global__ void cube(float *x, cudaTextureObject_t t) { x[0] = texCubemap<float>(t, x[1], 0, 1); }\n",
}


@need_nvrtc
def test_each_kernel_of_a_folder_has_an_outcome(tmp_path, monkeypatch, capsys):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    assert [str(task.file) for task in find_tasks("s", tmp_path)] == sorted({*FILES} - {"part.cuh"})
    monkeypatch.setattr("sys.argv", ["breadth", f"s={tmp_path}", "--csv"])
    command.main()
    outcomes = records.from_csv(Outcome, capsys.readouterr().out)
    assert {(o.file, o.kernel): (o.outcome, o.detail) for o in outcomes} == {
        ("good.cu", "good"): ("executable", ""),
        ("part.cuh", "part"): ("executable", ""),
        ("made.cu", "made"): ("executable", ""),
        ("bad.cu", "bad"): ("undeclared name", "missing_name"),
        ("off.cu", "off"): ("left out", ""),
        ("off.cu", "on"): ("executable", ""),
        ("image.cu", "image"): ("executable", ""),
        ("cube.cu", "cube"): ("stops", "tex.cube.v4.f32.f32"),
    }
    table = report.share_table(outcomes)
    assert "| s | 7 | 7 | 6 | 86 % | 5 | 83 % |" in table
    assert "| undeclared name | 1 | `missing_name` 1 |" in report.failure_table(outcomes)


@need_nvrtc
def test_a_file_without_kernels_has_no_outcomes(tmp_path):
    (tmp_path / "host.cu").write_text("int main() { return 0; }\n")
    (task,) = find_tasks("s", tmp_path)
    assert study_file(task) == []


def test_the_best_outcome_of_a_shared_header_counts():
    rows = [Outcome("s", "a.cuh", "k", outcome, "") for outcome in ("undeclared name", "stops", "left out")]
    assert merge(rows) == [rows[1]]
    assert merge([rows[2], rows[0]]) == [rows[0]]


def test_templates_are_tried_with_launched_arguments_and_with_examples():
    (kernel,) = signatures("template <class T, int N, bool fast> __global__ void k(T *x) {}")
    assert kernel.example == "k<float,16,true>"
    assert instances(kernel, ["other<int>", "n::k<T,8,FAST>", "k<double,4,false>"]) == [
        "n::k<float,8,true>",
        "n::k<T,8,FAST>",
        "k<double,4,false>",
        "k<float,16,true>",
    ]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ('k.cu(1): catastrophic error: cannot open source file "a/b.h"\n', ("missing header", "a/b.h")),
        ('k.cu(4): warning #1: w\nk.cu(5): error: identifier "f" is undefined\n', ("undeclared name", "f")),
        ("k.cu(5): error: #error directive: no\n", ("#error", "")),
        ('k.cu(5): error: expected a ";"\n', ("other error", 'expected a "..."')),
        ("the compiler ended", ("other error", "the compiler ended")),
    ],
)
def test_the_first_error_gives_the_class(log, expected):
    assert classify_log(log) == expected


def test_the_recorded_page_is_that_of_the_recorded_outcomes():
    outcomes = records.from_csv(Outcome, report.OUTCOMES.read_text())
    assert report.RESULTS.read_text().endswith(report.pages(outcomes))


def test_the_record_holds_names_only():
    for outcome in records.from_csv(Outcome, report.OUTCOMES.read_text()):
        assert not outcome.file.startswith("/")
        assert re.fullmatch(r"\w+", outcome.kernel)


def test_most_kernels_of_public_suites_compile():
    outcomes = [o for o in records.from_csv(Outcome, report.OUTCOMES.read_text()) if o.outcome != "left out"]
    shares = {}
    for suite in {o.suite for o in outcomes}:
        rows = [o for o in outcomes if o.suite == suite]
        shares[suite] = sum(report.compiles(o) for o in rows) / len(rows)
    assert min(shares[suite] for suite in ("rodinia", "polybench", "shoc")) >= 0.9
    assert sum(report.compiles(o) for o in outcomes) >= 0.7 * len(outcomes)
