"""Rankings in the forms of other tools, checked with the tools themselves where they are installed."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel.errors import ConfigError, LaunchError, RdmodelError
from rdmodel.integrations import candidates, kernel_tuner, optuna, ppcg, triton


@dataclass(frozen=True)
class Ranked:
    rank: int
    tile: object
    value: float


@dataclass(frozen=True)
class Ranking:
    tiles: tuple[Ranked, ...]
    infeasible: tuple[object, ...] = ()


def ranking(*tiles: tuple[object, float]) -> Ranking:
    """Return tiles, in order, with the ranks that their values give them."""
    values = [value for _, value in tiles]
    return Ranking(tuple(Ranked(1 + values.index(value), tile, value) for tile, value in tiles))


SIX = ranking(
    ({"TI": 32, "TJ": 32}, 100.0),
    ({"TI": 16, "TJ": 64}, 104.0),
    ({"TI": 16, "TJ": 32}, 104.0),
    ({"TI": 8, "TJ": 64}, 110.0),
    ({"TI": 8, "TJ": 32}, 150.0),
    ({"TI": 32, "TJ": 64}, 400.0),
)
SIZES = {"TI": [8, 16, 32], "TJ": [32, 64]}


def sizes_of(tile) -> tuple[int, int]:
    return tile["TI"], tile["TJ"]


# ---- what is taken from a ranking


@pytest.mark.parametrize(
    ("top", "within", "count"),
    [(None, None, 6), (1, None, 1), (2, None, 3), (3, None, 3), (None, 0, 1), (None, 0.04, 3), (4, 0.01, 4), (1, 9, 6)],
)
def test_tiles_are_kept_by_rank_and_by_share_ties_included(top, within, count):
    assert candidates.select_tiles(SIX, top, within) == list(SIX.tiles[:count])


def test_a_share_of_a_negative_value_is_above_it():
    below = ranking(({"T": 1}, -10.0), ({"T": 2}, -9.5), ({"T": 3}, -8.0))
    assert [one.tile["T"] for one in candidates.select_tiles(below, None, 0.1)] == [1, 2]


@pytest.mark.parametrize(
    ("top", "within", "named"), [(0, None, "top=0"), (None, -0.1, "within=-0.1"), (1.5, None, "top")]
)
def test_what_means_nothing_is_refused(top, within, named):
    with pytest.raises(ConfigError, match=named):
        candidates.select_tiles(SIX, top, within)


def test_a_ranking_without_tiles_is_refused_with_the_reason():
    nothing = Ranking((), (SimpleNamespace(tile={"T": 1}, reason="block: too many threads"),))
    with pytest.raises(ConfigError, match="no tile can run: block: too many threads"):
        kernel_tuner.restrictions(nothing, {"T": [1]})


def test_a_ranking_has_no_tiles_or_options_beside_it():
    with pytest.raises(ConfigError, match="tiles, gpu: cannot be combined with a ranking"):
        candidates.ranking_of(SIX, [], {"gpu": "x"})
    with pytest.raises(ConfigError, match="tiles: are missing"):
        candidates.ranking_of(lambda tile: None, None, {})
    with pytest.raises(ConfigError, match="must be a ranking"):
        candidates.ranking_of(3, None, {})


def test_a_block_shape_is_taken_apart_and_names_are_replaced():
    assert candidates.flatten_tile({"TI": 8, "block": [32, 4]}) == {"TI": 8, "block_size_x": 32, "block_size_y": 4}
    names = {"TI": "tile_i", "block": ("bx", "by")}
    assert candidates.flatten_tile({"TI": 8, "block": (32, 4)}, names) == {"tile_i": 8, "bx": 32, "by": 4}


@pytest.mark.parametrize(
    ("tile", "names", "named"),
    [
        (8, None, "tile 8: must be a mapping"),
        ({"TI": 8}, {"TJ": "x"}, "names: unknown size 'TJ'"),
        ({"TI": 8}, {"TI": ("x", "y")}, "cannot be renamed"),
        ({"block": [8, 8]}, {"block": "x"}, "cannot be renamed"),
        ({"block": [8, 8]}, {"block": ("x",)}, "cannot be renamed"),
        ({"shape": [8, 8]}, None, "cannot be renamed"),
    ],
)
def test_names_that_do_not_fit_are_refused(tile, names, named):
    with pytest.raises(ConfigError, match=named):
        candidates.flatten_tile(tile, names)


def test_no_tool_is_imported():
    code = (
        "import sys; from rdmodel.integrations import kernel_tuner, optuna, ppcg, triton; "
        "print({'triton', 'kernel_tuner', 'optuna', 'islpy', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "triton" not in done.stdout and "tuner" not in done.stdout and "optuna" not in done.stdout


# ---- Kernel Tuner


def test_restrictions_take_a_configuration_in_every_form():
    keep = kernel_tuner.restrictions(SIX, {"vector": [1, 2], "TJ": [32, 64], "TI": [8, 16, 32]}, top=2)
    good = {(32, 32), (16, 64), (16, 32)}
    for ti, tj, vector in itertools.product(SIZES["TI"], SIZES["TJ"], [1, 2]):
        config = {"vector": vector, "TJ": tj, "TI": ti}
        wanted = (ti, tj) in good
        assert keep(config) is keep(**config) is keep(vector, tj, ti) is wanted


def test_tiles_that_were_not_ranked_are_not_kept():
    assert kernel_tuner.restrictions(SIX, {"TI": [8, 4], "TJ": [32]})(4, 32) is False


def test_one_parameter_is_enough():
    keep = kernel_tuner.restrictions(ranking(({"T": 8}, 1.0), ({"T": 9}, 2.0)), {"T": [8, 9]}, top=1)
    assert [keep(8), keep(9), keep({"T": 8}), keep(T=9)] == [True, False, True, False]


@pytest.mark.parametrize(
    ("tune_params", "named"),
    [
        ({"TI": [8], "Tj": [32]}, "tune_params: unknown size of a tile 'TJ'; did you mean 'Tj'"),
        ({"TI": [1], "TJ": [32]}, "cannot form any of the 6 selected tiles"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(tune_params, named):
    with pytest.raises(ConfigError, match=named):
        kernel_tuner.restrictions(SIX, tune_params)


def test_tiles_of_different_sizes_are_refused():
    with pytest.raises(ConfigError, match="tiles: one has TJ, the first TI: must be equal"):
        kernel_tuner.restrictions(ranking(({"TI": 1}, 1.0), ({"TJ": 1}, 2.0)), {"TI": [1], "TJ": [1]})


def searchspace(tune_params, restrictions, max_threads=1024, **options):
    """Return the configurations of Kernel Tuner's search space, and the space."""
    pytest.importorskip("kernel_tuner")
    from kernel_tuner.searchspace import Searchspace

    space = Searchspace(tune_params, restrictions, max_threads, **options)
    return {tuple(config) for config in space.list}, space


@pytest.mark.parametrize("framework", ["PythonConstraint", "bruteforce"])
@pytest.mark.parametrize("listed", [False, True])
def test_kernel_tuner_searches_the_tiles_that_are_kept(framework, listed):
    tune_params = {"vector": [1, 2], "TJ": [32, 64], "TI": [8, 16, 32]}
    keep = kernel_tuner.restrictions(SIX, tune_params, within=0.05)
    found, _ = searchspace(tune_params, [keep] if listed or framework == "bruteforce" else keep, framework=framework)
    assert found == {(vector, tj, ti) for vector in (1, 2) for ti, tj in ((32, 32), (16, 64), (16, 32))}


def test_kernel_tuner_takes_them_beside_other_restrictions_and_checks_configurations_by_them():
    pytest.importorskip("kernel_tuner")
    from kernel_tuner.util import check_restrictions

    tune_params = {"block_size_x": [32, 64], "block_size_y": [8, 16, 32]}
    blocks = ranking(*[({"block": [x, y]}, float(x * y)) for y in (8, 16, 32) for x in (32, 64)])
    keep = kernel_tuner.restrictions(blocks, tune_params)
    found, space = searchspace(tune_params, [keep, "block_size_y >= 16"], max_threads=1024)
    assert found == {(32, 16), (64, 16), (32, 32)}
    assert check_restrictions(space._modified_restrictions, {"block_size_x": 64, "block_size_y": 16}, False)
    assert not check_restrictions(space._modified_restrictions, {"block_size_x": 64, "block_size_y": 8}, False)
    assert check_restrictions(keep, {"block_size_x": 64, "block_size_y": 8}, False)


def test_kernel_tuner_takes_them_as_a_function_of_a_dict():
    keep = kernel_tuner.restrictions(SIX, SIZES, top=1)

    def one(config):
        return keep(config)

    found, _ = searchspace(SIZES, one)
    assert found == {(32, 32)}


# ---- Optuna


def test_the_best_tiles_are_enqueued_in_order():
    enqueued = []
    study = SimpleNamespace(enqueue_trial=lambda params, **options: enqueued.append((params, options)))
    assert optuna.enqueue(study, SIX, top=2, names={"TI": "tile_i"}) == 3
    assert [params for params, _ in enqueued] == [
        {"tile_i": 32, "TJ": 32},
        {"tile_i": 16, "TJ": 64},
        {"tile_i": 16, "TJ": 32},
    ]
    assert enqueued[1][1] == {"user_attrs": {"rdmodel_rank": 2, "rdmodel_value": 104.0}, "skip_if_exists": True}


def test_the_first_trials_of_a_study_are_the_best_tiles():
    package = pytest.importorskip("optuna")
    package.logging.set_verbosity(package.logging.ERROR)
    study = package.create_study(sampler=package.samplers.RandomSampler(seed=0))
    assert optuna.enqueue(study, SIX, top=4) == 4
    assert optuna.enqueue(study, SIX, top=1) == 1  # is there already

    def objective(trial):
        return trial.suggest_categorical("TI", SIZES["TI"]) * trial.suggest_int("TJ", 32, 64, step=32)

    study.optimize(objective, n_trials=6)
    assert [sizes_of(trial.params) for trial in study.trials[:4]] == [sizes_of(one.tile) for one in SIX.tiles[:4]]
    assert len(study.trials) == 6
    assert study.trials[0].user_attrs == {"rdmodel_rank": 1, "rdmodel_value": 100.0}
    assert optuna.enqueue(study, SIX, top=4) == 4
    assert len(study.trials) == 6


# ---- PPCG


def test_sizes_are_written_outermost_first():
    best = {"TI": 16, "TJ": 32, "block": [32, 8], "GY": 4}
    assert ppcg.sizes(best, tile=["TI", "TJ"]) == "{ kernel[0] -> tile[16, 32]; kernel[0] -> block[8, 32] }"
    assert (
        ppcg.sizes(best, tile=["TJ"], block=["TI"], grid=["GY", "GY"], kernel=3)
        == "{ kernel[3] -> tile[32]; kernel[3] -> block[16]; kernel[3] -> grid[4, 4] }"
    )
    assert ppcg.sizes({"T": np.int64(8)}, tile=["T"]) == "{ kernel[0] -> tile[8] }"
    assert ppcg.sizes(SIX, tile=["TI", "TJ"]) == "{ kernel[0] -> tile[32, 32] }"


def test_sizes_of_several_kernels_are_joined():
    first, second = ppcg.sizes({"T": 8}, tile=["T"]), ppcg.sizes({"T": 9, "B": 2}, tile=["T"], block=["B"], kernel=1)
    both = "{ kernel[0] -> tile[8]; kernel[1] -> tile[9]; kernel[1] -> block[2] }"
    assert ppcg.join(first, second) == both
    assert ppcg.join(both) == both


@pytest.mark.parametrize(
    ("best", "options", "named"),
    [
        ({"TI": 8}, {}, "tile, block, grid: name at least one of TI"),
        ({"TI": 8}, {"tile": ["TJ"]}, "unknown size 'TJ'"),
        ({"TI": 8}, {"tile": "TI"}, "must be a list of names"),
        ({"TI": 0}, {"tile": ["TI"]}, "TI=0: must be at least 1"),
        ({"TI": 1.5}, {"tile": ["TI"]}, "TI=1.5: must be a whole number"),
        ({"TI": True}, {"tile": ["TI"]}, "TI=True: must be a whole number"),
        ({"TI": 8}, {"tile": ["TI"], "kernel": -1}, "kernel=-1"),
        ({"T": 8}, {"block": ["T"] * 4}, "block: 4 sizes; PPCG has at most 3"),
        ({"T": 8}, {"grid": ["T"] * 3}, "grid: 3 sizes; PPCG has at most 2"),
    ],
)
def test_sizes_that_ppcg_does_not_have_are_refused(best, options, named):
    with pytest.raises(ConfigError, match=named):
        ppcg.sizes(best, **options)


SIZE = st.integers(1, 1 << 30)


@given(st.lists(SIZE, max_size=5), st.lists(SIZE, max_size=3), st.lists(SIZE, max_size=2), st.integers(0, 99))
def test_isl_reads_the_sizes_that_were_meant(tile, block, grid, kernel):
    islpy = pytest.importorskip("islpy")
    best = {
        f"{space}{n}": size
        for space, all_ in zip("tbg", (tile, block, grid), strict=True)
        for n, size in enumerate(all_)
    }
    if not best:
        return
    named = {s: [f"{s[0]}{n}" for n in range(len(v))] for s, v in (("tile", tile), ("block", block), ("grid", grid))}
    union = islpy.UnionMap(ppcg.sizes(best, **named, kernel=kernel))
    found = {}
    for one in isl_maps(union):
        assert one.domain().is_equal(islpy.Set(f"{{ kernel[{kernel}] }}"))
        sizes = one.range()
        point = sizes.sample_point()
        assert sizes.is_singleton()
        found[sizes.get_tuple_name()] = [
            int(point.get_coordinate_val(islpy.dim_type.set, at).to_python())
            for at in range(sizes.dim(islpy.dim_type.set))
        ]
    assert found == {space: sizes for space, sizes in (("tile", tile), ("block", block), ("grid", grid)) if sizes}


def isl_maps(union):
    maps = []
    union.foreach_map(maps.append)
    return maps


# ---- Triton


class Tensor:
    """What Triton's autotuner looks at of a tensor."""

    dtype = "float32"

    def __init__(self, *shape: int) -> None:
        self.shape = shape


GEMM = {
    "name": "rows",
    "parameters": {"N": 512, "T": 32},
    "arrays": {"A": ["N", "N"]},
    "block": ["T", 4],
    "threads": ["N", "N"],
    "body": [{"if": ["x < N", "y < N"], "do": [{"load": "A", "at": ["x", "y"]}]}],
}


def misses(prediction) -> float:
    return prediction.misses.total


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


def test_time_is_in_milliseconds_of_the_gpus_clock(monkeypatch):
    monkeypatch.setattr(candidates, "rank", lambda *arguments, **options: ranking((arguments[1][0], 3_000_000.0)))
    for gpu in ("gtx470-16k", "gtx480-khairy"):
        clock = rd.presets.gpu(gpu).clock
        assert triton.perf_model(affine, gpu)(N=64, BLOCK=32) == pytest.approx(3e6 / (clock * 1e6) * 1e3)
        assert triton.perf_model(affine, gpu, objective="dram_bytes")(N=64, BLOCK=32) == 3e6


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
    model = triton.perf_model(GEMM, names={"T": "BLOCK"}, objective=misses)
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


# ---- ranking on the way


def test_every_integration_ranks_tiles_itself():
    tiles = {"T": [4, 8, 32, 512]}
    options = {"gpu": "gtx470-16k", "objective": misses}

    def make(tile):
        return tracegen.affine_kernel(GEMM, N=96, **tile)

    ranked = candidates.rank(make, tiles, **options)
    order = [one.tile["T"] for one in ranked.tiles]
    assert sorted(order) == [4, 8, 32]
    keep = kernel_tuner.restrictions(make, tiles, tiles=tiles, top=1, **options)
    best = {one.tile["T"] for one in ranked.tiles if one.rank == 1}
    assert {size for size in tiles["T"] if keep(size)} == best
    assert ppcg.sizes(make, tiles=tiles, tile=["T"], **options) == f"{{ kernel[0] -> tile[{order[0]}] }}"
    enqueued = []
    study = SimpleNamespace(enqueue_trial=lambda params, **_: enqueued.append(params["T"]))
    optuna.enqueue(study, make, tiles=tiles, **options)
    assert enqueued == order
