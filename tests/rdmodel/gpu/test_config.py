"""Configurations that cannot exist are refused with the field, the value and what is allowed."""

import dataclasses
import json
import math
import pickle

import pytest

from rdmodel import policies, presets
from rdmodel.errors import MAX_MESSAGE_LENGTH as LONGEST
from rdmodel.errors import ConfigError, RdmodelError, TraceError
from rdmodel.gpu.config import GPU, CacheConfig, CoreConfig, LatencyConfig, gpu_from_dict, replace
from rdmodel.gpu.memory import CrossbarConfig, DramConfig, L2Config
from rdmodel.model.options import Options

L1 = CacheConfig(size=16384, ways=4)


def gpu(**changes):
    fields = {"name": "test", "sms": 14, "max_threads": 1536, "max_blocks": 8, "max_warps": 48, "l1": L1}
    return GPU(**(fields | changes))


@pytest.mark.parametrize(
    ("size", "ways", "line", "sets", "lines", "line_bits"),
    [(16384, 4, 128, 32, 128, 7), (49152, 6, 128, 64, 384, 7), (256, 2, 1, 128, 256, 0)],
)
def test_a_cache_derives_its_geometry(size, ways, line, sets, lines, line_bits):
    cache = CacheConfig(size=size, ways=ways, line=line, index=policies.Linear())
    assert (cache.sets, cache.lines, cache.line_bits) == (sets, lines, line_bits)
    assert cache.index_code().sets == sets


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 16000}, "size=16000: is not a multiple of line"),
        ({"ways": 0}, "ways=0: must be at least 1"),
        ({"ways": 3}, "size=16384: is not a multiple of line"),
        ({"size": -1}, "size=-1: must be at least 1"),
        ({"size": 16384.0}, "size=16384.0: must be a whole number"),
        ({"size": True}, "size=True: must be a whole number"),
        ({"size": "16K"}, "size='16K': must be a whole number"),
        ({"line": 96}, "line=96: must be a power of two"),
        ({"line": 0}, "line=0: must be at least 1"),
        ({"mshrs": 0}, "mshrs=0: must be at least 1"),
        ({"mshrs": math.inf}, "mshrs=inf: must be a whole number"),
        ({"mshr_merge": -3}, "mshr_merge=-3: must be at least 1"),
        ({"mshr_per_warp": 1.5}, "mshr_per_warp=1.5: must be a whole number"),
        (
            {"size": 33 * 512, "index": policies.Linear()},
            "index='linear': the number of sets must be a power of two, not 33",
        ),
        ({"size": 64 * 512 * 2}, "32 or 64 sets of 128-byte lines, not 128 of 128"),
        ({"index": policies.Pric(32)}, "polynomial=32: is reducible over GF(2)"),
        ({"allocate": "fil"}, "unknown value for allocate: 'fil'; did you mean 'fill'"),
        ({"allocate": None}, "unknown value for allocate: 'None'"),
        ({"miss_queue": 0}, "miss_queue=0: must be at least 1"),
        ({"miss_queue": None}, "miss_queue=None: must be a whole number"),
    ],
)
def test_a_cache_that_cannot_exist_is_refused(changes, message):
    with pytest.raises(ConfigError) as error:
        CacheConfig(**({"size": 16384, "ways": 4} | changes))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


UNIFIED = {"size": 98304, "ways": 192, "index": policies.Linear(), "unified": 98304, "carveouts": (0, 32768, 65536)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sector": 48}, "sector=48: must be a power of two from 4 to 128, so that sectors divide line=128"),
        ({"sector": 256}, "sector=256: must be a power of two from 4 to 128"),
        ({"sector": 2}, "sector=2: must be a power of two from 4 to 128"),
        ({"sector": 32.0}, "sector=32.0: must be a whole number"),
        ({"request_bytes": 16}, "request_bytes=16: must be at least 32"),
        ({"request_bytes": 48}, "request_bytes=48: must be a power of two"),
        ({"request_bytes": 1024}, "request_bytes=1024: must be at most 512"),
        ({"tags_per_step": 0}, "tags_per_step=0: must be at least 1"),
        ({"tags_per_step": 33}, "tags_per_step=33: must be at most 32"),
        ({"stores": "thru"}, "unknown value for stores: 'thru'; did you mean 'through'"),
        ({"caches": ("globl",)}, "unknown value for caches: 'globl'; did you mean 'global'"),
        ({"caches": "global"}, "caches='global': must be a list of global, local, nc"),
        ({"unified": -1}, "unified=-1: must be at least 0"),
        ({"unified": 65536}, "carveouts=(): must hold the choices for shared memory out of unified=65536"),
        ({"carveouts": (8192,)}, "carveouts=(8192,): needs unified"),
        ({"carveout": "max-l1"}, "carveout='max-l1': needs unified"),
        (
            UNIFIED | {"carveout": 32768},
            "size=98304: must be unified - carveout = 98304 - 32768 = 65536",
        ),
        (UNIFIED | {"size": 65536, "ways": 128}, "size=65536: must be unified - the smallest of carveouts = 98304 - 0"),
        (UNIFIED | {"carveouts": (0, 1000)}, "carveouts=1000: must leave an L1 of a multiple of line x sets = 128 x 4"),
        (UNIFIED | {"carveouts": (0, 98304)}, "carveouts=98304: must be less than unified="),
        (UNIFIED | {"carveouts": (0, -1)}, "carveouts=-1: must be at least 0"),
        (UNIFIED | {"carveouts": 5}, "carveouts=5: must be a list of sizes in bytes"),
        (UNIFIED | {"carveout": 8192}, "carveout=8192: must be one of auto, fit, max-l1, max-shared, 0, 32768, 65536"),
        (UNIFIED | {"carveout": "max"}, "carveout='max': must be one of auto, fit, max-l1, max-shared, 0, 32768"),
    ],
)
def test_sectors_and_carve_outs_that_cannot_exist_are_refused(changes, message):
    with pytest.raises(ConfigError) as error:
        CacheConfig(**({"size": 16384, "ways": 4} | changes))
    assert message in str(error.value)


def test_a_line_without_sectors_is_one_sector_whatever_its_size():
    assert (L1.sector, L1.sector_bytes, L1.sectors) == (None, 128, 1)
    smaller = dataclasses.replace(L1, line=64, index=policies.Linear())
    assert (smaller.sector_bytes, smaller.sectors) == (64, 1)
    assert dataclasses.replace(L1, sector=32).sectors == 4


def test_choices_are_kept_in_order_and_once():
    cache = CacheConfig(**UNIFIED | {"carveouts": [65536, 0, 0], "caches": ["nc", "global", "nc"]})
    assert (cache.carveouts, cache.caches) == ((0, 65536), ("global", "nc"))
    assert hash(cache) == hash(dataclasses.replace(cache))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"l2": L2Config(sector=48)}, "l2.sector=48: must be a power of two from 4 to 128"),
        ({"l2": L2Config(sector=32, fetch=16)}, "l2.fetch=16: must be a multiple of l2.sector=32 that divides l1.line"),
        ({"l2": L2Config(sector=32, fetch=96)}, "l2.fetch=96: must be a multiple of l2.sector=32 that divides l1.line"),
        ({"l2": L2Config(fetch=64)}, "l2.fetch=64: must be a multiple of l2.sector=128"),
        ({"architecture": None}, "architecture=None: must be a text"),
        ({"register_files": 0}, "register_files=0: must be at least 1"),
        ({"shared_memory_unit": 0}, "shared_memory_unit=0: must be at least 1"),
        ({"shared_memory_reserved": -1}, "shared_memory_reserved=-1: must be at least 0"),
        ({"constant_line": -64}, "constant_line=-64: must be at least 0"),
        ({"constant_line": 96}, "constant_line=96: must be a power of two, or 0"),
        ({"constant_line": "256"}, "constant_line='256': must be a whole number"),
        ({"constant_line": None}, "constant_line=None: must be a whole number"),
        (
            {"l1": CacheConfig(**UNIFIED), "shared_memory": 49152},
            "shared_memory=49152: must be the largest of l1.carveouts, 65536, because the L1 shares",
        ),
    ],
)
def test_sectors_and_shared_memory_of_a_gpu_fit_together(changes, message):
    with pytest.raises(ConfigError) as error:
        gpu(**changes)
    assert message in str(error.value)


def test_the_sector_and_the_fetch_of_an_l2_follow_from_the_line():
    assert (gpu().l2_sector_bytes, gpu().l2_fetch_bytes, gpu().sectored) == (128, 128, False)
    sectored = gpu(l2=L2Config(sector=32))
    assert (sectored.l2_sector_bytes, sectored.l2_fetch_bytes, sectored.sectored) == (32, 32, True)
    assert gpu(l2=L2Config(sector=32, fetch=64)).l2_fetch_bytes == 64
    assert gpu(l1=dataclasses.replace(L1, request_bytes=32)).sectored


def test_constant_memory_is_fetched_in_lines_of_its_cache_or_in_what_the_l2_fetches():
    assert gpu().constant_fetch_bytes == gpu(l2=L2Config(sector=32)).constant_fetch_bytes == 0
    assert gpu(constant_line=256).constant_fetch_bytes == 256
    assert gpu(constant_line=64).constant_fetch_bytes == 128
    assert gpu(constant_line=16, l2=L2Config(sector=32, fetch=64)).constant_fetch_bytes == 64


def test_a_gpu_from_before_maxwell_has_the_same_dict_as_before_sectors():
    plain = gpu().to_dict()
    assert list(plain["l1"]) == [
        "size", "ways", "line", "index", "mshrs", "mshr_merge", "mshr_per_warp", "allocate", "miss_queue",
    ]  # fmt: skip
    assert list(plain["l2"]) == ["clock", "slices", "size", "ways", "mshrs", "mshr_merge", "queue", "latency"]
    younger = {"architecture", "register_files", "shared_memory_unit", "shared_memory_reserved", "constant_line"}
    assert younger.isdisjoint(plain)


def test_a_sectored_gpu_survives_its_dict():
    l1 = CacheConfig(**UNIFIED, sector=32, stores="through", caches=("local", "nc")).with_carveout(32768)
    original = gpu(l1=l1, shared_memory=65536, register_files=4, l2=L2Config(sector=32, index="hash", partitions=2))
    plain = json.loads(json.dumps(original.to_dict()))
    assert plain["l1"]["carveouts"] == [0, 32768, 65536]
    assert gpu_from_dict(plain) == original


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        (L2Config, {"sector": 0}, "sector=0: must be at least 1"),
        (L2Config, {"fetch": 1.5}, "fetch=1.5: must be a whole number"),
        (L2Config, {"index": "xor"}, "unknown value for index: 'xor'"),
        (L2Config, {"partitions": 4}, "partitions=4: must divide slices=6"),
    ],
)
def test_an_l2_that_cannot_exist_is_refused(table, changes, message):
    with pytest.raises(ConfigError) as error:
        table(**changes)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lat_min": -1}, "lat_min=-1: must be at least 0"),
        ({"hit_latency": -20}, "hit_latency=-20: must be at least 0"),
        ({"hit_latency": 0.5}, "hit_latency=0.5: must be a whole number"),
        ({"sigma": math.nan}, "sigma=nan: must be a finite number of at least 0"),
        ({"sigma": math.inf}, "sigma=inf: must be a finite number of at least 0"),
        ({"sigma": -0.1}, "sigma=-0.1: must be a finite number of at least 0"),
        ({"sigma": "40"}, "sigma='40': must be a finite number of at least 0"),
    ],
)
def test_latencies_are_finite_and_not_negative(changes, message):
    with pytest.raises(ConfigError) as error:
        LatencyConfig(**changes)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        (CoreConfig, {"schedulers": 0}, "schedulers=0: must be at least 1"),
        (CoreConfig, {"schedulers": 5}, "schedulers=5: must be at most 4"),
        (CoreConfig, {"sched": "two_level"}, "unknown value for sched: 'two_level'; did you mean 'two-level'"),
        (CoreConfig, {"sched": None}, "unknown value for sched: 'None'"),
        (CoreConfig, {"fetch_group": 0}, "fetch_group=0: must be at least 1"),
        (CoreConfig, {"ldst_queue": 0}, "ldst_queue=0: must be at least 1"),
        (CoreConfig, {"hit_latency": -1}, "hit_latency=-1: must be at least 0"),
        (CoreConfig, {"alu_latency": 0}, "alu_latency=0: must be at least 1"),
        (CoreConfig, {"store_acks": 1}, "store_acks=1: must be True or False"),
        (CoreConfig, {"first_scheduler": "last"}, "unknown value for first_scheduler: 'last'"),
        (CrossbarConfig, {"clock": 0}, "clock=0: must be at least 1"),
        (CrossbarConfig, {"clock": 100_001}, "clock=100001: must be at most 100000"),
        (CrossbarConfig, {"width": 0}, "width=0: must be at least 1"),
        (CrossbarConfig, {"latency": -1}, "latency=-1: must be at least 0"),
        (L2Config, {"clock": 700.5}, "clock=700.5: must be a whole number"),
        (L2Config, {"slices": 0}, "slices=0: must be at least 1"),
        (L2Config, {"size": "128K"}, "size='128K': must be a whole number"),
        (L2Config, {"ways": 0}, "ways=0: must be at least 1"),
        (L2Config, {"mshrs": 0}, "mshrs=0: must be at least 1"),
        (L2Config, {"mshr_merge": math.inf}, "mshr_merge=inf: must be a whole number"),
        (L2Config, {"queue": None}, "queue=None: must be a whole number"),
        (L2Config, {"latency": True}, "latency=True: must be a whole number"),
        (DramConfig, {"clock": 0}, "clock=0: must be at least 1"),
        (DramConfig, {"banks": 0}, "banks=0: must be at least 1"),
        (DramConfig, {"row": 0}, "row=0: must be at least 1"),
        (DramConfig, {"queue": 0}, "queue=0: must be at least 1"),
        (DramConfig, {"width": 0}, "width=0: must be at least 1"),
        (DramConfig, {"latency": -1}, "latency=-1: must be at least 0"),
        (DramConfig, {"trrd": 5.5}, "trrd=5.5: must be a whole number"),
        (DramConfig, {"tcl": -1}, "tcl=-1: must be at least 0"),
    ],
)
def test_a_part_of_the_simulated_machine_that_cannot_exist_is_refused(table, changes, message):
    with pytest.raises(ConfigError) as error:
        table(**changes)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "timings", [dict.fromkeys(("latency", "tcl", "trp", "trc", "tras", "trcd", "trrd"), 0), {"clock": 100_000}]
)
def test_memory_may_be_as_fast_as_one_likes(timings):
    dram = DramConfig(**timings)
    assert {name: getattr(dram, name) for name in timings} == timings
    assert CrossbarConfig(latency=0).latency == L2Config(latency=0).latency == CoreConfig(hit_latency=0).hit_latency


def test_a_gpu_without_a_word_on_the_simulated_machine_has_one():
    plain = gpu().to_dict()
    for name in ("clock", "core", "crossbar", "l2", "dram"):
        del plain[name]
    del plain["l1"]["allocate"], plain["l1"]["miss_queue"]
    again = gpu_from_dict(plain)
    assert again == gpu()
    assert (again.clock, again.l1.allocate, again.l1.miss_queue) == (700, "miss", 8)
    assert again.core == CoreConfig(schedulers=2, sched="lrr", fetch_group=8, ldst_queue=1, hit_latency=20)
    assert again.crossbar == CrossbarConfig(clock=1400, width=32, latency=8)
    assert (again.l2.slices, again.l2.size, again.l2.ways, again.l2.sets(128)) == (6, 131072, 16, 64)
    assert (again.l2.mshrs, again.l2.mshr_merge) == (32, None)
    assert (again.dram.clock, again.dram.banks, again.dram.width) == (924, 16, 32)


def test_the_memory_of_a_gpu_has_whole_sets_and_rows_of_whole_lines():
    with pytest.raises(
        ConfigError, match=r"l2\.size=131000: is not a multiple of l1\.line x l2\.ways = 128 x 16 = 2048"
    ):
        gpu(l2=L2Config(size=131000))
    with pytest.raises(ConfigError, match=r"dram\.row=192: is not a multiple of l1\.line = 128"):
        gpu(dram=DramConfig(row=192))
    assert gpu(l2=L2Config(size=3 * 2048)).l2.sets(128) == 3


@pytest.mark.parametrize("field", ["latency", "core", "crossbar", "l2", "dram"])
def test_a_part_of_a_gpu_is_of_its_own_type(field):
    with pytest.raises(ConfigError, match=rf"{field}=CacheConfig\(.*: must be a \w+Config"):
        gpu(**{field: L1})


@pytest.mark.parametrize(("clock", "message"), [(0, "at least 1"), (100_001, "at most 100000"), (1.4e3, "a whole")])
def test_the_clock_of_a_gpu_is_whole_megahertz(clock, message):
    with pytest.raises(ConfigError, match=f"clock={clock}: must be {message}"):
        gpu(clock=clock)


@pytest.mark.parametrize("field", ["sms", "max_threads", "max_blocks", "max_warps", "registers", "register_unit"])
def test_a_gpu_has_at_least_one_of_everything(field):
    with pytest.raises(ConfigError, match=f"{field}=0: must be at least 1"):
        gpu(**{field: 0})


def test_a_gpu_may_have_no_shared_memory():
    assert gpu(shared_memory=0).shared_memory == 0
    with pytest.raises(ConfigError, match="shared_memory=-1: must be at least 0"):
        gpu(shared_memory=-1)


FITTED = presets.gpu("gtx470-16k")


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, True),
        ({"name": "mine"}, True),
        ({"latency": LatencyConfig(lat_min=1, sigma=2, hit_latency=3)}, True),
        ({"sms": FITTED.sms, "l2": FITTED.l2}, True),
        ({"sms": 2}, False),
        ({"l1": dataclasses.replace(FITTED.l1, mshrs=8)}, False),
        ({"sms": 2, "calibrated": FITTED.calibrated}, True),
    ],
)
def test_latencies_fitted_to_a_machine_are_not_those_of_another(changes, kept):
    changed = FITTED.replace(**changes)
    assert changed.calibrated == (FITTED.calibrated if kept else None)
    assert ("calibrated" in changed.sources) == kept
    assert gpu_from_dict(changed.to_dict()) == changed


def test_numbers_that_no_64_bit_engine_can_hold_are_refused():
    with pytest.raises(ConfigError, match="must be at most 2"):
        gpu(sms=1 << 63)


def test_replacing_checks_again_and_names_unknown_fields():
    assert gpu().replace(sms=2).sms == 2
    with pytest.raises(ConfigError, match="sms=0: must be at least 1"):
        gpu().replace(sms=0)
    with pytest.raises(ConfigError, match="unknown field 'smx'; did you mean 'sms'"):
        gpu().replace(smx=2)
    with pytest.raises(ConfigError, match="unknown field 'wayz'; did you mean 'ways'"):
        replace(L1, wayz=2)


@pytest.mark.parametrize(
    "index",
    [
        policies.Fermi(),
        policies.Linear(),
        policies.Pric(),
        policies.Pric(41),
        policies.Masks((1, 2, 4, 8, 16)),
    ],
)
def test_a_gpu_survives_its_dict(index):
    original = gpu(l1=CacheConfig(size=16384, ways=4, index=index, mshrs=None), sources={"sms": "a guess"})
    again = gpu_from_dict(original.to_dict())
    assert again == original
    assert again.sources == original.sources


def test_inf_in_a_dict_means_unlimited():
    plain = gpu().to_dict()
    plain["l1"]["mshrs"] = plain["l2"]["mshrs"] = plain["l2"]["mshr_merge"] = math.inf
    again = gpu_from_dict(plain)
    assert again.l1.mshrs is again.l2.mshrs is again.l2.mshr_merge is None
    plain["l2"]["queue"] = math.inf
    with pytest.raises(ConfigError, match="queue=inf: must be a whole number"):
        gpu_from_dict(plain)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"smss": 3}, "unknown field of gpu 'smss'; did you mean 'sms'"),
        ({"l1": 5}, "l1: is missing or not a table"),
        ({"latency": 5}, "latency: must be a table"),
        ({"latency": {"lat_mim": 5}}, "unknown field of latency 'lat_mim'; did you mean 'lat_min'"),
        ({"core": {"shed": "gto"}}, "unknown field of core 'shed'; did you mean 'sched'"),
        ({"crossbar": {"with": 32}}, "unknown field of crossbar 'with'; did you mean 'width'"),
        ({"l2": {"slice": 6}}, "unknown field of l2 'slice'; did you mean 'slices'"),
        ({"dram": {"tCL": 12}}, "unknown field of dram 'tCL'"),
        ({"dram": [924]}, "dram: must be a table"),
        ({"l1": {"size": 16384}}, "l1.ways: is missing"),
        (
            {"l1": {"size": 16384, "ways": 4, "index": "fermy"}},
            "unknown index function 'fermy'; did you mean 'fermi'",
        ),
        (
            {"l1": {"size": 16384, "ways": 4, "index": {"p": 9}}},
            "l1.index: must be a name or a table with a name",
        ),
        ({"sources": 5}, "sources: must be a table of texts"),
    ],
)
def test_a_dict_that_holds_no_gpu_is_refused(change, message):
    with pytest.raises(ConfigError) as error:
        gpu_from_dict(gpu().to_dict() | change)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"definition": "hardwear"}, "unknown value for definition: 'hardwear'; did you mean 'hardware'"),
        ({"sched": "rr"}, "unknown value for sched: 'rr'; did you mean 'lrr'"),
        ({"sched": "lrr", "schedulers": 5}, "schedulers=5: must be at most 4"),
        ({"schedulers": 2}, "schedulers=2 cannot be combined with sched='random'"),
        ({"definition": "paper", "schedulers": 2}, "schedulers=2: only the definition 'hardware' has this option"),
        ({"model_sms": 0}, "model_sms=0: must be at least 1"),
        ({"threads": 0}, "threads=0: must be at least 1"),
        ({"sigma": math.nan}, "sigma=nan: must be a finite number"),
        ({"lat_min": -1}, "lat_min=-1: must be at least 0"),
        ({"stagger": -1}, "stagger=-1: must be at least 0"),
        ({"divergence": 1}, "divergence=1: must be True or False"),
        ({"clip": False}, "clip=False: only the definition 'paper' has this option"),
        (
            {"definition": "paper", "sched": "gto"},
            "sched='gto': only the definition 'hardware' has this option",
        ),
        ({"definition": "paper", "stores": "evict"}, "stores='evict': only the definition 'hardware'"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ConfigError) as error:
        Options(**options)
    assert message in str(error.value)


def test_options_take_what_they_leave_open_from_the_gpu():
    hardware = Options(lat_min=300).resolve(gpu())
    assert (hardware.sms, hardware.lat_min, hardware.sigma, hardware.hit_latency) == (14, 300, 40.0, 20)
    paper = Options(definition="paper", sms=1).resolve(gpu())
    assert (paper.sms, paper.lat_min, paper.sigma, paper.hit_latency) == (1, 100, 5.0, 0)


def test_no_more_sms_are_modelled_than_there_are():
    with pytest.raises(ConfigError, match="model_sms=15: must be at most 14, the number of SMs"):
        Options(model_sms=15).resolve(gpu())


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("ä b\u00a0c", "ä b\u00a0c"),
        ("two\nlines\r\n", r"two\nlines\r\n"),
        ("\x1b[2J\u2028\x85", r"\x1b[2J\u2028\x85"),
        ("half \ud800 a pair", r"half \ud800 a pair"),
        ("x" * 9000 + "y", "x" * (LONGEST // 2 - 5) + " ... " + "x" * (LONGEST // 2 - 1) + "y"),
        (
            "\n" * LONGEST,
            (r"\n" * LONGEST)[: LONGEST // 2 - 5] + " ... " + (r"\n" * LONGEST)[: LONGEST // 2],
        ),
        (ValueError("a\nb"), r"a\nb"),
    ],
)
def test_a_message_is_one_line_that_can_be_shown_whatever_it_quotes(message, shown):
    assert str(ConfigError(message)) == shown
    assert str(pickle.loads(pickle.dumps(TraceError(message)))) == shown
    shown.encode()


def test_errors_are_value_errors_too():
    assert issubclass(ConfigError, ValueError)
    assert issubclass(ConfigError, RdmodelError)
