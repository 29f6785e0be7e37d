"""The division of an SM's memory between L1 and shared memory, launch by launch."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import presets
from rdmodel.errors import ConfigError, LaunchError
from rdmodel.gpu.carveout import choose_carveout, fit_to_launch
from rdmodel.gpu.config import GPU, CacheConfig
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.gpu.overrides import override
from rdmodel.policies import Linear
from rdmodel.trace import Launch

KB = 1024
RESERVED = {"shared_memory_unit": 128, "shared_memory_reserved": KB}


def machine(unified: int, choices: tuple[int, ...], threads: int, blocks: int, **changes: int) -> GPU:
    """A GPU whose SM has `unified` KB, of which shared memory gets one of `choices` (KB)."""
    carveouts = tuple(choice * KB for choice in choices)
    size = unified * KB - carveouts[0]
    l1 = CacheConfig(size=size, ways=size // 512, index=Linear(), sector=32, unified=unified * KB, carveouts=carveouts)
    return GPU(
        name="test", sms=2, max_threads=threads, max_warps=threads // 32, max_blocks=blocks, registers=65536,
        register_unit=256, register_files=4, shared_memory=carveouts[-1], l1=l1, **changes,
    )  # fmt: skip


VOLTA = machine(128, (0, 8, 16, 32, 64, 96), 2048, 32, shared_memory_unit=256)
TURING = machine(96, (32, 64), 1024, 16, shared_memory_unit=256)
GA100 = machine(192, (0, 8, 16, 32, 64, 100, 132, 164), 2048, 32, **RESERVED)
GA102 = machine(128, (0, 8, 16, 32, 64, 100), 1536, 16, **RESERVED)
AD102 = machine(128, (0, 8, 16, 32, 64, 100), 1536, 24, **RESERVED)
HOPPER = machine(256, (0, 8, 16, 32, 64, 100, 132, 164, 196, 228), 2048, 32, **RESERVED)


def launch(threads: int = 256, shared: int = 0, registers: int = 0) -> Launch:
    return Launch(kernel="k", grid=(1000, 1, 1), block=(threads, 1, 1), shared_memory=shared, registers=registers)


# Shared memory of a block, resident blocks, and the configuration in KB that profiles show.
PROFILED = [
    pytest.param(GA102, launch(256), "fit", 6, 8, id="RTX 3070, 6 blocks, driver of 2022"),
    pytest.param(GA102, launch(256, KB), "fit", 6, 16, id="RTX 3070, 1 KB, driver of 2022"),
    pytest.param(AD102, launch(256), "auto", 6, 16, id="compute capability 8.9, no shared memory"),
    pytest.param(AD102, launch(256, 1280), "auto", 6, 32, id="compute capability 8.9, 1.28 KB"),
    pytest.param(GA102, launch(256, 4224), "auto", 6, 64, id="RTX 3090, 4.22 KB"),
    pytest.param(GA102, launch(256, 2048), "auto", 6, 64, id="RTX 5090, 2 KB"),
    pytest.param(TURING, launch(256, KB), "auto", 4, 32, id="T4, 1 KB, nothing reserved"),
    pytest.param(TURING, launch(256), "auto", 4, 32, id="RTX 2060, no shared memory"),
    pytest.param(AD102, launch(256, 48 * KB, registers=255), "auto", 1, 64, id="RTX 4090, CUTLASS, 48 KB"),
]


@pytest.mark.parametrize(("gpu", "run", "rule", "blocks", "kilobytes"), PROFILED)
def test_the_rules_choose_what_profiles_show(gpu, run, rule, blocks, kilobytes):
    gpu = gpu.replace(l1=gpu.l1.with_carveout(rule))
    assert compute_occupancy(run, gpu).blocks == blocks
    assert choose_carveout(run, gpu) == kilobytes * KB


@pytest.mark.parametrize(
    ("gpu", "run", "carveout", "size"),
    [
        (VOLTA, launch(1024), 0, 128),  # nothing is reserved before compute capability 8.0
        (VOLTA, launch(512, 8 * KB), 64, 64),  # twice the memory of four blocks
        (VOLTA, launch(1024, 8 * KB), 16, 112),  # blocks of 1,024 threads get it once
        (VOLTA, launch(64, 3 * KB), 96, 32),  # 32 blocks of 3 KB need all
        (GA100, launch(1024), 8, 184),
        (GA100, launch(1024, 8 * KB), 32, 160),
        (GA100, launch(32), 32, 160),  # twice the memory of 32 blocks would be that of more than an SM can have
        (GA100, launch(256, 163 * KB), 164, 28),
        (GA102, launch(1024), 8, 120),
        (HOPPER, launch(256), 16, 240),
        (HOPPER, launch(1024, 100 * KB), 228, 28),  # two blocks, 202 KB
    ],
)
def test_the_l1_gets_what_the_blocks_of_a_launch_leave(gpu, run, carveout, size):
    fitted = fit_to_launch(gpu, run)
    assert (fitted.l1.carveout, fitted.l1.size) == (carveout * KB, size * KB)
    assert (fitted.l1.sets, fitted.l1.sector) == (gpu.l1.sets, 32)
    assert compute_occupancy(run, fitted).blocks == compute_occupancy(run, gpu).blocks
    assert fit_to_launch(fitted, run) == fitted


def test_a_carve_out_may_be_chosen():
    run = launch(256, 10 * KB)
    expected = {"auto": (8, 100), "fit": (8, 100), "max-l1": (1, 16), "max-shared": (8, 164), 32 * KB: (2, 32)}
    for carveout, (blocks, kilobytes) in expected.items():
        gpu = GA100.replace(l1=GA100.l1.with_carveout(carveout))
        assert compute_occupancy(run, gpu).blocks == blocks, carveout
        assert choose_carveout(run, gpu) == kilobytes * KB, carveout


def test_a_block_that_the_largest_carve_out_cannot_hold_is_refused():
    with pytest.raises(LaunchError, match=r"a block takes 168960 bytes \(167936 of its own and 1024 that the driver"):
        fit_to_launch(GA100, launch(256, 164 * KB))
    with pytest.raises(LaunchError, match="the largest carve-out of test has 98304"):
        fit_to_launch(VOLTA, launch(256, 96 * KB + 1))
    assert fit_to_launch(VOLTA, launch(256, 96 * KB)).l1.size == 32 * KB
    chosen = GA100.replace(l1=GA100.l1.with_carveout(8 * KB))
    with pytest.raises(LaunchError, match=r"carveout=8192: a block takes 11264 bytes .*; choose one of 16384, 32768, "):
        fit_to_launch(chosen, launch(256, 10 * KB))


def test_an_l1_with_memory_of_its_own_stays_as_it_is():
    l1 = CacheConfig(size=4096, ways=4, index=Linear())
    fermi = GPU(name="fermi", sms=14, max_threads=1536, max_blocks=8, max_warps=48, l1=l1)
    assert fit_to_launch(fermi, launch(shared=4096)) is fermi
    assert choose_carveout(launch(shared=4096), fermi) == 49152
    with pytest.raises(ConfigError, match="carveout='max-l1': the L1 has memory of its own"):
        l1.with_carveout("max-l1")
    with pytest.raises(ConfigError, match=r"l1\.carveout='max-l1': needs unified"):
        override(fermi, {"l1.carveout": "max-l1"})


def test_a_new_carve_out_changes_the_size_of_the_l1():
    assert override(GA100, {"l1.carveout": "8K"}).l1 == GA100.l1.with_carveout(8192)
    assert override(GA100, {"l1.carveout": "max-shared"}).l1 == GA100.l1.with_carveout("max-shared")
    fewer = override(GA100, {"l1.carveout": "8K", "l1.ways": "92"})
    assert (fewer.l1.size, fewer.l1.sets) == (184 * KB, 16)
    other = override(GA100, {"l1.unified": "128K", "l1.carveouts": "8K,64K"})
    assert (other.l1.size, other.l1.sets, other.shared_memory) == (120 * KB, 4, 64 * KB)
    assert override(GA100, {"l1.unified": "128K", "l1.carveouts": "[8192, 64K]"}) == other


@pytest.mark.parametrize(("carveout", "number"), [("12K", 12288), ("5000", 5000), ("1M", 1 << 20)])
def test_a_carve_out_that_is_no_choice_is_named_with_the_choices(carveout, number):
    choices = "auto, fit, max-l1, max-shared, 0, 8192"
    with pytest.raises(ConfigError, match=rf"^l1\.carveout={number}: must be one of {choices}"):
        override(GA100, {"l1.carveout": carveout})


@given(st.integers(1, 32), st.integers(0, 170 * KB), st.integers(0, 255))
def test_a_choice_holds_the_blocks_that_the_largest_one_holds(warps, shared, registers):
    run = launch(32 * warps, shared, registers)
    try:
        blocks = compute_occupancy(run, GA100).blocks
    except LaunchError:
        return
    need = blocks * (-(-shared // 128) * 128 + KB)
    fit = choose_carveout(run, GA100.replace(l1=GA100.l1.with_carveout("fit")))
    auto = choose_carveout(run, GA100)
    smaller = [choice for choice in GA100.l1.carveouts if choice < fit]
    assert fit >= need
    assert all(choice < need for choice in smaller)
    assert fit <= auto <= max(fit, next((choice for choice in GA100.l1.carveouts if choice >= 2 * need), 164 * KB))
    assert auto == fit or auto <= 100 * KB, "only what the blocks need takes more than half of the memory"
    assert compute_occupancy(run, fit_to_launch(GA100, run)).blocks == blocks


def test_the_rule_is_that_of_launches_on_an_h100():
    gpu = presets.gpu("h100-sxm")
    with (Path(__file__).parents[3] / "validation/h100/carveouts.csv").open(newline="") as file:
        rows = [tuple(map(int, row.values())) for row in csv.DictReader(file)]
    wrong = [
        (threads, shared) for threads, shared, choice in rows if choose_carveout(launch(threads, shared), gpu) != choice
    ]
    assert len(rows) == 108
    assert wrong == [(448, 0)]
