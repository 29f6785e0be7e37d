"""`rdmodel tiles` of CUDA programs: their macros, their launches, and every mistake in one line."""

from __future__ import annotations

import json

import pytest

import rdmodel as rd
from tracegen import cuda
from tracegen.cuda import nvrtc

pytestmark = pytest.mark.skipif(nvrtc.load_nvrtc() is None, reason="needs NVRTC: pip install 'rdmodel[cuda]'")

TRANSPOSE = """
__global__ void transpose(int n, const float* in, float* out) {
    __shared__ float tile[T][T + PAD];
    int x = blockIdx.x * T + threadIdx.x, y = blockIdx.y * T + threadIdx.y;
    for (int i = 0; i < T; i += ROWS) tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * n + x];
    __syncthreads();
    x = blockIdx.y * T + threadIdx.x, y = blockIdx.x * T + threadIdx.y;
    for (int i = 0; i < T; i += ROWS) out[(y + i) * n + x] = tile[threadIdx.x][threadIdx.y + i];
}
"""
SIZES = ("--tile", "T=16,32", "--tile", "ROWS=8,32", "--tile", "PAD=0,1", "--where", "ROWS <= T")
LAUNCH = ("--grid", "(n + T - 1) // T,n // T", "--block", "T,min(ROWS, T)")
ARGUMENTS = ("--arg", "n=256", "--arg", "in=float[65536]", "--arg", "out=float[65536]")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "transpose.cu"
    path.write_text(TRANSPOSE)
    return str(path)


def test_the_tiles_of_a_program_are_ranked_by_the_time_of_each_launch(run, source):
    status, out, _ = run(
        "tiles", source, *SIZES, *LAUNCH, *ARGUMENTS, "--objective", "time", "--gpu", "a4000", "--json"
    )
    assert status == 0
    rows = json.loads(out)["tiles"]
    assert sorted(tuple(row["tile"].values()) for row in rows) == [
        (16, 8, 0), (16, 8, 1), (32, 8, 0), (32, 8, 1), (32, 32, 0), (32, 32, 1),
    ]  # fmt: skip
    assert [row["value"] for row in rows] == sorted(row["value"] for row in rows)
    for row in rows:
        t, threads, pad = row["tile"]["T"], row["tile"]["ROWS"], row["tile"]["PAD"]
        arguments = {"n": 256, "in": "float[65536]", "out": "float[65536]"}
        trace = cuda.trace(
            TRANSPOSE,
            None,
            (256 // t, 256 // t),
            (t, threads),
            arguments,
            defines={"T": t, "ROWS": threads, "PAD": pad},
        )
        assert row["value"] == rd.time(trace, "a4000").milliseconds
        assert row["pruned"] is None, "all times are equally good"
    unpadded, padded = ({tuple(r["tile"].values()): r["value"] for r in rows}[32, 32, pad] for pad in (0, 1))
    assert padded < unpadded, "a column of unpadded shared memory is one bank"


STEPS = """
__global__ void steps(int n, float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = x[i];
    for (int step = 0; step < STEPS; step++) value = value * 0.5f + 1;
    x[i] = value;
}
"""


def test_launches_that_do_several_steps_are_ranked_by_the_time_of_each(run, tmp_path):
    (tmp_path / "steps.cu").write_text(STEPS)
    command = ("tiles", str(tmp_path / "steps.cu"), "--tile", "STEPS=1,2,4", "--grid", "n // 128", "--block", "128")
    command += ("--arg", "n=65536", "--arg", "x=float[65536]", "--objective", "time", "--gpu", "a4000", "--no-cache")
    rankings = [json.loads(run(*command, *more, "--json")[1]) for more in ((), ("--per", "STEPS"))]
    whole, each = ({row["tile"]["STEPS"]: row["value"] for row in ranking["tiles"]} for ranking in rankings)
    assert [*whole] == [1, 2, 4]
    assert [*each] == [4, 2, 1]
    assert each == {steps: value / steps for steps, value in whole.items()}
    assert rankings[1]["objective"] == "time per STEPS"
    table = run(*command, "--per", "STEPS")[1]
    assert "steps on a4000: 3 tiles by milliseconds per STEPS, least first (quick)" in table
    assert "STEPS  milliseconds per STEPS" in table


MISTAKES = {
    "--grid 1 --block T --objective time --per T-8 -D ROWS=8 -D PAD=0": "per: returned 0 for T=8: must be a finite num",
    "--grid 1 --block T --objective time --per K -D ROWS=8 -D PAD=0": "'K': unknown name 'K'; known: T",
    "--block T --where T<4": "--grid: is missing; ",
    "--grid 1 --block T --param n=4": "is a CUDA program; --arg gives its arguments and -D its macros",
    "--grid K --block T": "none of 1 can run: 'K': unknown name 'K'; known: T",
    "--grid 1 --block T -D T=4": "T: is a tile size and a macro that is defined; give one of them",
    "--grid 1 --block T*2000 -D ROWS=8 -D PAD=0": "none of 1 can run",
    "--grid 1 --block T": "none of 1 can run: ",
    "--grid 1 --block T --tile block=8x8": "--tile block: is the shape of a kernel's block",
    "--grid 1 --block T --where 8<T": "tiles: must hold at least one tile that meets the condition",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line_and_status_2(run, source, line):
    status, out, err = run("tiles", source, "--tile", "T=8", *line.split())
    assert (status, out) == (2, "")
    assert "Traceback" not in err
    assert MISTAKES[line] in err
