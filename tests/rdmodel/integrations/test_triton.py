"""Performance models for Triton, checked with Triton where it is installed."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError, LaunchError, RdmodelError
from rdmodel.integrations import candidates, triton
from tests.support.rankings import GEMM, misses, ranking


class Tensor:
    """Stand-in for a tensor: the attributes that Triton's autotuner reads."""

    dtype = "float32"

    def __init__(self, *shape: int) -> None:
        self.shape = shape


def affine(**arguments):
    return tracegen.affine_kernel(GEMM, N=arguments["N"], T=arguments["BLOCK"])


def test_a_model_of_a_function_gets_the_keywords_that_it_names():
    seen = []

    def make(N, BLOCK, *, num_warps=4):
        seen.append((N, BLOCK, num_warps))
        return tracegen.affine_kernel(GEMM, N=N, T=BLOCK)

    model = triton.perf_model(make, objective=misses)
    value = model(a_ptr=Tensor(64, 64), N=64, BLOCK=32, num_warps=8, num_stages=3)
    assert seen == [(64, 32, 8)]
    assert value == candidates.rank(lambda _: affine(N=64, BLOCK=32), [0], objective=misses).tiles[0].value
    model(N=64, BLOCK=32)
    assert seen[1] == (64, 32, 4)


def test_a_function_of_all_keywords_gets_all():
    seen = []

    def make(**arguments):
        seen.append(arguments)
        return affine(**arguments)

    triton.perf_model(make)(N=64, BLOCK=32, num_warps=4)
    assert seen == [{"N": 64, "BLOCK": 32, "num_warps": 4}]


def test_an_affine_kernel_takes_its_parameters_by_name():
    by_name = triton.perf_model(GEMM, names={"T": "BLOCK"}, objective=misses)
    for block in (8, 32, 128):
        wanted = triton.perf_model(affine, objective=misses)(N=256, BLOCK=block)
        assert by_name(x_ptr=Tensor(1), N=np.int64(256), BLOCK=block, num_warps=4) == wanted


def test_cycles_are_given_in_milliseconds_of_the_gpus_clock(monkeypatch):
    monkeypatch.setattr(candidates, "rank", lambda *arguments, **options: ranking((arguments[1][0], 3_000_000.0)))
    for gpu in ("gtx470-16k", "gtx480-khairy"):
        clock = rd.presets.gpu(gpu).clock
        values = {name: triton.perf_model(affine, gpu, objective=name) for name in ("cycles", "time", "dram_bytes")}
        found = {name: model(N=64, BLOCK=32) for name, model in values.items()}
        assert found == {"cycles": pytest.approx(3e6 / (clock * 1e6) * 1e3), "time": 3e6, "dram_bytes": 3e6}


def test_a_launch_that_cannot_run_takes_for_ever():
    assert triton.perf_model(affine)(N=64, BLOCK=1024) == math.inf


def refuse_to_launch(N):
    raise LaunchError("too much shared memory")


def test_a_function_may_say_that_a_launch_cannot_run():
    assert triton.perf_model(refuse_to_launch)(N=1) == math.inf


def fail(N):
    raise ZeroDivisionError("mine")


def strided(N, STEP):
    return tracegen.affine_kernel(GEMM, N=N, T=STEP)


def nothing(N):
    return None


@pytest.mark.parametrize(
    ("kernel", "options", "error", "named"),
    [
        (strided, {}, ConfigError, "perf_model: strided takes 'STEP', which is not among the keywords: N, BLOCK"),
        (fail, {}, ZeroDivisionError, "mine"),
        (nothing, {}, ConfigError, "nothing returned None: must be a trace"),
        ("gemm", {}, ConfigError, "none of the parameters of gemm"),
        (GEMM, {"names": {"T": "TILE"}}, ConfigError, "names: T is to be 'TILE', which is not among the keywords"),
        (GEMM, {"names": {"N": "x_ptr"}}, ConfigError, "x_ptr=.*: must be a whole number"),
    ],
)
def test_mistakes_are_raised_and_not_values(kernel, options, error, named):
    model = triton.perf_model(kernel, **options)
    arguments = {"N": 64} if kernel in (fail, nothing) else {"N": 64, "BLOCK": 32}
    if kernel == "gemm":
        arguments = {"rows": 64}
    with pytest.raises(error, match=named):
        model(**arguments, x_ptr=Tensor(1))


def test_a_trace_that_cannot_be_made_is_an_error():
    beyond = {**GEMM, "body": [{"load": "A", "at": ["x + 1", "y"]}]}
    with pytest.raises(RdmodelError, match="dimension"):
        triton.perf_model(beyond, names={"T": "BLOCK"})(N=64, BLOCK=32)


@pytest.mark.parametrize(
    ("kernel", "options", "named"),
    [
        (3, {}, "kernel=3: must be a function"),
        (GEMM, {"names": {"X": "BLOCK"}}, "names: X: rows has the parameters N, T"),
        (affine, {"names": {"T": "BLOCK"}}, "names: cannot be combined with a function"),
        (affine, {"gpu": "gtx4700"}, "gtx4700"),
        (lambda n, /: n, {}, "must take its arguments by name"),
    ],
)
def test_what_can_be_said_before_tuning_is(kernel, options, named):
    with pytest.raises(RdmodelError, match=named):
        triton.perf_model(kernel, **options)


def blank(x_ptr, y_ptr, N, BLOCK):
    pass


def tuner(package, blocks, prune):
    """Return a kernel that Triton tunes, as it is when it has been called and chooses what to run."""
    configs = [package.Config({"BLOCK": block}, num_warps=warps) for block in blocks for warps in (4, 8)]
    one = package.autotune(configs=configs, key=["N"], prune_configs_by=prune)(package.jit(blank))
    one.nargs = dict(zip(one.arg_names, [Tensor(256, 256), Tensor(256, 256), 256], strict=False))
    return one


def test_triton_prunes_by_the_model():
    package = pytest.importorskip("triton")
    model = triton.perf_model(GEMM, "gtx470-16k", names={"T": "BLOCK"}, objective=misses)
    value = {block: model(N=256, BLOCK=block) for block in (4, 8, 32, 128, 512)}
    assert value[512] == math.inf
    assert len(set(value.values())) > 2
    one = tuner(package, value, {"perf_model": model, "top_k": 4})
    pruned = one.prune_configs({"grid": (1,)})
    order = sorted(value, key=value.get)
    assert [config.kwargs["BLOCK"] for config in pruned] == [order[0], order[0], order[1], order[1]]


def test_triton_raises_what_the_model_raises():
    package = pytest.importorskip("triton")
    one = tuner(package, (8, 32), {"perf_model": triton.perf_model(strided), "top_k": 1})
    with pytest.raises(ConfigError, match="strided takes 'STEP'"):
        one.prune_configs({})


class Jitted:
    """Stand-in for a function with ``@triton.jit``: its parameters by name."""

    def __init__(self, *names: str) -> None:
        self.params = names
        self.fn = blank


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        (Jitted("x"), {}, "grid: must be given for a function with @triton.jit"),
        (affine, {"grid": 4}, "grid: must be left out except for a function with @triton.jit"),
        (Jitted("x"), {"grid": 4, "names": {}}, "names: cannot be combined with a function"),
        (affine, {"pre_hook": print}, "pre_hook: must be left out except for a function with @triton.jit"),
    ],
)
def test_a_grid_belongs_to_a_kernel_of_triton(kernel, options, message):
    with pytest.raises(ConfigError, match=message):
        triton.perf_model(kernel, **options)


def test_triton_prunes_by_the_traffic_of_the_kernel_itself():
    package = pytest.importorskip("triton")
    from tests.support.triton_kernels import transpose

    size = 512
    x = np.zeros((size, size), np.float32)
    model = triton.perf_model(
        transpose, grid=lambda meta: (size // meta["ROWS"], size // meta["COLUMNS"]), objective="misses"
    )
    configs = [package.Config({"ROWS": 64 // columns, "COLUMNS": columns}, num_warps=1) for columns in (1, 8, 64)]
    one = package.autotune(configs=configs, key=["n"], prune_configs_by={"perf_model": model, "top_k": 1})(transpose)
    one.nargs = {"x": x, "y": x.copy(), "n": size}
    assert [config.kwargs["COLUMNS"] for config in one.prune_configs({})] != [1]
