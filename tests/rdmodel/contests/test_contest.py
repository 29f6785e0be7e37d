"""`contest`: what is run, that its ratios and means are what they are called, and how combinations are written."""

from __future__ import annotations

import doctest
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gmean

import rdmodel as rd
import tracegen
from rdmodel.contests import contest as contest_module
from rdmodel.errors import ConfigError, LaunchError, SimulationError, TraceError
from rdmodel.policies import MRPB, PD, POLICIES, SWL, BypassAll, Fermi, PMod, Pric, StreamingBypass
from rdmodel.policies.combinations import combinations
from rdmodel.policies.registry import BASELINE, COMBINATIONS
from tests.support.builders import make_gpu, make_trace
from tests.support.comparisons import loads
from tests.support.contests import hand_made
from tests.support.paths import ROOT
from tests.support.presets import FERMI
from tests.support.ptx_texts import GATHER
from tracegen import cuda
from tracegen.formats import compressed, trc
from tracegen.formats.trc import write_trc

ATAX = tracegen.kernel("atax.1", NX=64, NY=64, block=(32, 1, 1))
BICG = tracegen.kernel("bicg.1", NX=64, NY=64, block=(32, 1, 1))
NARROW = rd.presets.gpu("gtx470-16k").replace(max_block_threads=16)
LINES = make_trace([[loads(1, 2, 1, 3)]], warps=1)


# ---- laws


def test_nothing_relative_to_nothing_is_one():
    result = rd.contest([ATAX, BICG], [], gpu=FERMI, n_jobs=1)
    assert result.names == (BASELINE,)
    assert result.relative_ipc(BASELINE) == (1.0, 1.0)
    assert result.geometric_mean(BASELINE) == 1.0
    assert result.complete == (True, True)


def test_a_run_is_the_simulation_with_these_policies_and_options():
    options = {"sms": 2, "sched": "gto", "memory": 100, "seed": 5}
    policies = {"swl:warps=1": [SWL(warps=1)], "pd:distance=2+mrpb": [PD(distance=2), MRPB()]}
    result = rd.contest([ATAX, BICG], policies, "gtx480-khairy", n_jobs=1, **options)
    assert result.kernels == ("atax.1", "bicg.1")
    for trace, runs in zip((ATAX, BICG), result.simulations, strict=True):
        assert list(runs) == [BASELINE, *policies]
        assert runs[BASELINE] == rd.simulate(trace, "gtx480-khairy", **options)
        for name, wanted in policies.items():
            assert runs[name] == rd.simulate(trace, "gtx480-khairy", policies=wanted, **options)


def test_an_index_function_belongs_to_the_machine_of_its_combination_alone():
    result = rd.contest(ATAX, ["index:pric", [Fermi(), SWL(warps=1)], BypassAll()], "gtx480-khairy", n_jobs=1)
    used = [run.config["gpu"]["l1"]["index"]["name"] for run in result.simulations[0].values()]
    assert used == ["linear", "pric", "fermi", "linear"]


def test_the_result_is_the_same_for_any_number_of_processes():
    policies = ["swl:best", "pd", "dwt-pric", "mrpb"]
    results = [rd.contest([ATAX, BICG, LINES], policies, gpu=FERMI, n_jobs=jobs) for jobs in (1, 2, 3)]
    assert results[0] == results[1] == results[2]
    for result in results[1:]:
        assert [list(runs) for runs in result.simulations] == [list(runs) for runs in results[0].simulations]


def test_a_program_is_emulated_once_and_does_the_same_in_every_run(tmp_path):
    (tmp_path / "k.ptx").write_text(GATHER)
    results = []
    for jobs in (1, 2):
        trace = cuda.trace(tmp_path / "k.ptx", "k", (2, 1, 1), (64, 1, 1), {"x": "int[1024]:random"})
        results.append(rd.contest(trace, ["pd", "bypass-all"], gpu=FERMI, n_jobs=jobs))
    assert results[0] == results[1]
    assert len({run.loads + run.bypassed for run in results[0].simulations[0].values()}) == 1


def test_a_kernel_within_a_function_is_run_by_other_processes_too():
    def copy(k, A, B):
        k.load(A, k.x)
        k.store(B, k.x)

    traces = [tracegen.trace(copy, grid=2, block=64, arrays={"A": 128, "B": 128})] * 2
    assert rd.contest(traces, ["pd"], gpu=FERMI, n_jobs=1) == rd.contest(traces, ["pd"], gpu=FERMI, n_jobs=2)
    assert rd.contest(traces, [], gpu=FERMI, n_jobs=1).simulations[0][BASELINE] == rd.simulate(traces[0], gpu=FERMI)


@pytest.mark.parametrize("named", [True, False])
def test_columns_that_are_mapped_from_files_without_names_are_run_by_other_processes_too(tmp_path, monkeypatch, named):
    write_trc(tracegen.kernel("atax.1", NX=64, NY=200, block=(32, 1, 1)), tmp_path / "t.trc")
    monkeypatch.setattr(compressed, "CHUNK_BYTES", 1 << 10)
    trace = trc.read_trc(tmp_path / "t.trc", memory=1 << 14)
    assert isinstance(trace.columns.addresses.base, np.memmap)
    if not named:
        monkeypatch.setattr(trace.columns.addresses.base, "filename", None)
    assert rd.contest(trace, ["pd"], gpu=FERMI, n_jobs=2) == rd.contest(trace, ["pd"], gpu=FERMI, n_jobs=1)


@pytest.mark.parametrize("name", [*POLICIES, *COMBINATIONS])
def test_no_policy_changes_what_is_executed(name):
    required = {"swl": "swl:warps=1"}
    result = rd.contest(ATAX, [required.get(name, name)], gpu=FERMI, n_jobs=1, check=True)
    runs = result.simulations[0].values()
    assert len({run.instructions for run in runs}) == 1
    assert len({run.loads + run.bypassed for run in runs}) == 1


def test_the_best_static_limit_is_no_slower_than_any():
    trace = tracegen.kernel("atax.1", NX=128, NY=64)
    limits = [f"swl:warps={n}" for n in (1, 2, 3, 4)]
    result = rd.contest(trace, ["swl:best", *limits], gpu=FERMI, n_jobs=1)
    ratios = {name: result.relative_ipc(name)[0] for name in result.names}
    assert ratios["swl:best"] == max(ratios.values())
    found = result.simulations[0]["swl:best"].found["swl.warps"]
    assert ratios["swl:best"] == ratios[f"swl:warps={found}"]


# ---- numbers


def test_ipc_is_relative_to_none_of_the_same_kernel():
    result = hand_made({"none": 100, "pd": 50, "mrpb": 400}, {"none": 10, "pd": 20, "mrpb": 10})
    assert result.relative_ipc("pd") == pytest.approx((2.0, 0.5))
    assert result.relative_ipc("mrpb") == pytest.approx((0.25, 1.0))
    assert result.geometric_mean("pd") == pytest.approx(1)
    assert result.geometric_mean("mrpb") == pytest.approx(0.5)
    assert str(result) == "IPC relative to none over 2 kernels: pd 1.000, mrpb 0.500"


@given(st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)), min_size=1, max_size=8))
def test_the_geometric_mean_is_that_of_scipy(cycles):
    result = hand_made(*({"none": none, "pd": pd} for none, pd in cycles))
    assert result.geometric_mean("pd") == pytest.approx(gmean([none / pd for none, pd in cycles]))


def test_kernels_that_are_not_finished_are_left_out_of_all_means():
    names = ("none", "pd", "mrpb")
    result = hand_made({"none": 9, "pd": 3, "mrpb": 1}, {"none": 8, "pd": 1}, {"pd": 1}, names=names)
    assert result.complete == (True, False, False)
    assert result.relative_ipc("pd") == pytest.approx((3.0, 8.0, None), nan_ok=True)
    assert result.relative_ipc("mrpb")[1:] == (None, None)
    assert result.geometric_mean("pd") == pytest.approx(3)
    none = hand_made({"none": 9, "pd": 3}, names=names)
    assert none.geometric_mean("pd") is None
    assert str(none) == "IPC relative to none over 0 kernels: nothing to say"


def test_rows_and_dicts_have_every_run():
    result = rd.contest([ATAX, BICG], ["swl:best+pd:distance=3", [Pric()]], gpu=FERMI, n_jobs=1)
    rows = result.to_rows()
    assert [(row["kernel"], row["policies"]) for row in rows] == [
        (kernel, name) for kernel in ("atax.1", "bicg.1") for name in ("none", "swl:best+pd:distance=3", "index:pric")
    ]
    assert [row["relative_ipc"] for row in rows[:3]] == [result.relative_ipc(name)[0] for name in result.names]
    assert rows[1] == {"kernel": "atax.1", "policies": rows[1]["policies"], "relative_ipc": rows[1]["relative_ipc"]} | (
        result.simulations[0]["swl:best+pd:distance=3"].to_row()
    )
    plain = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    protection = {"name": "pd", "distance": 3, "counts": "set", "since": "use"}
    assert plain["combinations"][1]["policies"] == [{"name": "swl", "warps": "best"}, protection]
    assert plain["combinations"][2] == {"name": "index:pric", "policies": [], "index": {"name": "pric"}}
    assert plain["geometric_mean"] == {name: result.geometric_mean(name) for name in result.names}
    assert list(plain["kernels"][0]["relative_ipc"]) == list(plain["kernels"][0]["simulations"]) == list(result.names)


def test_a_frame_has_a_row_for_each_run():
    pandas = pytest.importorskip("pandas")
    result = hand_made({"none": 100, "pd": 50})
    pandas.testing.assert_frame_equal(result.to_frame(), pandas.DataFrame(result.to_rows()))


# ---- on the way


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_finished_run_is_told_and_shown(jobs):
    told, shown = [], []
    result = rd.contest(
        [ATAX, BICG],
        ["pd"],
        gpu=FERMI,
        n_jobs=jobs,
        progress=lambda *at: told.append(at),
        so_far=lambda one: shown.append(one),
    )
    assert told == [(n, 4) for n in (1, 2, 3, 4)]
    assert [sum(map(len, one.simulations)) for one in shown] == [1, 2, 3, 4]
    assert shown[-1] == result


def test_an_interruption_leaves_what_was_shown(monkeypatch):
    shown = []
    simulate = contest_module.simulate

    def stopping(trace, *args, **options):
        if len(shown) == 3:
            raise KeyboardInterrupt
        return simulate(trace, *args, **options)

    monkeypatch.setattr(contest_module, "simulate", stopping)
    with pytest.raises(KeyboardInterrupt):
        rd.contest([ATAX, BICG], ["pd"], gpu=FERMI, n_jobs=1, so_far=shown.append)
    assert shown[-1].complete == (True, False)
    assert shown[-1].relative_ipc("pd")[1] is None


ENDLESS = """
import os, signal, rdmodel as rd, tracegen

signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background begins without

class Endless(rd.Trace):
    def __init__(self):
        self.launch, self.blocks = small.launch, small.blocks

    def block(self, block):
        while True:
            pass

small = tracegen.kernel("atax.1", NX=64, NY=64, block=(32, 1, 1))
shown = []

def show(one):
    shown.append(one)
    print("finished", flush=True)

try:
    rd.contest([small, Endless()], [], n_jobs=2, so_far=show)
except KeyboardInterrupt:
    print(shown[-1].kernels)
"""


def test_an_interruption_ends_the_other_processes_quietly():
    script = subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with script:
        assert script.stdout.readline() == "finished\n"
        os.killpg(script.pid, signal.SIGINT)
        try:
            assert script.communicate(timeout=60) == ("('atax.1',)\n", "")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(script.pid, signal.SIGKILL)


class Deadly(rd.Trace):
    """A trace that ends the process that reads it."""

    def __init__(self) -> None:
        self.launch, self.blocks = ATAX.launch, ATAX.blocks
        self.parent = os.getpid()

    def block(self, block: int):
        assert os.getpid() != self.parent
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:A worker stopped")
def test_a_process_that_is_ended_from_outside_is_told_in_one_line():
    with pytest.raises(SimulationError, match=r"3 worker processes were killed.*try fewer jobs"):
        rd.contest(Deadly(), [], gpu=FERMI, n_jobs=2)


# ---- combinations


@pytest.mark.parametrize(
    ("text", "policies", "index"),
    [
        ("none", [], None),
        ("pd", [PD()], None),
        ("swl:best", [SWL(warps="best")], None),
        ("index:pric", [], Pric()),
        ("swl:warps=2+pd:distance=16+index:pmod", [SWL(warps=2), PD(distance=16)], PMod()),
        ("dwt-pric", [StreamingBypass(mpki=62.5), POLICIES["dwt-cs"]()], Pric()),
        ("dwt-pric+mrpb:entries=inf,drain=longest", None, Pric()),
        ("streaming-bypass:threshold=5e-1+mrpb", [StreamingBypass(threshold=0.5), MRPB()], None),
        ("dwt-cs:mpki=1e+2+pd", [POLICIES["dwt-cs"](mpki=100.0), PD()], None),
        ("none+pd", [PD()], None),
    ],
)
def test_a_text_joins_policies_with_plus_signs(text, policies, index):
    found = rd.combination(text)
    assert (found.name, found.index) == (text, index)
    if policies is None:
        assert found.policies[2] == MRPB(entries=None, drain="longest")
    else:
        assert list(found.policies) == policies


def test_objects_are_named_by_what_is_not_their_default():
    names = {
        "pd": PD(),
        "pd:distance=3": PD(distance=3),
        "mrpb:flush=false,bypass=none": MRPB(flush=False, bypass=None),
        "swl:warps=best": SWL(warps="best"),
        "index:pric": Pric(),
        "swl:warps=2+pd+index:fermi": [SWL(warps=2), "pd", Fermi()],
        "none": (),
    }
    for name, wanted in names.items():
        found = rd.combination(wanted)
        assert found.name == name
        assert rd.combination(name) == found
        assert rd.combination(found) is found


def test_a_list_has_commas_between_combinations_and_between_options():
    text = "none,swl:best,mrpb:drain=longest,entries=16,pcal:tokens=1,extra=2+pd:distance=4,index:pric"
    wanted = ["none", "swl:best", "mrpb:drain=longest,entries=16", "pcal:tokens=1,extra=2+pd:distance=4", "index:pric"]
    assert [one.name for one in combinations(text)] == wanted


def test_a_combination_that_is_named_twice_runs_once():
    assert rd.contest(ATAX, ["pd", "none", PD(), "pd"], gpu=FERMI, n_jobs=1).names == ("none", "pd")


def test_the_examples_in_the_docstrings_are_so():
    done = doctest.testmod(sys.modules[combinations.__module__])
    assert done.attempted > 0 and done.failed == 0


def test_the_page_has_a_section_for_every_policy_and_names_every_combination():
    text = (ROOT / "docs/policies.md").read_text()
    assert re.findall(r"^### `([\w-]+)`$", text, re.M) == [*POLICIES, "index"]
    for name in COMBINATIONS:
        assert f"`{name}`" in text


# ---- mistakes


BAD_TEXTS = {
    "swll:warps=2": r"unknown policy 'swll'; did you mean 'swl'",
    "dwt-prik": r"unknown policy 'dwt-prik'; did you mean 'dwt-pric'",
    "bogus": r"unknown policy 'bogus'; known: swl, ",
    "pd:distanse=4": r"unknown option of policy 'pd': 'distanse'; did you mean 'distance'",
    "pd:distance=0": r"policy 'pd': distance=0: must be at least 1",
    "pd+": r"unknown policy ''",
    "": r"unknown policy ''",
    "pd++mrpb": r"unknown policy ''",
    "pd+bypass-all": r"'pd' and 'bypass-all' are both of the kind 'admission'",
    "dwt-pric+swl:warps=1": r"'dwt-cs' and 'swl' are both of the kind 'throttling'",
    "index:pric+index:fermi": r"'pric' and 'fermi' are both index functions",
    "index:prik": r"unknown index function 'prik'; did you mean 'pric'",
    "index": r"unknown index function ''",
    "index:masks": r"index='masks': parameter 'masks' is missing",
    "pric+fermi": r"'pric' and 'fermi' are both index functions",
    "pric:polynomial=37": r"index function 'pric': takes no options in a text",
    "none:warps=3": r"combination 'none': takes no options",
    "swl:best,pd": r"policies are joined with a plus sign",
}


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_a_bad_text_is_told_with_the_near_misses(text):
    with pytest.raises(ConfigError, match=BAD_TEXTS[text]):
        rd.combination(text)


def never(*_: object, **__: object) -> None:
    raise AssertionError


@pytest.mark.parametrize(
    ("traces", "policies", "options", "error", "message"),
    [
        ([], ["pd"], {}, ConfigError, "traces: there is nothing to run"),
        ([ATAX, 3], ["pd"], {}, TraceError, "traces=3: must be a Trace"),
        (ATAX, "pd", {}, ConfigError, "policies='pd': must be a list of combinations"),
        (ATAX, PD(), {}, ConfigError, "must be a list of combinations"),
        (ATAX, [3], {}, ConfigError, "policies: 3 is neither"),
        (ATAX, [[PD(), 3]], {}, ConfigError, "policies: 3 is neither"),
        (ATAX, [[PD(), BypassAll()]], {}, ConfigError, "both of the kind 'admission'"),
        (ATAX, ["pd"], {"n_jobs": 0}, ConfigError, "n_jobs=0: must be at least 1"),
        (ATAX, ["pd"], {"n_jobs": 1.5}, ConfigError, "n_jobs=1.5: must be a whole number"),
        (ATAX, ["pd"], {"seed": -1}, ConfigError, "seed=-1"),
        (ATAX, ["pd"], {"check": 1}, ConfigError, "check=1: must be True or False"),
        (ATAX, ["pd"], {"shed": "gto"}, ConfigError, "unknown option 'shed'; did you mean 'sched'"),
        (ATAX, ["pd"], {"gpu": "gtx47"}, ConfigError, "did you mean 'gtx470"),
        (ATAX, ["index:pric"], {"gpu": make_gpu(size=128 * 36, ways=4, index=PMod())}, ConfigError, "not 9"),
        (
            ATAX,
            ["pd"],
            {"gpu": NARROW},
            LaunchError,
            "block=(32, 1, 1): 32 threads",
        ),
        (ATAX, [rd.Combination(name="none", policies=(PD(),))], {}, ConfigError, "two combinations are called 'none'"),
    ],
)
def test_mistakes_are_told_before_the_first_run(monkeypatch, traces, policies, options, error, message):
    monkeypatch.setattr(contest_module, "_run_all", never)
    with pytest.raises(error, match=re.escape(message)):
        rd.contest(traces, policies, **{"gpu": FERMI, **options})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": ""}, "name='': must be a text"),
        ({"name": 3}, "name=3: must be a text"),
        ({"name": "a", "policies": (Pric(),)}, "is an index function"),
        ({"name": "a", "index": "pric"}, "index='pric': must be an index function"),
    ],
)
def test_a_combination_is_checked_where_it_is_made(fields, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        rd.Combination(**fields)


def test_asking_about_a_combination_that_took_no_part_is_refused():
    result = hand_made({"none": 100, "pd": 50})
    with pytest.raises(ConfigError, match="'dp' takes no part in the contest; did you mean 'pd'"):
        result.relative_ipc("dp")
    with pytest.raises(ConfigError, match="'mrpb' takes no part in the contest; there are none, pd"):
        result.geometric_mean("mrpb")
