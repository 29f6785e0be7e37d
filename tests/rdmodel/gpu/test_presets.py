"""The named GPUs: what the papers print, where each number comes from, and TOML there and back."""

import dataclasses
import re
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import policies, presets
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import GPU, CacheConfig, CoreConfig, LatencyConfig
from rdmodel.gpu.memory import CrossbarConfig, DramConfig, L2Config

# What the papers print. What a paper leaves out is not here; the sources in the files say what was inferred.
PRINTED = {
    "gtx470-16k": {
        "sms": 14, "max_threads": 1536, "max_blocks": 8,
        "size": 16384, "ways": 4, "sets": 32, "mshrs": 64,
    },
    "gtx470-48k": {
        "sms": 14, "max_threads": 1536, "max_blocks": 8,
        "size": 49152, "ways": 6, "sets": 64, "mshrs": 64,
    },
    "gtx570-16k": {"sms": 15, "size": 16384, "ways": 4, "sets": 32, "mshrs": 64},
    "gtx480-khairy": {
        "sms": 15, "max_threads": 1536, "max_warps": 48, "registers": 32684, "shared_memory": 49152,
        "size": 16384, "ways": 4, "sets": 32, "mshrs": 32,
    },
    "c2050-base-s": {
        "sms": 14, "max_threads": 1536, "max_warps": 48, "max_blocks": 8, "max_block_threads": 1024,
        "shared_memory": 49152, "size": 16384, "ways": 4, "sets": 32, "mshrs": 32,
    },
    "c2050-base-l": {
        "sms": 14, "max_threads": 1536, "max_warps": 48, "max_blocks": 8, "max_block_threads": 1024,
        "shared_memory": 16384, "size": 49152, "ways": 6, "sets": 64, "mshrs": 32,
    },
    "k40c-16k": {
        "sms": 15, "max_threads": 2048, "max_warps": 64, "max_blocks": 16, "max_block_threads": 1024,
        "registers": 65536, "size": 16384, "ways": 4, "sets": 32,
    },
    "wang-32k": {
        "sms": 30, "max_threads": 1024, "registers": 32768, "shared_memory": 49152,
        "size": 32768, "ways": 8, "sets": 32,
    },
    "koo-fermi": {
        "sms": 15, "max_warps": 48, "max_blocks": 8, "registers": 128 * 1024 // 4,
        "size": 16384, "ways": 4, "sets": 32, "mshrs": 64,
    },
    "koo-kepler": {
        "sms": 16, "max_warps": 64, "max_blocks": 16, "registers": 256 * 1024 // 4,
        "size": 16384, "ways": 4, "sets": 32, "mshrs": 64,
    },
}  # fmt: skip

TIMINGS = {"dram.tcl": 12, "dram.trp": 12, "dram.trc": 40, "dram.tras": 28, "dram.trcd": 12, "dram.trrd": 6}
JIA = {
    "clock": 1150 // 2, "dram.clock": 750, "core.schedulers": 2, "core.sched": "lrr", "l1.allocate": "miss",
    "l2.slices": 6, "l2.size": 128 << 10, "l2.ways": 16,
}  # fmt: skip
GTX470 = {"clock": 607, "core.schedulers": 2, "l2.slices": 5, "l2.size": (640 << 10) // 5, "dram.clock": 1674 // 2}

# What the papers' tables (for real GPUs: NVIDIA's specifications and deviceQuery) say of the simulated machine. Where
# a table prints the shaders' clock, two of whose cycles a warp takes, it is halved; 5.5 cycles of tRRD are 6.
SIMULATED = {
    "gtx470-16k": GTX470,
    "gtx470-48k": GTX470,
    "gtx570-16k": {**GTX470, "clock": 732, "dram.clock": 1900 // 2},
    "gtx480-khairy": {
        **TIMINGS, "clock": 700, "core.schedulers": 2, "core.sched": "gto", "l1.allocate": "miss",
        "crossbar.clock": 1400, "crossbar.width": 32,
        "l2.slices": 6, "l2.size": 128 << 10, "l2.ways": 16, "l2.mshrs": 32, "dram.clock": 924,
    },
    "c2050-base-s": JIA,
    "c2050-base-l": JIA,
    "k40c-16k": {
        "clock": 745, "core.schedulers": 4, "l2.size": 1572864 // 6, "dram.clock": 3004 // 2,
    },
    "wang-32k": {
        **{name: cycles for name, cycles in TIMINGS.items() if name != "dram.tras"},
        "clock": 1400 // 2, "core.sched": "gto", "crossbar.clock": 1400, "crossbar.width": 32,
        "l2.slices": 6, "l2.size": (768 << 10) // 6, "l2.ways": 16, "l2.latency": 120, "dram.banks": 16,
    },
    "koo-fermi": {
        **TIMINGS, "clock": 1400 // 2, "core.schedulers": 2, "core.sched": "lrr",
        "l2.size": (768 << 10) // 6, "l2.ways": 8, "dram.clock": 924,
    },
    "koo-kepler": {
        **TIMINGS, "clock": 876, "core.schedulers": 4, "core.sched": "lrr",
        "l2.size": (1536 << 10) // 6, "l2.ways": 16, "dram.clock": 1750,
    },
}  # fmt: skip

# GB/s as printed, or from the printed bits of the memory interface at four transfers per cycle of the printed clock.
BANDWIDTH = {
    "gtx470-16k": 133.9, "gtx470-48k": 133.9, "gtx570-16k": 152.0, "k40c-16k": 288.0, "gtx480-khairy": 179.2,
    "c2050-base-s": 144.0, "c2050-base-l": 144.0, "wang-32k": 177.4,
    "koo-fermi": 384 / 8 * 4 * 0.924, "koo-kepler": 384 / 8 * 4 * 1.750,
}  # fmt: skip

ORIGIN = re.compile(
    r"(Nugteren|Jia|Wang|Khairy|Koo) et al\., (HPCA|DATE|GPGPU-8|ISCA) 20\d\d, (section|table)"
    r"|CUDA C Programming Guide 5|NVIDIA, (GeForce|Fermi|Kepler|cuda_occupancy)"
    r"|(deviceQuery in )?[a-z]+/[a-z_]+(@[0-9a-f]+)?, |inferred"
    r"|fitted to the simulator by: rdmodel calibrate "
)
REASON = re.compile(r"inferred(, not measured)?(: | from [GN]| from Koo| from deviceQuery| to be as in the \w+)")


def leaves(table, prefix=""):
    """Dotted names of everything in a GPU's dict that is a number or a choice."""
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict) and key != "l1.index":
            yield from leaves(value, key + ".")
        elif key != "name":
            yield key


def test_every_preset_of_a_paper_is_listed():
    assert set(PRINTED) <= set(presets.names())
    assert presets.names() == sorted(presets.names())


@pytest.mark.parametrize("name", PRINTED)
def test_a_preset_has_the_numbers_of_its_paper(name):
    gpu = presets.gpu(name)
    assert gpu.name == name
    assert gpu.l1.line == 128
    for field, value in PRINTED[name].items():
        assert getattr(gpu if hasattr(gpu, field) else gpu.l1, field) == value, field


def value_of(gpu, key):
    for name in key.split("."):
        gpu = getattr(gpu, name)
    return gpu


@pytest.mark.parametrize("name", PRINTED)
def test_a_preset_simulates_the_machine_of_its_paper(name):
    gpu = presets.gpu(name)
    assert {key: value_of(gpu, key) for key in SIMULATED[name]} == SIMULATED[name]
    inferred = [key for key in SIMULATED[name] if gpu.sources[key].startswith("inferred")]
    assert inferred == []


@pytest.mark.parametrize("name", PRINTED)
def test_all_channels_together_have_the_bandwidth_of_the_source(name):
    gpu = presets.gpu(name)
    gigabytes = gpu.l2.slices * gpu.dram.width * gpu.dram.clock / 1000
    assert gigabytes == pytest.approx(BANDWIDTH[name], rel=0.02)


@pytest.mark.parametrize("name", PRINTED)
def test_the_crossbar_and_the_slices_can_pass_on_what_the_channels_give(name):
    gpu = presets.gpu(name)
    # A response is 8 bytes and a line, in whole crossbar cycles. Koo et al.'s second GPU has room for 0.8 of the peak.
    cycles = -(-(8 + gpu.l1.line) // gpu.crossbar.width)
    assert gpu.l1.line / cycles * gpu.crossbar.clock >= 0.8 * gpu.dram.width * gpu.dram.clock
    assert gpu.l1.line * gpu.l2.clock > gpu.dram.width * gpu.dram.clock


@pytest.mark.parametrize("name", PRINTED)
def test_only_presets_of_real_gpus_hash_as_fermi(name):
    real = name.startswith(("gtx470", "gtx570", "k40c"))
    assert presets.gpu(name).l1.index == (policies.Fermi() if real else policies.Linear())


@pytest.mark.parametrize("name", PRINTED)
def test_every_number_has_a_source_and_every_source_a_number(name):
    plain = presets.gpu(name).to_dict()
    sources = plain.pop("sources")
    keys = list(leaves(plain))
    unsourced = [key for key in keys if key not in sources and key.split(".")[0] not in sources]
    assert unsourced == []
    for source, text in sources.items():
        assert any(key == source or key.startswith(source + ".") for key in keys), source
        assert ORIGIN.match(text), (source, text)
        if text.startswith("inferred"):
            assert REASON.match(text), (source, text)


@pytest.mark.parametrize("name", PRINTED)
def test_every_field_of_the_simulator_is_written_out_with_a_source_of_its_own(name):
    gpu = presets.gpu(name)
    text = resources.files(presets).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    assert text.endswith(presets.dumps(gpu))
    plain = gpu.to_dict()
    tables = {group: plain[group] for group in ("core", "crossbar", "l2", "dram")}
    for key in ("clock", "l1.allocate", "l1.miss_queue", *leaves(tables)):
        assert key in gpu.sources, key


@pytest.mark.parametrize("name", PRINTED)
def test_a_preset_is_read_back_as_it_was_written(name, tmp_path):
    gpu = presets.gpu(name)
    path = tmp_path / "copy.toml"
    path.write_text(presets.dumps(gpu), encoding="utf-8")
    again = presets.load(path)
    assert again == gpu
    assert again.sources == gpu.sources
    assert presets.dumps(again) == presets.dumps(gpu)


@pytest.mark.parametrize("name", PRINTED)
def test_the_threads_and_warps_of_a_preset_agree(name):
    gpu = presets.gpu(name)
    assert gpu.max_threads == 32 * gpu.max_warps


INDEXES = st.one_of(
    st.sampled_from([policies.Linear(), policies.Fermi(), policies.BXor(), policies.Pric(), policies.PMod()]),
    st.sampled_from([37, 41, 47]).map(policies.Pric),
    st.integers(1, 56).map(policies.Fup),
    st.integers(1, 100).map(policies.PDisp),
    st.lists(st.integers(1, (1 << 56) - 1), min_size=5, max_size=5).map(policies.Masks),
)
LIMITS = st.none() | st.integers(1, 1 << 20)
LATENCIES = st.builds(
    LatencyConfig,
    lat_min=st.integers(0, 1 << 30),
    sigma=st.floats(0, 1e12, allow_nan=False),
    hit_latency=st.integers(0, 1 << 30),
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
COUNTS = st.integers(1, 1 << 20)
MACHINES = st.fixed_dictionaries(
    {
        "clock": st.integers(1, 100_000),
        "core": st.builds(
            CoreConfig, schedulers=st.integers(1, 4), sched=st.sampled_from(["lrr", "gto", "two-level", "old", "gty"]),
            fetch_group=COUNTS, ldst_queue=COUNTS, hit_latency=COUNTS, alu_latency=COUNTS, store_acks=st.booleans(),
            first_scheduler=st.sampled_from(["fair", "cycle"]),
        ),
        "crossbar": st.builds(CrossbarConfig, clock=st.integers(1, 100_000), width=COUNTS, latency=COUNTS),
        "l2": st.builds(L2Config, slices=COUNTS, mshrs=LIMITS, mshr_merge=LIMITS, queue=COUNTS, latency=COUNTS),
        "dram": st.builds(DramConfig, banks=COUNTS, queue=COUNTS, width=COUNTS, trp=COUNTS, trrd=COUNTS),
    }
)  # fmt: skip


@given(
    index=INDEXES, limits=st.tuples(LIMITS, LIMITS, LIMITS), latency=LATENCIES, name=TEXTS, machine=MACHINES,
    allocate=st.sampled_from(["miss", "fill"]), sources=st.dictionaries(TEXTS, TEXTS, max_size=4),
)  # fmt: skip
def test_any_gpu_is_read_back_equal(tmp_path_factory, index, limits, latency, name, machine, allocate, sources):
    limited = dict(zip(("mshrs", "mshr_merge", "mshr_per_warp"), limits, strict=True))
    l1 = CacheConfig(size=16384, ways=4, index=index, allocate=allocate, **limited)
    gpu = presets.gpu("koo-kepler").replace(name=name, l1=l1, latency=latency, sources=sources, **machine)
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text(presets.dumps(gpu), encoding="utf-8", newline="")
    again = presets.load(path)
    assert again == gpu
    assert again.sources == sources


def test_a_gpu_is_found_by_name_by_path_and_as_it_is(tmp_path):
    gpu = presets.gpu("gtx470-48k")
    path = tmp_path / "mine.toml"
    path.write_text(presets.dumps(gpu.replace(name="mine")), encoding="utf-8")
    assert presets.gpu(gpu) is gpu
    assert presets.gpu(path) == presets.gpu(str(path)) == gpu.replace(name="mine")


def test_an_unknown_name_is_answered_with_the_near_misses():
    with pytest.raises(ConfigError, match=r"unknown GPU 'gtx470'; did you mean 'gtx470-\d+k' or 'gtx470-\d+k'"):
        presets.gpu("gtx470")
    with pytest.raises(ConfigError, match="unknown GPU '###'; known: a100-40g, "):
        presets.gpu("###")


def test_unlimited_is_written_inf():
    text = presets.dumps(presets.gpu("gtx470-16k"))
    assert "mshrs = 64\nmshr_merge = inf\n" in text


def test_an_index_function_is_a_name_or_a_table():
    gpu = presets.gpu("gtx470-16k")
    assert 'index = "fermi"' in presets.dumps(gpu)
    pric = gpu.replace(l1=dataclasses.replace(gpu.l1, index=policies.Pric(41)))
    assert 'index = { name = "pric", polynomial = 41 }' in presets.dumps(pric)


GOOD = presets.dumps(presets.gpu("gtx470-16k"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"sms = 14\nmax_threads = = 3\n", ":2: Invalid value"),
        (b'name = "x"\nl1 = { size = 1', ":2: Unclosed inline table"),
        (b'name = "x"\n\n\xff\xfe', ":3: must be UTF-8 text"),
        (b"", ": l1: is missing or not a table"),
        (b"sms = " + b"9" * 5000, ": Exceeds the limit"),
        (b"a = " + b"[" * 5000, ": maximum recursion depth exceeded"),
        (
            GOOD.replace("ways = 4", "ways = 5").encode(),
            ": l1.size=16384: is not a multiple of line",
        ),
        (
            GOOD.replace("ways = 4", "wayz = 4").encode(),
            ": unknown field of l1 'wayz'; did you mean 'ways'",
        ),
        (
            GOOD.replace("sigma = 40.0", "sigma = nan").encode(),
            ": latency.sigma=nan: must be a finite number of at least 0",
        ),
        (GOOD.replace("ways = 4\n", "").encode(), ": l1.ways: is missing"),
        (
            GOOD.replace('index = "fermi"', "index = 5").encode(),
            ": l1.index: must be a name or a table with a name",
        ),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(tmp_path, content, message):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        presets.load(path)
    assert str(error.value).startswith(f"{path}{message}")
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.toml: No such file or directory"):
        presets.gpu(str(tmp_path / "nowhere.toml"))


def test_a_file_from_before_the_simulator_has_its_defaults(tmp_path):
    path = tmp_path / "old.toml"
    path.write_text(
        'name = "old"\nsms = 14\nmax_threads = 1536\nmax_blocks = 8\nmax_warps = 48\n[l1]\nsize = 16384\nways = 4\n',
        encoding="utf-8",
    )
    gpu = presets.load(path)
    assert (gpu.clock, gpu.l1.allocate, gpu.l1.miss_queue) == (700, "miss", 8)
    assert (gpu.core, gpu.crossbar, gpu.l2, gpu.dram) == (CoreConfig(), CrossbarConfig(), L2Config(), DramConfig())


def test_gpus_are_validated_values():
    assert isinstance(presets.gpu("wang-32k"), GPU)
    assert hash(presets.gpu("wang-32k")) == hash(presets.gpu("wang-32k"))
