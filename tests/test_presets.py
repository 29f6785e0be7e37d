"""The named GPUs: what the papers print, where each number comes from, and TOML there and back."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import policies, presets
from rdmodel.config import GPU, CacheConfig, LatencyConfig
from rdmodel.errors import ConfigError

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


def leaves(table, prefix=""):
    """Dotted names of everything in a GPU's dict that is a number or a choice."""
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict) and key != "l1.index":
            yield from leaves(value, key + ".")
        elif key != "name":
            yield key


def test_every_preset_is_listed():
    assert presets.names() == sorted(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_a_preset_has_the_numbers_of_its_paper(name):
    gpu = presets.gpu(name)
    assert gpu.name == name
    assert gpu.l1.line == 128
    for field, value in PRINTED[name].items():
        assert getattr(gpu if hasattr(gpu, field) else gpu.l1, field) == value, field


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
        assert len(text) > 10


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


@given(
    index=INDEXES, limits=st.tuples(LIMITS, LIMITS, LIMITS), latency=LATENCIES, name=TEXTS,
    sources=st.dictionaries(TEXTS, TEXTS, max_size=4),
)  # fmt: skip
def test_any_gpu_is_read_back_equal(tmp_path_factory, index, limits, latency, name, sources):
    mshrs, merge, per_warp = limits
    l1 = CacheConfig(size=16384, ways=4, index=index, mshrs=mshrs, mshr_merge=merge, mshr_per_warp=per_warp)
    gpu = dataclasses.replace(presets.gpu("koo-kepler"), name=name, l1=l1, latency=latency, sources=sources)
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
    with pytest.raises(ConfigError, match="unknown GPU '###'; known: c2050-base-l, "):
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
        (
            GOOD.replace("ways = 4", "ways = 5").encode(),
            ": size=16384: is not a multiple of line",
        ),
        (
            GOOD.replace("ways = 4", "wayz = 4").encode(),
            ": unknown field of l1 'wayz'; did you mean 'ways'",
        ),
        (
            GOOD.replace("sigma = 40.0", "sigma = nan").encode(),
            ": sigma=nan: must be a finite number of at least 0",
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


def test_gpus_are_validated_values():
    assert isinstance(presets.gpu("wang-32k"), GPU)
    assert hash(presets.gpu("wang-32k")) == hash(presets.gpu("wang-32k"))
