"""Dealing of blocks to SMs and occupancy of an SM, against block-by-block oracles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import presets
from rdmodel.errors import ConfigError, LaunchError
from rdmodel.gpu.config import GPU, CacheConfig
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.model.dealing import cap_blocks, deal, modelled_blocks
from rdmodel.model.options import Options
from rdmodel.policies import Linear
from rdmodel.trace import WARP, Launch
from tests.support.plain_dealing import deal_one_by_one

L1 = CacheConfig(size=4096, ways=4, index=Linear())
FERMI = GPU(name="fermi", sms=14, max_threads=1536, max_blocks=8, max_warps=48, l1=L1)


def make_launch(block=(32, 1, 1), grid=(100, 1, 1), **needs: int) -> Launch:
    return Launch(kernel="k", grid=grid, block=block, **needs)


# ---- occupancy


def usage(launch: Launch, unit: int) -> dict[str, int]:
    """Count what one block occupies: thread by thread, warp by warp; the registers are those of a warp, in units."""
    x, y, z = launch.block
    threads = sum(1 for _ in range(x) for _ in range(y) for _ in range(z))
    registers = 0
    while registers < WARP * launch.registers:
        registers += unit
    return {
        "blocks": 1,
        "threads": threads,
        "warps": len({thread // WARP for thread in range(threads)}),
        "registers": registers,
        "shared memory": launch.shared_memory,
    }


def give_registers(files: list[int], one: dict[str, int], size: int) -> bool:
    """Give the warps of a block registers, each from the file of which least is taken; return whether all get some."""
    for _ in range(one["warps"]):
        files[files.index(min(files))] += one["registers"]
    return max(files) <= size


def fit_one_by_one(one: dict[str, int], gpu: GPU) -> tuple[int, set[str]]:
    """Add blocks as long as no resource is exceeded; return their number, and the resources that the next one lacks."""
    limits = {
        "blocks": gpu.max_blocks,
        "threads": gpu.max_threads,
        "warps": gpu.max_warps,
        "shared memory": gpu.shared_memory,
    }
    files, size = [0] * gpu.register_files, gpu.registers // gpu.register_files
    count = 0
    while True:
        lacking = {name for name, limit in limits.items() if (count + 1) * one[name] > limit}
        if not give_registers(files, one, size):
            lacking.add("registers")
        if lacking:
            return count, lacking
        count += 1


LAUNCHES = st.builds(
    make_launch,
    block=st.tuples(st.integers(1, 40), st.integers(1, 6), st.integers(1, 3)),
    registers=st.integers(0, 70),
    shared_memory=st.integers(0, 5000),
)
GPUS = st.builds(
    GPU,
    name=st.just("any"),
    sms=st.just(2),
    max_threads=st.integers(1, 2000),
    max_blocks=st.integers(1, 12),
    max_warps=st.integers(1, 64),
    registers=st.integers(1, 40000),
    register_unit=st.sampled_from([1, 64, 100, 256, 512]),
    register_files=st.sampled_from([1, 2, 4]),
    shared_memory=st.integers(0, 20000),
    max_block_threads=st.integers(300, 1024),
    l1=st.just(L1),
)


@given(LAUNCHES, GPUS)
def test_residency_is_how_many_blocks_can_be_added_before_a_resource_runs_out(launch, gpu):
    one = usage(launch, gpu.register_unit)
    fitting, lacking = fit_one_by_one(one, gpu)
    # A launch is checked as if each file gave registers to equally many warps.
    whole = {**one, "warps": -(-one["warps"] // gpu.register_files) * gpu.register_files}
    refused = not give_registers([0] * gpu.register_files, whole, gpu.registers // gpu.register_files)
    if one["threads"] > gpu.max_block_threads or fitting == 0 or refused:
        with pytest.raises(LaunchError):
            compute_occupancy(launch, gpu)
        return
    found = compute_occupancy(launch, gpu)
    assert found.blocks == fitting
    assert found.limiter in lacking


@pytest.mark.parametrize(
    ("launch", "limits", "message"),
    [
        (make_launch(block=(65, 4, 4)), {}, "1040 threads, fermi allows at most 1024 per block"),
        (make_launch(block=(64, 1, 1)), {"max_threads": 63}, "needs 64 threads, an SM of fermi has 63"),
        (make_launch(block=(33, 1, 1)), {"max_warps": 1}, "needs 2 warps, an SM of fermi has 1"),
        (make_launch(registers=3), {"registers": 127}, "needs 128 registers, an SM of fermi has 127"),
        (make_launch(shared_memory=49153), {}, "needs 49153 bytes of shared memory, an SM of fermi has 49152"),
    ],
)
def test_a_block_that_does_not_fit_is_refused_with_the_limit_it_breaks(launch, limits, message):
    with pytest.raises(LaunchError, match=message):
        compute_occupancy(launch, FERMI.replace(**limits))


def test_a_partial_warp_occupies_a_whole_warp_and_its_registers():
    gpu = FERMI.replace(registers=2 * 1024, register_unit=1)
    assert compute_occupancy(make_launch(block=(33, 1, 1), registers=32), gpu).blocks == 1
    assert compute_occupancy(make_launch(block=(32, 1, 1), registers=32), gpu).blocks == 2


@pytest.mark.parametrize(
    ("threads", "registers", "blocks"),
    # 65,536 registers in four files: 16,384 give 9 warps 1,792 registers each, 7 warps 2,304, and one warp 8,192.
    [(32, 55, 32), (64, 55, 18), (96, 55, 12), (160, 55, 7), (64, 70, 14), (192, 70, 4), (32, 255, 8), (96, 255, 2)],
)
def test_warps_take_registers_from_the_file_of_their_sub_core(threads, registers, blocks):
    assert (
        compute_occupancy(make_launch(block=(threads, 1, 1), registers=registers), presets.gpu("h200")).blocks == blocks
    )


def test_a_block_whose_warps_fit_only_unevenly_is_refused():
    # 9 warps of 7,168 registers need 64,512 in all, but a file of 16,384 has enough for two of them only.
    launch = make_launch(block=(288, 1, 1), registers=224)
    with pytest.raises(LaunchError, match="it needs 86016 registers, an SM of h200 has 65536"):
        compute_occupancy(launch, presets.gpu("h200"))


def test_unknown_registers_and_shared_memory_limit_nothing():
    tight = FERMI.replace(registers=1, shared_memory=0)
    assert compute_occupancy(make_launch(), tight).blocks == 8
    assert compute_occupancy(make_launch(), tight).limiter == "blocks"


# ---- numbering and dealing


def resolved(**options: object) -> Options:
    return Options(**options).resolve(FERMI)


GRIDS = st.tuples(st.integers(1, 12), st.integers(1, 5), st.integers(1, 3))


@given(
    GRIDS,
    st.sampled_from([(32, 1, 1), (33, 1, 1), (16, 4, 2)]),
    st.integers(3, 9),
    st.sampled_from([1, 2, 3, "all"]),
    st.one_of(st.none(), st.integers(128, 1000)),
    st.one_of(st.none(), st.integers(1, 200)),
)
def test_blocks_are_dealt_in_grid_order_to_the_sms_in_turn(grid, block, sms, model_sms, threads, blocks):
    launch = make_launch(block=block, grid=grid)
    options = resolved(sms=sms, model_sms=model_sms, threads=threads, blocks=blocks)
    want = deal_one_by_one(launch, options)
    assert [list(ids) for ids in deal(launch, options)] == want
    assert list(modelled_blocks(launch, options)) == sorted(block for ids in want for block in ids)


@given(GRIDS, st.integers(1, 20))
def test_all_sms_together_get_every_block_once(grid, sms):
    launch = make_launch(grid=grid)
    dealt = deal(launch, resolved(sms=sms, model_sms="all", threads=None))
    assert sorted(block for ids in dealt for block in ids) == list(range(launch.blocks))
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


def test_by_default_one_sm_of_the_gpu_gets_at_most_8192_threads():
    dealt = deal(make_launch(block=(256, 1, 1), grid=(10_000, 1, 1)), resolved())
    assert [list(ids) for ids in dealt] == [list(range(0, 32 * 14, 14))]


def test_threads_are_cut_to_whole_blocks():
    launch = make_launch(block=(96, 1, 1))
    assert cap_blocks(launch, resolved(threads=287)) == 2
    assert cap_blocks(launch, resolved(threads=288)) == 3
    assert cap_blocks(launch, resolved(threads=None)) == launch.blocks


def test_fewer_threads_than_one_block_is_an_error_that_names_both():
    with pytest.raises(ConfigError, match="threads=95: must be at least 96, the threads of one block"):
        cap_blocks(make_launch(block=(96, 1, 1)), resolved(threads=95))


def test_a_grid_smaller_than_the_sms_leaves_some_without_blocks():
    dealt = deal(make_launch(grid=(3, 1, 1)), resolved(model_sms=5))
    assert [list(ids) for ids in dealt] == [[0], [1], [2], [], []]


def test_a_huge_grid_is_dealt_without_writing_it_out():
    launch = make_launch(grid=(2**31 - 1, 65535, 1))
    ids = modelled_blocks(launch, resolved(threads=None, blocks=2**40))
    assert (ids[0], ids[1], len(ids)) == (0, 14, -(-(2**40) // 14))


# ---- the launch itself


def test_a_launch_counts_threads_warps_and_blocks():
    launch = make_launch(block=(33, 2, 1), grid=(3, 4, 5))
    assert (launch.block_threads, launch.block_warps, launch.blocks, launch.threads) == (66, 3, 60, 3960)


@pytest.mark.parametrize("shape", [(0, 1, 1), (1, -1, 1), (1, 1), (1, 1, 1, 1), (1.5, 1, 1), (1.0, 1, 1), 5])
@pytest.mark.parametrize("name", ["grid", "block"])
def test_shapes_that_no_launch_has_are_refused(name, shape):
    with pytest.raises(LaunchError, match=f"^{name}=.*needs three dimensions of at least 1$"):
        make_launch(**{name: shape})


@pytest.mark.parametrize("value", [-1, 1.5, float("nan"), "many", True])
@pytest.mark.parametrize("name", ["registers", "shared_memory"])
def test_needs_that_are_no_whole_numbers_are_refused(name, value):
    with pytest.raises(LaunchError, match=f"^{name}={value}: must be a whole number of at least 0"):
        make_launch(**{name: value})


def test_numpy_integers_become_plain_ones():
    launch = make_launch(grid=np.array([2, 3, 4]), registers=np.int32(20))
    assert launch == make_launch(grid=(2, 3, 4), registers=20)
    assert {type(n) for n in (*launch.grid, launch.registers)} == {int}
