"""Overrides: keys with dots, values as people write them, applied together."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rdmodel import policies, presets
from rdmodel.errors import ConfigError
from rdmodel.overrides import SOURCE, keys, override, parse_number, parse_size

GPU = presets.gpu("gtx470-16k")


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
        ("sms", 15, 15),
        ("name", "mine", "mine"),
    ],
)
def test_a_key_changes_its_field_and_nothing_else(key, text, value):
    changed = override(GPU, {key: text})
    before, after = GPU.to_dict(), changed.to_dict()
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


def test_a_parameter_of_the_index_function_has_a_key_of_its_own():
    assert override(GPU, {"l1.index": "pric", "l1.index.polynomial": "41"}).l1.index == policies.Pric(41)
    assert override(GPU, {"l1.index.polynomial": "41", "l1.index": "pric"}).l1.index == policies.Pric(41)
    pric = override(GPU, {"l1.index": policies.Pric(41)})
    assert override(pric, {"l1.index.polynomial": "47"}).l1.index == policies.Pric(47)
    assert override(pric, {"l1.index": "pric"}).l1.index == policies.Pric()


def test_masks_are_a_list():
    changed = override(GPU, {"l1.index": "masks", "l1.index.masks": "1,2,4,8,16"})
    assert changed.l1.index == policies.Masks((1, 2, 4, 8, 16))


def test_a_changed_number_no_longer_claims_its_old_source():
    changed = override(GPU, {"sms": "15", "latency.sigma": "10"})
    assert changed.sources["sms"] == changed.sources["latency.sigma"] == SOURCE
    assert changed.sources["l1.size"] == GPU.sources["l1.size"]
    assert GPU.sources["sms"] != SOURCE


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
        ({"l1.index.polynomial": "41"}, "index='fermi': has no parameters, so no 'polynomial'"),
        ({"l1.index": "pric", "l1.index.polynomial": "40"}, "polynomial=40: is reducible"),
        ({"l1.index": "masks", "l1.index.masks": "1,x"}, "l1.index.masks='x': must be a number"),
    ],
)
def test_a_mistake_is_named(assignments, message):
    with pytest.raises(ConfigError) as error:
        override(GPU, assignments)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_every_key_is_accepted():
    plain = GPU.to_dict()
    for key in keys():
        if key.startswith(("l1.index", "name")):
            continue
        group, _, name = key.rpartition(".")
        value = plain[group][name] if group else plain[name]
        assert override(GPU, {key: "inf" if value is None else str(value)}) == GPU, key


@given(st.integers(-(1 << 70), 1 << 70))
def test_whole_numbers_are_read_back(number):
    assert parse_number(str(number)) == parse_size(str(number)) == number
    assert parse_number(f"{number}K") == number * 1024
    assert parse_size(f"{number}M") == number * 1024 * 1024


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
