"""Overrides: keys with dots, values as people write them, applied together."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import policies, presets
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import DEFAULTS_OMITTED
from rdmodel.gpu.overrides import OVERRIDE_SOURCE, override, override_keys, parse_number, parse_size

GPU = presets.gpu("gtx470-16k")
UNFITTED = GPU.replace(calibrated=None)


def test_size_and_ways_change_together():
    l1 = override(GPU, {"l1.size": "48K", "l1.ways": "6"}).l1
    assert (l1.size, l1.ways, l1.sets) == (49152, 6, 64)


def test_neither_alone_is_a_cache_that_exists():
    with pytest.raises(ConfigError, match="32 or 64 sets"):
        override(GPU, {"l1.size": "48K"})
    with pytest.raises(ConfigError, match=r"size=16384: is not a multiple of line . ways = 128 . 6"):
        override(GPU, {"l1.ways": "6"})


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("sms", "15", 15),
        ("max_threads", "1K", 1024),
        ("shared_memory", "16K", 16384),
        ("latency.lat_min", "300", 300),
        ("latency.sigma", "12.5", 12.5),
        ("latency.sigma", "1e2", 100.0),
        ("paper_latency.hit_latency", "2", 2),
        ("l1.mshrs", "32", 32),
        ("l1.mshrs", "inf", None),
        ("l1.mshr_merge", "8", 8),
        ("l1.mshr_per_warp", "6", 6),
        ("l1.index", "pric", policies.Pric()),
        ("l1.index", "linear", policies.Linear()),
        ("l1.index", policies.Fup(20), policies.Fup(20)),
        ("l1.mshrs", None, None),
        ("l1.allocate", "fill", "fill"),
        ("l1.miss_queue", "16", 16),
        ("clock", "1400", 1400),
        ("core.schedulers", "4", 4),
        ("core.sched", "gto", "gto"),
        ("core.sched", "two-level", "two-level"),
        ("crossbar.width", "64", 64),
        ("l2.size", "256K", 262144),
        ("l2.mshrs", "inf", None),
        ("l2.mshr_merge", "inf", None),
        ("l2.mshr_merge", "8", 8),
        ("dram.row", "2K", 2048),
        ("dram.tcl", 0, 0),
        ("sms", 15, 15),
        ("name", "mine", "mine"),
    ],
)
def test_a_key_changes_its_field_and_nothing_else(key, text, value):
    changed = override(UNFITTED, {key: text})
    before, after = UNFITTED.to_dict(), changed.to_dict()
    found = changed
    for name in key.split("."):
        found = getattr(found, name)
    assert found == value
    *path, last = key.split(".")
    for plain in (before, after):
        del plain["sources"]
        for name in path:
            plain[name] = dict(plain[name])
        table = plain
        for name in path:
            table = table[name]
        del table[last]
    assert after == before


def test_a_changed_part_of_the_simulated_machine_is_read_back(tmp_path):
    changed = override(GPU, {"core.sched": "gto", "l1.allocate": "fill", "l2.size": "256K", "l2.mshr_merge": "inf"})
    path = tmp_path / "changed.toml"
    path.write_text(presets.dumps(changed), encoding="utf-8")
    again = presets.load(path)
    assert again == changed
    assert again.sources == changed.sources
    assert again.sources["core.sched"] == again.sources["l2.mshr_merge"] == OVERRIDE_SOURCE
    assert again.sources["core.schedulers"] == GPU.sources["core.schedulers"]


def test_lines_of_the_l1_and_geometry_of_the_memory_change_together():
    with pytest.raises(ConfigError, match=r"l2\.size=1024: is not a multiple of l1\.line x l2\.ways = 128 x 16 = 2048"):
        override(GPU, {"l2.size": "1K"})
    assert override(GPU, {"l2.size": "1K", "l2.ways": "8"}).l2.sets(128) == 1
    with pytest.raises(ConfigError, match=r"dram\.row=64: is not a multiple of l1\.line = 128"):
        override(GPU, {"dram.row": "64"})


def test_a_parameter_of_the_index_function_has_a_key_of_its_own():
    assert override(GPU, {"l1.index": "pric", "l1.index.polynomial": "41"}).l1.index == policies.Pric(41)
    assert override(GPU, {"l1.index.polynomial": "41", "l1.index": "pric"}).l1.index == policies.Pric(41)
    pric = override(GPU, {"l1.index": policies.Pric(41)})
    assert override(pric, {"l1.index.polynomial": "47"}).l1.index == policies.Pric(47)
    assert override(pric, {"l1.index": "pric"}).l1.index == policies.Pric()


@pytest.mark.parametrize("value", ["true", True])
def test_a_flag_is_written_true(value, tmp_path):
    changed = override(UNFITTED, {"core.store_acks": value})
    assert changed.core.store_acks is True
    path = tmp_path / "flag.toml"
    path.write_text(presets.dumps(changed), encoding="utf-8")
    assert presets.load(path) == changed


def test_masks_are_a_list():
    changed = override(GPU, {"l1.index": "masks", "l1.index.masks": "1,2,4,8,16"})
    assert changed.l1.index == policies.Masks((1, 2, 4, 8, 16))


def test_a_changed_number_no_longer_claims_its_old_source():
    changed = override(GPU, {"sms": "15", "latency.sigma": "10"})
    assert changed.sources["sms"] == changed.sources["latency.sigma"] == OVERRIDE_SOURCE
    assert changed.sources["l1.size"] == GPU.sources["l1.size"]
    assert GPU.sources["sms"] != OVERRIDE_SOURCE


@pytest.mark.parametrize(
    ("assignments", "kept"),
    [
        ({"name": "mine", "latency.sigma": "3"}, True),
        ({"l2.slices": "4"}, False),
        ({"l2.slices": "4", "calibrated.sigma": "7"}, True),
    ],
)
def test_fitted_latencies_go_when_the_machine_changes(assignments, kept):
    changed = override(GPU, assignments)
    assert (changed.calibrated is not None) == kept
    assert ("calibrated" in changed.sources) == kept


def test_no_assignment_changes_nothing():
    assert override(GPU, {}) == GPU
    assert override(GPU, {}).sources == GPU.sources


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ({"l1.sise": "16K"}, "unknown key 'l1.sise'; did you mean 'l1.size'"),
        ({"latency.lat_mim": "3"}, "unknown key 'latency.lat_mim'; did you mean 'latency.lat_min'"),
        ({"sources.sms": "me"}, "unknown key 'sources.sms'"),
        ({"l1": "48K:6:128"}, "unknown key 'l1'"),
        ({"l2": "256K"}, "unknown key 'l2'"),
        ({"l1.alocate": "fill"}, "unknown key 'l1.alocate'; did you mean 'l1.allocate'"),
        ({"core.shed": "gto"}, "unknown key 'core.shed'; did you mean 'core.sched'"),
        ({"crossbar.with": "32"}, "unknown key 'crossbar.with'; did you mean 'crossbar.width'"),
        ({"l2.slice": "6"}, "unknown key 'l2.slice'; did you mean 'l2.slices'"),
        ({"dram.tCL": "6"}, "unknown key 'dram.tCL'; did you mean 'dram."),
        ({"core.sched": "gtoo"}, "unknown value for sched: 'gtoo'; did you mean 'gto'"),
        ({"core.sched": ""}, "unknown value for sched: ''; known: lrr, gto, two-level, old"),
        ({"core.schedulers": "5"}, "schedulers=5: must be at most 4"),
        ({"core.store_acks": "yes"}, "core.store_acks='yes': must be true or false"),
        ({"core.store_acks": 1}, "store_acks=1: must be True or False"),
        ({"l1.allocate": "file"}, "unknown value for allocate: 'file'; did you mean 'fill'"),
        ({"l1.miss_queue": "inf"}, "miss_queue=inf: must be a whole number"),
        ({"clock": "0.7"}, "clock=0.7: must be a whole number"),
        ({"l2.size": "inf"}, "size=inf: must be a whole number"),
        ({"l2.size": "256KB"}, "l2.size='256KB': must be a number"),
        ({"dram.trrd": "5.5"}, "trrd=5.5: must be a whole number"),
        ({"dram.latency": "-1"}, "latency=-1: must be at least 0"),
        ({"l1.size": "48Q"}, "l1.size='48Q': must be a number (15, 48K, 2M, 40.5) or inf"),
        ({"l1.size": ""}, "l1.size='': must be a number"),
        ({"l1.size": "inf"}, "size=inf: must be a whole number"),
        ({"l1.size": "1.5K"}, "l1.size='1.5K': must be a number"),
        ({"sms": "-2"}, "sms=-2: must be at least 1"),
        ({"sms": "1.5"}, "sms=1.5: must be a whole number"),
        ({"latency.sigma": "nan"}, "latency.sigma='nan': must be a number"),
        ({"latency.sigma": math.nan}, "sigma=nan: must be a finite number of at least 0"),
        ({"latency.sigma": "inf"}, "sigma=inf: must be a finite number of at least 0"),
        ({"latency.sigma": "1e999"}, "sigma=inf: must be a finite number of at least 0"),
        ({"l1.mshrs": "nan"}, "l1.mshrs='nan': must be a number"),
        ({"l1.mshrs": "unlimited"}, "l1.mshrs='unlimited': must be a number"),
        ({"l1.index": "prick"}, "unknown index function 'prick'; did you mean 'pric'"),
        ({"l1.index": 5}, "l1.index=5: must be an index function or the name of one"),
        ({"l1.index.polynomial": "41"}, "index='fermi': has no parameters; leave out 'polynomial'"),
        ({"l1.index": "pric", "l1.index.polynomial": "40"}, "polynomial=40: is reducible"),
        ({"l1.index": "masks", "l1.index.masks": "1,x"}, "l1.index.masks='x': must be a number"),
    ],
)
def test_a_mistake_is_named(assignments, message):
    with pytest.raises(ConfigError) as error:
        override(GPU, assignments)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("l1.way", "l1.ways"), ("l2.way", "l2.ways"), ("l2.mshr", "l2.mshrs"), ("l1.line_size", "l1.line"),
        ("dram.tCL", "dram.tcl"), ("crossbar.latencies", "crossbar.latency"), ("core.1", "core.sched"),
    ],
)  # fmt: skip
def test_near_misses_of_a_key_come_from_its_own_table(key, near):
    with pytest.raises(ConfigError) as error:
        override(GPU, {key: "1"})
    suggested = re.findall(r"'([\w.]+)'", str(error.value))[1:]
    assert near in suggested
    assert {name.split(".")[0] for name in suggested} == {key.split(".")[0]}


def test_without_such_a_table_near_misses_come_from_all_keys():
    with pytest.raises(ConfigError, match="unknown key 'clok'; did you mean 'clock'"):
        override(GPU, {"clok": "1"})
    with pytest.raises(ConfigError, match=r"unknown key 'l3\.size'; did you mean 'l[12]\.size' or 'l[12]\.size'"):
        override(GPU, {"l3.size": "1"})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("register_files", "1"), ("shared_memory_unit", "1"), ("shared_memory_reserved", "0"),
        ("constant_line", "0"), ("l1.sector", "none"), ("l1.request_bytes", "128"),
        ("l1.tags_per_step", "1"), ("l1.stores", "free"),
        ("l1.unified", "0"), ("l1.carveouts", ""), ("l1.carveout", "auto"), ("l1.caches", "nc,local,global"),
        ("l2.sector", "none"), ("l2.fetch", "none"), ("l2.index", "linear"), ("l2.partitions", "1"),
        ("l2.partition_latency", "0"), ("core.alu_latency", "1"), ("core.store_acks", "false"),
        ("core.first_scheduler", "fair"),
    ],
)  # fmt: skip
def test_every_key_that_is_omitted_at_its_default_accepts_it(key, text):
    group, _, name = key.rpartition(".")
    assert name in DEFAULTS_OMITTED[group]
    changed = override(GPU, {key: text})
    assert changed == GPU
    plain = changed.to_dict()
    assert name not in (plain[group] if group else plain)


AMPERE = {
    "l1.size": "192K", "l1.ways": "384", "l1.index": "linear", "l1.sector": "32", "l1.tags_per_step": "4",
    "l1.stores": "through", "l1.unified": "192K", "l1.carveouts": "0,8K,16K,32K,64K,100K,132K,164K",
    "shared_memory": "164K", "shared_memory_unit": "128", "shared_memory_reserved": "1K", "register_files": "4",
    "architecture": "Ampere", "l2.sector": "32", "l2.fetch": "64", "l2.index": "hash",
}  # fmt: skip


def test_a_gpu_with_sectors_and_a_carve_out_is_made_from_one_without(tmp_path):
    changed = override(GPU, AMPERE)
    assert (changed.l1.sets, changed.l1.sectors, changed.l2_sector_bytes, changed.l2_fetch_bytes) == (4, 4, 32, 64)
    assert changed.l1.carveouts == (0, 8192, 16384, 32768, 65536, 102400, 135168, 167936)
    path = tmp_path / "ampere.toml"
    path.write_text(presets.dumps(changed), encoding="utf-8")
    assert presets.load(path) == changed


def test_an_l1_of_a_given_size_has_memory_of_its_own():
    shared = override(GPU, AMPERE)
    fixed = override(shared, {"l1.size": "48K", "l1.ways": "96"})
    assert (fixed.l1.unified, fixed.l1.carveouts, fixed.l1.sector) == (0, (), 32)
    assert [key for key in fixed.sources if key.startswith(("l1.unified", "l1.carve"))] == []
    assert override(shared, {"l1.size": "48K", "l1.ways": "96", "l1.unified": "0"}) == fixed
    assert override(shared, {"l1.size": "48K"}) == fixed
    assert override(fixed, {"l1.size": "16K"}).l1.ways == 32
    with pytest.raises(ConfigError, match=r"l1\.size=49153: is not a multiple of line x ways"):
        override(shared, {"l1.size": "49153"})
    with pytest.raises(ConfigError, match=r"l1\.size=49152: must be unified - the smallest of carveouts"):
        override(shared, {"l1.size": "48K", "l1.ways": "96", "l1.carveout": "max-l1"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("l1.size", "x"), ("l1.size", 1.5), ("l1.line", "0"), ("l1.line", None), ("l1.unified", "big"),
        ("l1.unified", "-1"), ("l1.unified", "1e3"), ("l1.carveouts", "8K,x"), ("l1.carveouts", 5),
        ("l1.carveouts", [1.5]), ("l1.carveouts", ""), ("l1.carveout", 1.5), ("l1.carveout", "-8K"),
        ("l1.sector", "x"), ("l1.caches", 5), ("l1.stores", 3), ("l2.index", ""),
    ],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_refused_before_anything_is_derived(key, value):
    with pytest.raises(ConfigError, match=key.rpartition(".")[2]):
        override(override(GPU, AMPERE), {key: value})


def test_every_key_is_accepted():
    plain = GPU.to_dict()
    for key in override_keys():
        if key.startswith(("l1.index", "name", "rates.")):  # rates: test_rates.py
            continue
        group, _, name = key.rpartition(".")
        table = plain[group] if group else plain
        if name in DEFAULTS_OMITTED.get(group, ()):
            continue
        value = table[name]
        assert override(GPU, {key: "inf" if value is None else str(value)}) == GPU, key


@given(st.integers(1 - (1 << 43), (1 << 43) - 1))
def test_whole_numbers_are_read_back(number):
    assert parse_number(str(number)) == parse_size(str(number)) == number
    assert parse_number(f"{number}K") == number * 1024
    assert parse_size(f"{number}M") == number * 1024 * 1024


@pytest.mark.parametrize("text", [f"{1 << 63}", f"{1 << 53}K", f"-{1 << 43}M", "9" * 5000])
def test_whole_numbers_of_more_than_64_bits_are_refused(text):
    with pytest.raises(ConfigError, match="must be a whole number of at most"):
        parse_size(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_decimal_numbers_are_read_back(number):
    assert parse_number(repr(number)) == number


@given(st.text(max_size=6) | st.text("0123456789.+-eEKM", max_size=6))
def test_any_text_is_a_number_or_an_error_that_names_it(text):
    if re.fullmatch(r"inf|[-+]?\d+[KM]?|[-+]?(\d+\.\d*|\.\d+|\d+(?=e))(e[-+]?\d+)?", text.replace("E", "e"), re.ASCII):
        assert not math.isnan(parse_number(text))
    else:
        with pytest.raises(ConfigError, match=f"^latency.sigma={re.escape(repr(text))}: must be"):
            parse_number(text, "latency.sigma")


@pytest.mark.parametrize("text", ["1.0", "inf", "1e3", " 1", "1_0", "٣", "0x10", "48KB", "K", "+", "1 K"])
def test_a_size_is_a_whole_number(text):
    with pytest.raises(ConfigError, match=r"^l1="):
        parse_size(text, "l1")
