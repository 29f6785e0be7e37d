"""The measurements of an H100: the plan of launches, the experiments on its L1, and the committed records."""

from __future__ import annotations

import csv
import importlib
import json
import sys
import types
from itertools import pairwise

import pytest

from rdmodel import presets
from tests.support.builders import load, make_trace
from validation.h100 import plan, report, schedulers, study, times, tuning
from validation.h100.cases import FOLDER, GPU, own_cases
from validation.h100.placed import CASES as PLACED_CASES
from validation.h100.placed import PLACED, first_blocks

PRESET = presets.gpu(GPU)


@pytest.fixture(scope="module")
def chains():
    """The experiments, which are run beside their launcher, with an L1 by the rules of the preset for the GPU."""
    launcher = types.ModuleType("launcher")
    launcher.Gpu = None
    sys.modules["launcher"] = launcher
    sys.path.insert(0, str(FOLDER))
    try:
        yield importlib.import_module("chains")
    finally:
        sys.path.remove(str(FOLDER))
        del sys.modules["launcher"]


class Model:
    """The L1 of the preset, which accesses one word after the other."""

    def __init__(self, chains):
        self._chains = chains

    def misses(self, lines, shared_kib=32):
        return self.late([line * self._chains.LINE_WORDS for line in lines], shared_kib)

    def late(self, entries, shared_kib=32):
        pools, size = PRESET.l1.pools, PRESET.l1.tag_sets // PRESET.l1.pools
        capacity = self._chains.capacity(shared_kib) // pools
        # Of each set, the protected lines and the others, the oldest first.
        sets = [([], []) for _ in range(PRESET.l1.tag_sets)]
        used, turns, missed = [0] * pools, [0] * pools, []
        for at, entry in enumerate(entries):
            again = 2 if entry & self._chains.BOTH else 1
            line = (entry & ~(self._chains.BOTH | self._chains.STORE)) // self._chains.LINE_WORDS
            number = self._chains.set_of(line)
            protected, others = sets[number]
            if line not in protected + others:
                again -= 1
                missed.append(at)
                pool = number // size
                if len(protected) + len(others) == PRESET.l1.ways:
                    (others or protected).pop(0)
                elif used[pool] < capacity:
                    used[pool] += 1
                else:
                    places = ((turns[pool] + later) % size for later in range(size))
                    giving = next(place for place in places if any(sets[pool * size + place]))
                    last, first = sets[pool * size + giving]
                    (first or last).pop(0)
                    turns[pool] = giving + 1
                others.append(line)
            for _ in range(again):
                (protected if line in protected else others).remove(line)
                protected.append(line)
                if len(protected) > PRESET.l1.protected:
                    others.append(protected.pop(0))
        return missed

    def evicted(self, before, line):
        return self._chains.Chains.evicted(self, before, line)


def recorded(experiment):
    with (FOLDER / "chains.csv").open(newline="") as file:
        return [tuple(row.values())[1:] for row in csv.DictReader(file) if row["experiment"] == experiment]


def test_the_preset_has_the_sets_and_the_capacity_that_the_chains_use(chains):
    assert PRESET.l1.index.masks == chains.MASKS
    for shared_kib in chains.BLOCKS:
        assert PRESET.l1.with_carveout(shared_kib << 10).lines == chains.capacity(shared_kib)


@pytest.mark.parametrize("experiment", ["capacity", "stride", "oldest", "reuse"])
def test_an_l1_by_the_rules_of_the_preset_has_the_measured_results(chains, experiment):
    name = {"oldest": "age", "stride": "strides"}.get(experiment, experiment)
    found = {tuple(map(str, row[1:3])): row[3] for row in getattr(chains, f"measure_{name}")(Model(chains))}
    for case, number, result in recorded(experiment):
        if experiment != "capacity":
            assert (number, result) == (number, found[case, number])
        elif int(case) < 196:  # in an L1 of 60 or 28 KB, some lines seem to hold other data
            fits = int(number) <= chains.capacity(int(case))
            assert (int(result) == 0) == fits == (int(found[case, number]) == 0)


def test_the_lines_that_evict_each_other_are_in_one_set(chains):
    rivals = recorded("rivals")
    assert len(rivals) >= 5
    for line, _, others in rivals:
        assert len({chains.set_of(int(each)) for each in (line, *others.split())}) == 1
    for bit, _, number in recorded("set"):
        assert chains.set_of(1 << int(bit)) == int(number)


def test_the_turns_of_the_sets_explain_how_many_loads_of_a_circle_miss(chains):
    for case, count, result in recorded("pass"):
        if case == "32" and int(count) - chains.capacity(32) >= 20:
            rounds = [*map(int, result.split())]
            lines = [*range(int(count))] * (len(rounds) + 1)
            model = len(Model(chains).misses(lines)) - int(count)
            assert model == pytest.approx(sum(rounds), rel=0.1)


def test_of_a_circle_of_one_line_too_many_each_set_of_a_pool_loses_a_line_in_turn(chains):
    # The address of the data changes the numbers of all sets alike: the bits of some number are the other way round.
    turns = [[chains.set_of(int(line)) for line in result.split()] for _, _, result in recorded("turn")]
    assert len(turns) == 12
    assert all(len({number // 128 for number in sets}) == 1 for sets in turns), "one pool has the line too many"
    steps = [(a % 128, b % 128) for sets in turns for a, b in pairwise(sets)]
    assert len(steps) > 200
    assert any(all((a ^ other) + 1 & 127 == b ^ other for a, b in steps) for other in range(128))


def test_a_line_that_leaves_is_the_oldest_of_its_set():
    victims = recorded("victim")
    assert len(victims) == 72
    assert all(result.partition(": ")[2].startswith("0 of ") for *_, result in victims)
    assert all("own set" in result for *_, result in victims if result.endswith("full"))


def test_a_launch_of_a_plan_has_the_places_of_its_arrays(tmp_path, monkeypatch):
    pytest.importorskip("tracegen.cuda.nvrtc")
    (case,) = (case for case in own_cases() if case.name == "bfs")
    monkeypatch.setattr(plan, "assemble_code", lambda ptx, architecture: ptx.encode())
    try:
        plan.write_plan([case], tmp_path)
    except Exception as error:
        if "nvcc" in str(error):
            pytest.skip("no compiler")
        raise
    written = json.loads((tmp_path / plan.PLAN).read_text())
    (launch,) = written["launches"]
    assert [("at" if "at" in each else len(each["hex"]) // 2) for each in launch["args"]] == ["at"] * 4 + [4, 4]
    assert launch["args"][4] == {"hex": "03000000"}
    assert {item["at"] for item in launch["data"]} <= {each.get("at") for each in launch["args"]}
    assert written["pool"] >= launch["clear"]
    assert (tmp_path / launch["module"]).read_bytes().startswith(b"//")


def test_all_launches_are_measured_and_predicted():
    measured, predicted = study.read_measured(), report.predicted()
    assert {case.name for case in own_cases()} <= set(measured) == set(predicted)
    for metrics in measured.values():
        assert set(metrics) == set(study.METRICS)


def test_the_pages_are_those_of_their_records():
    assert report.RESULTS.read_text().partition("<!-- tables -->\n\n")[2] == report.page()
    assert tuning.PAGE.read_text().partition("<!-- tables -->\n\n")[2] == tuning.page()


def test_the_l1_miss_rate_is_right_within_a_point_and_a_half():
    measured = {case: study.by_words(metrics) for case, metrics in study.read_measured().items()}
    errors = [abs(error) for error in report.rate_errors(measured, report.predicted()).values()]
    assert sum(errors) / len(errors) < 1.5


def test_a_small_launch_is_predicted_as_recorded():
    (case,) = (case for case in own_cases() if case.name == "3dconv")
    try:
        rows = study.predict(case)
    except Exception as error:
        if "nvcc" in str(error):
            pytest.skip("no compiler")
        raise
    recorded_rows = report.predicted()["3dconv"]
    assert {row.counter: row.value for row in rows} == recorded_rows


def test_each_case_with_hits_has_a_rate_under_each_rule():
    cases = [case.name for case in schedulers.cases_with_hits()]
    assert [*schedulers.read_scheduled()] == cases
    assert all([*rates] == [*schedulers.RULES] for rates in schedulers.read_scheduled().values())


@pytest.mark.parametrize("rule", schedulers.RULES)
def test_a_small_launch_has_the_recorded_rate_under_a_scheduler(rule):
    (case,) = (case for case in own_cases() if case.name == "3dconv")
    try:
        found = schedulers.predict((case, rule))
    except Exception as error:
        if "nvcc" in str(error):
            pytest.skip("no compiler")
        raise
    assert found.miss_rate == schedulers.read_scheduled()["3dconv"][rule]


def test_the_first_blocks_of_the_gpu_are_each_dealt_once():
    launch = make_trace([[[load(0)]] * 8] * 1056, 8).launch
    assert sorted(first_blocks(launch)) == [*range(1056)]
    assert {row.partition(",")[0] for row in PLACED.read_text().splitlines()[1:]} == set(PLACED_CASES)


def test_the_record_of_times_has_the_cases_that_need_no_sources():
    assert [row.case for row in times.read_timed()] == [
        case.name for case in own_cases() if case.name in times.measured_times()
    ]


def test_the_time_of_a_short_case_is_that_of_the_record():
    recorded = {row.case: row for row in times.read_timed()}
    (case,) = (case for case in own_cases() if case.name == "mvt.1 4096")
    found = times.predict(case)
    assert found.bound == recorded[case.name].bound
    assert found.microseconds == pytest.approx(recorded[case.name].microseconds, rel=0.02)
