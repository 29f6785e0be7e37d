"""The presets since Maxwell: numbers of data sheets and measurements, sources, and names that people type."""

from __future__ import annotations

import re
from importlib import resources

import pytest

import rdmodel as rd
import tracegen
from rdmodel import policies, presets
from rdmodel.errors import ConfigError, LaunchError
from rdmodel.gpu.carveout import fit_to_launch
from rdmodel.gpu.latency import dram_latency, unloaded_latency
from rdmodel.gpu.occupancy import compute_occupancy
from rdmodel.gpu.overrides import OVERRIDE_SOURCE, override
from rdmodel.presets.aliases import ALIASES, AMBIGUOUS, simplify
from rdmodel.trace import Launch

VOLTA = (0, 8, 16, 32, 64, 96)
TURING = (32, 64)
GA100 = (0, 8, 16, 32, 64, 100, 132, 164)
GA10X = (0, 8, 16, 32, 64, 100)
HOPPER = (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)

# Architecture, SMs, warps, blocks, KB of memory for L1 (and shared memory), choices of shared memory in KB, KB of L2,
# GB/s.
PRINTED = {
    "titan-x-maxwell": ("Maxwell", 24, 64, 32, 48, (96,), 3072, 336),
    "p100": ("Pascal", 56, 64, 32, 24, (64,), 4096, 732),
    "titan-x-pascal": ("Pascal", 28, 64, 32, 48, (96,), 3072, 480),
    "v100": ("Volta", 80, 64, 32, 128, VOLTA, 6144, 900),
    "gv100": ("Volta", 80, 64, 32, 128, VOLTA, 6144, 870),
    "t4": ("Turing", 40, 32, 16, 96, TURING, 4096, 320),
    "rtx2080ti": ("Turing", 68, 32, 16, 96, TURING, 5632, 616),
    "titan-rtx": ("Turing", 72, 32, 16, 96, TURING, 6144, 672),
    "a100-40g": ("Ampere", 108, 64, 32, 192, GA100, 40960, 1555),
    "a100-80g": ("Ampere", 108, 64, 32, 192, GA100, 40960, 2039),
    "rtx3070": ("Ampere", 46, 48, 16, 128, GA10X, 4096, 448),
    "rtx3090": ("Ampere", 82, 48, 16, 128, GA10X, 6144, 936),
    "a4000": ("Ampere", 48, 48, 16, 128, GA10X, 4096, 448),
    "a6000": ("Ampere", 84, 48, 16, 128, GA10X, 6144, 768),
    "a40": ("Ampere", 84, 48, 16, 128, GA10X, 6144, 696),
    "rtx4090": ("Ada", 128, 48, 24, 128, GA10X, 73728, 1008),
    "l40": ("Ada", 142, 48, 24, 128, GA10X, 98304, 864),
    "h100-pcie": ("Hopper", 114, 64, 32, 256, HOPPER, 51200, 2039),
    "h100-sxm": ("Hopper", 132, 64, 32, 256, HOPPER, 51200, 3350),
    "h200": ("Hopper", 132, 64, 32, 256, HOPPER, 61440, 4800),
    "b200": ("Blackwell", 148, 64, 32, 256, HOPPER, 129024, 8000),
    "rtx5090": ("Blackwell", 170, 48, 24, 128, GA10X, 98304, 1792),
}  # fmt: skip

# Cycles from a load to its data in the L2 and in DRAM, of GPUs on which they were measured.
MEASURED = {
    "v100": (212, 425), "a100-40g": (205, 533), "a100-80g": (205, 533), "a40": (250, 547), "l40": (274, 619),
    "h100-pcie": (262, 650), "h200": (280, 650),
}  # fmt: skip

ORIGIN = re.compile(
    r"NVIDIA(,|:| engineer)|CUDA C\+\+ Programming Guide|GPGPU-Sim 4 \(|follows from |logs of Nsight Compute"
    r"|[A-Za-z0-9-]+/[a-z0-9-]+@[0-9a-f]+, |inferred|fitted to the simulator by: "
    r"|measured by this project on an H[12]00"
)
REASON = re.compile(r"inferred(, not (measured|checked at the source))?(:| from | to be as )")


@pytest.mark.parametrize("name", PRINTED)
def test_a_preset_has_the_numbers_of_its_data_sheet(name):
    gpu = presets.gpu(name)
    architecture, sms, warps, blocks, unified, choices, l2, bandwidth = PRINTED[name]
    assert (gpu.name, gpu.architecture, gpu.sms) == (name, architecture, sms)
    assert (gpu.max_warps, gpu.max_threads, gpu.max_blocks) == (warps, 32 * warps, blocks)
    assert (gpu.registers, gpu.max_block_threads, gpu.shared_memory) == (65536, 1024, choices[-1] << 10)
    assert gpu.l2.slices * gpu.l2.size == l2 << 10
    assert gpu.l2.slices * gpu.dram.width * gpu.dram.clock / 1000 == pytest.approx(bandwidth, rel=0.02)
    if gpu.l1.unified:
        assert (gpu.l1.unified, gpu.l1.carveouts) == (unified << 10, tuple(choice << 10 for choice in choices))
    else:
        assert gpu.l1.size == unified << 10


@pytest.mark.parametrize("name", PRINTED)
def test_a_preset_has_the_cache_rules_of_its_architecture(name):
    gpu = presets.gpu(name)
    old = gpu.architecture in ("Maxwell", "Pascal")
    assert (gpu.l1.line, gpu.l1.sector, gpu.l2_sector_bytes, gpu.l2.index) == (128, 32, 32, "hash")
    assert (gpu.l1.request_bytes, gpu.l1.tags_per_step) == ((32, 1) if old else (512, 4))
    assert gpu.l1.stores == ("update" if old else "through")
    assert bool(gpu.l1.unified) is not old
    read_only = name in ("titan-x-maxwell", "titan-x-pascal")
    assert gpu.l1.caches == (("nc",) if read_only else ("global", "local", "nc"))
    assert gpu.l2.partitions == (2 if name.startswith(("a100", "h", "b200")) else 1)
    reserves = gpu.architecture in ("Ampere", "Ada", "Hopper", "Blackwell")
    assert (gpu.shared_memory_reserved, gpu.shared_memory_unit) == ((1024, 128) if reserves else (0, 256))
    assert gpu.core.schedulers == (2 if name == "p100" else 4)
    assert gpu.sectored


@pytest.mark.parametrize("name", PRINTED)
def test_every_choice_of_the_carve_out_can_be_modelled(name):
    l1 = presets.gpu(name).l1
    for choice in l1.carveouts:
        resized = l1.with_carveout(choice)
        assert (resized.size, resized.sets) == (l1.unified - choice, l1.sets)


@pytest.mark.parametrize("name", MEASURED)
def test_the_idle_machine_has_the_latencies_that_were_measured(name):
    gpu = presets.gpu(name)
    l2, dram = MEASURED[name]
    assert unloaded_latency(gpu) == l2
    assert unloaded_latency(gpu) + dram_latency(gpu) in (dram, dram + 1)


@pytest.mark.parametrize("name", PRINTED)
def test_the_crossbar_and_the_slices_can_pass_on_what_the_channels_give(name):
    gpu = presets.gpu(name)
    # A response is 8 bytes and a sector, which is one flit.
    assert gpu.crossbar.width == 8 + gpu.l1.sector_bytes
    assert gpu.l1.sector_bytes * gpu.crossbar.clock >= 0.8 * gpu.dram.width * gpu.dram.clock
    assert gpu.l1.sector_bytes * gpu.l2.clock >= 0.8 * gpu.dram.width * gpu.dram.clock


def leaves(table, prefix=""):
    """Dotted names of everything in a GPU's dict that is a number or a choice."""
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict) and key not in ("l1.index", "latency", "paper_latency", "calibrated"):
            yield from leaves(value, key + ".")
        elif key != "name":
            yield key


@pytest.mark.parametrize("name", PRINTED)
def test_every_number_has_a_source_of_its_own_and_every_source_a_number(name):
    gpu = presets.gpu(name)
    plain = gpu.to_dict()
    sources = plain.pop("sources")
    assert list(leaves(plain)) == list(sources)
    for key, text in sources.items():
        assert ORIGIN.match(text), (key, text)
        if text.startswith("inferred"):
            assert REASON.match(text), (key, text)
    text = resources.files(presets).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    assert text.endswith(presets.dumps(gpu))


@pytest.mark.parametrize("name", PRINTED)
def test_a_preset_is_read_back_as_it_was_written(name, tmp_path):
    gpu = presets.gpu(name)
    path = tmp_path / "copy.toml"
    path.write_text(presets.dumps(gpu), encoding="utf-8")
    again = presets.load(path)
    assert again == gpu
    assert again.sources == gpu.sources


@pytest.mark.parametrize("name", PRINTED)
def test_the_index_functions_suit_the_geometry(name):
    gpu = presets.gpu(name)
    shared = gpu.architecture in ("Volta", "Ampere", "Ada", "Hopper", "Blackwell")
    assert (gpu.l1.tag_sets > 0) == isinstance(gpu.l1.index, policies.Masks) == shared
    assert shared or gpu.l1.index == policies.Linear()
    sets = gpu.l2.sets(gpu.l1.line)
    assert sets & (sets - 1) == 0  # the hash of the L2 folds address bits


# ---- names


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("a100", "a100-80g"), ("A100", "a100-80g"), ("a100-80gb", "a100-80g"), ("a100 40gb", "a100-40g"),
        ("NVIDIA A100-PCIE-40GB", "a100-40g"), ("NVIDIA A100-SXM4-40GB", "a100-40g"),
        ("NVIDIA A100-SXM4-80GB", "a100-80g"), ("NVIDIA A100 80GB PCIe", "a100-80g"),
        ("h100", "h100-sxm"), ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H200", "h200"), ("NVIDIA GH200 480GB", "h200"), ("NVIDIA B200", "b200"),
        ("rtx 4090", "rtx4090"), ("RTX4090", "rtx4090"), ("4090", "rtx4090"), ("rtx-5090", "rtx5090"),
        ("NVIDIA GeForce RTX 3070", "rtx3070"), ("GeForce RTX 2080 Ti", "rtx2080ti"), ("NVIDIA A40", "a40"),
        ("Tesla V100-SXM2-16GB", "v100"), ("Tesla V100-PCIE-32GB", "v100"), ("Quadro GV100", "gv100"),
        ("Tesla T4", "t4"), ("Tesla P100-PCIE-16GB", "p100"), ("NVIDIA TITAN X (Pascal)", "titan-x-pascal"),
        ("NVIDIA GeForce GTX TITAN X", "titan-x-maxwell"), ("Tesla K40c", "k40c-16k"),
    ],
)  # fmt: skip
def test_a_gpu_is_found_by_the_names_that_people_and_drivers_write(typed, name):
    assert presets.gpu(typed) == presets.gpu(name)


@pytest.mark.parametrize(
    ("typed", "near"),
    [
        ("NVIDIA GeForce RTX 3070 Laptop GPU", "rtx3070"), ("rtx 3090 ti", "rtx3090"), ("NVIDIA L40S", "l40"),
        ("NVIDIA GeForce RTX 4090 D", "rtx4090"), ("a100-80gg", "a100-80g"),
    ],
)  # fmt: skip
def test_a_similar_gpu_is_only_suggested(typed, near):
    with pytest.raises(ConfigError) as error:
        presets.gpu(typed)
    message = str(error.value)
    assert message.startswith(f"unknown GPU {typed!r}; did you mean ")
    assert repr(near) in message
    assert message.endswith("? To describe another GPU, use rdmodel gpus --like NAME --set KEY=VALUE -o mine.toml")


def test_a_name_of_several_gpus_is_answered_with_them():
    with pytest.raises(ConfigError, match="gpu='TITAN X': is the name of several GPUs; choose titan-x-m"):
        presets.gpu("TITAN X")


def test_no_two_presets_have_a_name_in_common():
    meant: dict[str, set[str]] = {simplify(name): {name} for name in presets.names()}
    for preset, others in ALIASES.items():
        assert preset in presets.names()
        for other in others:
            meant.setdefault(simplify(other), set()).add(preset)
    assert {name: found for name, found in meant.items() if len(found) > 1} == {}
    assert {simplify(name) for name in AMBIGUOUS}.isdisjoint(meant)
    assert all(set(candidates) <= set(presets.names()) for candidates in AMBIGUOUS.values())


# ---- groups, and GPUs like a preset


def test_presets_are_grouped_from_the_oldest_architecture_to_the_newest():
    groups = presets.architectures()
    assert list(groups) == list(presets.ARCHITECTURES)
    assert sorted(name for members in groups.values() for name in members) == presets.names()
    assert groups["Ampere"] == ["a100-40g", "a100-80g", "a40", "a4000", "a6000", "rtx3070", "rtx3090"]


def test_a_gpu_like_another_says_where_every_number_comes_from(tmp_path):
    base = presets.gpu("a100-80g")
    ours = presets.like("a100", {"sms": "112", "l1.carveout": "8K"})
    assert (ours.name, ours.sms, ours.l1.size) == ("a100-80g-like", 112, 184 << 10)
    assert ours.sources["sms"] == ours.sources["l1.carveout"] == OVERRIDE_SOURCE
    assert ours.sources["l1.size"] == "follows from l1.unified and the carve-out"
    assert ours.sources["l2.ways"] == f"as in a100-80g: {base.sources['l2.ways']}"
    plain = ours.to_dict()
    del plain["sources"]
    assert set(leaves(plain)) == set(ours.sources)
    path = tmp_path / "ours.toml"
    path.write_text(presets.dumps(ours), encoding="utf-8")
    assert presets.gpu(path) == ours
    assert presets.like(base, {}, name="mine").replace(name=base.name) == base


def test_a_gpu_like_another_is_checked():
    with pytest.raises(ConfigError, match=r"l1\.sector=48: must be a power of two"):
        presets.like("a100", {"l1.sector": "48"})
    with pytest.raises(ConfigError, match="unknown key 'smss'"):
        presets.like("a100", {"smss": "48"})


# ---- launches


@pytest.mark.parametrize(
    ("name", "threads", "shared", "blocks", "carveout", "size"),
    [
        ("v100", 256, 0, 8, 0, 128), ("v100", 1024, 8192, 2, 16, 112), ("t4", 256, 1024, 4, 32, 64),
        ("a100-80g", 256, 0, 8, 16, 176), ("a100-80g", 1024, 8192, 2, 32, 160), ("a100-80g", 256, 32768, 4, 132, 60),
        ("rtx3070", 256, 0, 6, 16, 112), ("rtx4090", 256, 48 << 10, 2, 100, 28), ("h100-sxm", 128, 0, 16, 32, 224),
        ("h100-sxm", 1024, 100 << 10, 2, 228, 28), ("rtx5090", 256, 2048, 6, 64, 64),
    ],
)  # fmt: skip
def test_a_launch_divides_the_memory_of_an_sm(name, threads, shared, blocks, carveout, size):
    launch = Launch(kernel="k", grid=(100, 1, 1), block=(threads, 1, 1), shared_memory=shared)
    gpu = presets.gpu(name)
    assert compute_occupancy(launch, gpu).blocks == blocks
    fitted = fit_to_launch(gpu, launch)
    assert (fitted.l1.carveout, fitted.l1.size) == (carveout << 10, size << 10)


def test_the_carve_out_is_an_option_of_a_prediction():
    trace = tracegen.kernel("atax.1", NX=256, NY=256)
    for carveout, size in {"auto": 176, "fit": 184, "max-shared": 28, 64 << 10: 128}.items():
        found = rd.predict(trace, gpu="a100", carveout=carveout)
        assert found.to_dict()["l1"]["size"] == size << 10
    assert rd.predict(trace, gpu="gtx470-16k", carveout="auto").to_dict()["l1"]["carveout"] is None
    with pytest.raises(ConfigError, match="carveout='max-l1': the L1 has memory of its own"):
        rd.predict(trace, gpu="gtx470-16k", carveout="max-l1")
    with pytest.raises(ConfigError, match="carveout=7: must be one of auto, fit, max-l1, max-shared, 0, 8192"):
        rd.predict(trace, gpu="a100", carveout=7)


def test_a_launch_with_more_shared_memory_than_the_largest_carve_out_is_refused():
    body = Launch(kernel="k", grid=(1, 1, 1), block=(32, 1, 1), shared_memory=164 << 10)
    message = r"a block takes 168960 bytes .* the largest carve-out of a100-80g has 167936"
    with pytest.raises(LaunchError, match=message):
        compute_occupancy(body, presets.gpu("a100"))


def test_a_size_with_ways_gives_the_ways_of_an_h100_data_of_their_own():
    l1 = override(presets.gpu("h100"), {"l1.size": "48K", "l1.ways": 6}).l1
    assert (l1.sets, l1.ways, l1.pool, l1.index) == (64, 6, 0, policies.Linear())
    l1 = override(presets.gpu("h100"), {"l1.size": "64K"}).l1
    assert (l1.sets, l1.ways, l1.pool) == (512, 4, 8 * (64 - 7))
