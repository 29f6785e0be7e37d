"""`rdmodel policies`, and `--policy` of the other commands: forms of output, options, and what is refused."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import subprocess
import sys

import pytest

import rdmodel as rd
import tracegen
from rdmodel.cli import progress_line
from rdmodel.contests import contest as contest_module
from rdmodel.errors import SimulationError
from rdmodel.policies import INDEX_FUNCTIONS, PD, POLICIES, parse_policy
from rdmodel.policies.registry import COMBINATIONS, required_options
from tests.support.commands import SIZES, SMALL, sections, timeless, without_times
from tests.support.presets import FERMI
from tests.support.ptx_texts import SAXPY
from tracegen.kernel_library.suites import SUITES

NAMES = ["atax.1", "bicg.1"]
FEW = ["--policies", "swl:best,pd:distance=2", "--jobs", "1"]
WANTED = ["swl:best", "pd:distance=2"]

WITH_PARAMETERS = ("masks", "table", "function")
"""Index functions that a text cannot name."""


def held(*names: str, policies: list[str] = WANTED, **options: object) -> rd.Contest:
    return rd.contest([tracegen.kernel(name, **SIZES) for name in names], policies, gpu=FERMI, n_jobs=1, **options)


def parts_of(text: str) -> list[list[list[str]]]:
    """Return the parts of the table of a contest, each a list of rows."""
    table = text.split("\n\n")[1:-2]
    return [[re.split(r"\s{2,}", line.strip()) for line in part.splitlines()] for part in table]


# ---- policies side by side


def test_json_is_what_the_library_returns(run):
    status, out, err = run("policies", *NAMES, *SMALL, *FEW, "--json", "--seed", "3", "--gpu", FERMI)
    assert (status, err) == (0, "")
    assert timeless(json.loads(out)) == timeless(json.loads(json.dumps(held(*NAMES, seed=3).to_dict())))


def test_csv_has_a_row_for_each_run_and_empty_fields_where_nothing_was_found(run):
    _, out, _ = run("policies", *NAMES, *SMALL, *FEW, "--csv", "--gpu", FERMI)
    found = list(csv.DictReader(io.StringIO(out)))
    assert found[0]["found_swl.warps"] == ""
    for row, wanted in zip(found, held(*NAMES).to_rows(), strict=True):
        plain = {name: str(value) for name, value in wanted.items()}
        assert without_times(row) == without_times({"found_swl.warps": "", **plain})


def test_the_text_has_every_kernel_with_every_combination_and_the_means(run):
    result = held(*NAMES)
    status, out, err = run("policies", *NAMES, *SMALL, *FEW, "--gpu", FERMI)
    assert (status, err) == (0, "")
    assert out.startswith("policies on gtx470-16k, 14 SMs, scheduler lrr\n\n  atax.1 NX=64 NY=64 ")
    *kernels, means = parts_of(out)
    for number, (part, runs) in enumerate(zip(kernels, result.simulations, strict=True)):
        assert part[0] == [f"{NAMES[number]} NX=64 NY=64", "relative", "IPC", "miss rate", "bypassed"]
        for (label, ratio, ipc, rate, bypassed, *found), (name, one) in zip(part[1:], runs.items(), strict=True):
            assert label == name
            assert ratio == f"{result.relative_ipc(name)[number]:.3f}"
            assert (ipc, rate) == (f"{one.ipc:.2f}", f"{100 * one.miss_rate:.2f} %")
            assert bypassed == f"{100 * one.bypassed / (one.loads + one.bypassed):.2f} %"
            assert found == ([f"swl.warps={one.found['swl.warps']}"] if name == "swl:best" else [])
    assert means[0] == ["geometric mean of 2 kernels", "relative"]
    assert means[1:] == [[name, f"{result.geometric_mean(name):.3f}"] for name in result.names]


def test_one_kernel_has_no_means(run):
    _, out, _ = run("policies", "atax.1", *SMALL, *FEW, "--gpu", FERMI)
    assert len(parts_of(out)) == 1
    assert "geometric" not in out


def test_loads_that_all_bypass_have_no_miss_rate(run):
    _, out, _ = run("policies", "atax.1", *SMALL, "--policies", "bypass-all", "--jobs", "1", "--gpu", FERMI)
    assert parts_of(out)[0][2][3:] == ["-", "100.00 %"]


def test_any_number_of_jobs_prints_the_same(run):
    outputs = {
        re.sub(
            r"\d+\.\d+ s",
            "",
            run("policies", *NAMES, *SMALL, "--policies", "pd,mrpb", "--jobs", jobs, "--gpu", FERMI)[1],
        )
        for jobs in ("1", "2", "-1")
    }
    assert len(outputs) == 1


def test_by_default_all_policies_run_that_need_no_options(run):
    _, out, _ = run("policies", "atax.1", *SMALL, "--blocks", "1", "--jobs", "1", "--json", "--gpu", FERMI)
    named = [one["name"] for one in json.loads(out)["combinations"]]
    assert named == [
        "none",
        "swl:best",
        *(name for name in POLICIES if name != "swl"),
        *list(COMBINATIONS)[1:],
    ]


def test_combinations_are_read_from_all_options_in_their_order(run):
    _, out, _ = run(
        *("policies", "atax.1", *SMALL, "--gpu", FERMI, "--jobs", "1", "--json"),
        *("--policies", "mrpb:drain=longest,entries=16,none", "--policies", "swl:warps=2+index:pric,dwt-pric"),
    )
    named = [one["name"] for one in json.loads(out)["combinations"]]
    assert named == ["none", "mrpb:drain=longest,entries=16", "swl:warps=2+index:pric", "dwt-pric"]


def test_a_plot_is_drawn_beside_the_output(run, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "a.svg"
    status, out, _ = run("policies", *NAMES, *SMALL, *FEW, "--csv", "--plot", str(path), "--gpu", FERMI)
    assert (status, out.count("\n")) == (0, 7)
    assert path.read_text().startswith("<?xml")


def test_every_option_reaches_the_simulator(run):
    options = (
        "--gpu gtx470-48k --set core.hit_latency=7 --l1 16K:4:128 --index bxor --mshr 9 --sched gto --allocate fill "
        "--sms 3 --blocks 1 --ideal-memory 70 --no-stores --check --seed 4"
    )
    _, out, _ = run(
        "policies", "atax.1", *SMALL, *options.split(), "--policies", "pd", "--jobs", "1", "--json", "--gpu", FERMI
    )
    for one in json.loads(out)["kernels"][0]["simulations"].values():
        config = one["config"]
        assert (config["gpu"]["core"]["hit_latency"], config["gpu"]["l1"]["index"]) == (7, {"name": "bxor"})
        assert (config["gpu"]["l1"]["mshrs"], config["gpu"]["l1"]["allocate"]) == (9, "fill")
        wanted = {"sms": 3, "blocks": 1, "memory": 70, "stores": False, "sched": "gto"}
        assert {name: config["options"][name] for name in wanted} == wanted
        assert one["seed"] == 4


def test_a_suite_is_run_at_its_sizes_and_can_be_cut(run, monkeypatch):
    sizes = {"atax.1": {"NX": 64, "NY": 32}, "gemm": {"NI": 32, "NJ": 32, "NK": 32}}
    monkeypatch.setitem(SUITES, "polybench", sizes)
    _, out, _ = run("policies", "--suite", "polybench", "--policies", "pd", "--jobs", "1", "--json", "--gpu", FERMI)
    runs = [one["simulations"]["pd"] for one in json.loads(out)["kernels"]]
    assert {one["kernel"]: one["config"]["trace"]["params"] for one in runs} == sizes
    _, out, _ = run(
        "policies", "--suite", "polybench", "gemm", "--policies", "pd", "--jobs", "1", "--csv", "--gpu", FERMI
    )
    assert {row["kernel"] for row in csv.DictReader(io.StringIO(out))} == {"gemm"}


@pytest.fixture(autouse=True)
def empty_answers_file(tmp_path, monkeypatch):
    """Let every test run what another one has run."""
    monkeypatch.setenv("RDMODEL_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("form", ["--json", "--csv", "--check"])
@pytest.mark.parametrize(
    ("stop", "status", "said"),
    [(KeyboardInterrupt(), 130, "interrupted"), (SimulationError("k, cycle 7: stuck"), 1, "k, cycle 7: stuck")],
)
def test_what_is_finished_comes_out_even_if_the_rest_cannot(run, monkeypatch, form, stop, status, said):
    simulate = contest_module.simulate

    def stopping(trace, *given, policies, **options):
        if trace.launch.kernel == "bicg.1" and policies == (PD(),):
            raise stop
        return simulate(trace, *given, policies=policies, **options)

    monkeypatch.setattr(contest_module, "simulate", stopping)
    found, out, err = run("policies", *NAMES, *SMALL, "--policies", "mrpb,pd", "--jobs", "1", form, "--gpu", FERMI)
    assert (found, err) == (status, f"rdmodel: error: {said}\n")
    if form == "--json":
        plain = json.loads(out)["kernels"]
        assert [list(one["simulations"]) for one in plain] == [["none", "mrpb", "pd"], ["none", "mrpb"]]
    elif form == "--csv":
        assert [row["policies"] for row in csv.DictReader(io.StringIO(out))] == ["none", "mrpb", "pd", "none", "mrpb"]
    else:
        assert parts_of(out)[1][3] == ["pd", "-", "-", "-", "-", "not finished"]
        assert parts_of(out)[2][0][0] == "geometric mean of 1 kernel, 1 not finished"
    found = run("policies", "bicg.1", *SMALL, "--policies", "pd", "--jobs", "1", "--csv", "--gpu", FERMI)
    assert found[1].count("\n") == 2


def test_progress_is_a_bar_over_runs_and_is_wiped(run, monkeypatch):
    monkeypatch.setattr(progress_line, "monotonic", itertools.count().__next__)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _, _, err = run("policies", *NAMES, *SMALL, *FEW, "--csv", "--gpu", FERMI)
    lines = err.split("\r\x1b[K")[1:]
    assert lines[-1] == ""
    drawn = r"\[(#*)\.*\] (\d) of 6 runs, \d+ s(?:, about [^,]+ left)?"
    assert [re.fullmatch(drawn, line).groups() for line in lines[:-1]] == [
        ("#" * (progress_line.BAR_WIDTH * n // 6), str(n)) for n in range(1, 7)
    ]


# ---- the list


def test_without_kernels_everything_is_listed_with_its_options_and_source(run):
    status, out, err = run("policies")
    assert (status, err) == (0, "")
    table, named = (
        {label: cells for label, *cells in (re.split(r"\s{2,}", line) for line in part.splitlines())}
        for part in out.rstrip().split("\n\n")
    )
    assert list(table) == ["policy", *POLICIES, "index:NAME"]
    assert table["pcal"] == ["throttling", "tokens=best extra=2", "a baseline of Koo et al., section 6.4"]
    assert table["index:NAME"][1].split() == [
        name for name in INDEX_FUNCTIONS if name not in ("masks", "table", "function")
    ]
    for name, cls in POLICIES.items():
        kind, *options, source = table[name]
        assert kind == cls.kind
        # Papers that the collection of sources lacks are named by their conference.
        assert re.search(r"([Ss]ections?|table) \d|\b[A-Z]{3,} 20\d\d", source)
        for option in " ".join(options).split():
            if not option.endswith("=..."):
                given = ",".join(f"{required}=1" for required in required_options(cls))
                assert parse_policy(f"{name}:{given}{',' if given else ''}{option}") == parse_policy(
                    f"{name}:{given}" if given else name
                )
    assert list(named) == ["combination", *COMBINATIONS]


def test_the_list_as_json_has_what_each_policy_does(run):
    _, out, _ = run("policies", "--json")
    listed = {one["name"]: one for one in json.loads(out)}
    assert list(listed) == list(POLICIES)
    assert listed["swl"]["required"] == ["warps"]
    assert listed["dwt-cs"]["defaults"] == {"period": 10000, "mpki": 10.0, "confirm": 3, "sample": 3, "limit": None}
    assert all(one["description"] and one["source"] for one in listed.values())


def test_all_choices_are_listed_with_one_line_each(run):
    status, out, err = run("policies", "--list")
    assert (status, err) == (0, "")
    head, *lines = [re.split(r"\s{2,}", line) for line in out.splitlines()]
    assert head == ["name", "kind", "description"]
    named = [name for name in INDEX_FUNCTIONS if name not in WITH_PARAMETERS]
    indices = [f"index:{name}" for name in named]
    assert [name for name, _, _ in lines] == [*POLICIES, *indices, *COMBINATIONS]
    assert {kind for _, kind, _ in lines} == {"throttling", "admission", "reordering", "index", "combination"}
    plain = json.loads(run("policies", "--list", "--json")[1])
    assert [(one["name"], one["kind"], one["description"]) for one in plain] == [tuple(line) for line in lines]
    assert {one["name"]: one["stands_for"] for one in plain if "stands_for" in one} == dict(COMBINATIONS)
    for name in [line[0] for line in lines if line[0] != "swl"]:
        assert rd.combination(name).name == name


@pytest.mark.parametrize("given", [["atax.1"], ["--suite", "polybench"], ["--policies", "pd"], ["--csv"]])
def test_a_list_of_all_choices_runs_nothing(run, given):
    status, out, err = run("policies", "--list", *given)
    assert (status, out) == (2, "")
    assert "--list cannot be combined with" in err


# ---- --policy of simulate and locality


@pytest.mark.parametrize("command", ["simulate", "locality"])
def test_a_combination_is_a_policy_of_one_run(run, command):
    policies = ("--policy", "dwt-cs+pric", "--policy", "mrpb:entries=2,latency=3")
    status, out, err = run(command, "atax.1", *SMALL, "--gpu", FERMI, *policies)
    assert (status, err) == (0, "")
    assert "\npolicies dwt-cs, mrpb:entries=2,latency=3, index:pric\n" in out
    plain = json.loads(run(command, "atax.1", *SMALL, "--gpu", FERMI, "--policy", "apcm-swl", "--json")[1])
    config = plain["config"]
    assert [one["name"] for one in config["options"]["policies"]] == ["apcm", "swl"]


def test_a_combination_is_that_of_a_contest(run):
    plain = json.loads(run("simulate", "atax.1", *SMALL, "--policy", "dwt-pric", "--json", "--gpu", FERMI)[1])
    _, out, _ = run("policies", "atax.1", *SMALL, "--policies", "dwt-pric", "--jobs", "1", "--json", "--gpu", FERMI)
    del plain["occupancy"]
    assert timeless(plain) == timeless(json.loads(out)["kernels"][0]["simulations"]["dwt-pric"])
    assert plain["config"]["gpu"]["l1"]["index"] == {"name": "pric"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["dwt-prik"], "unknown policy 'dwt-prik'; did you mean 'dwt-pric'"),
        (["pd+bypass-all"], "'pd' and 'bypass-all' are both of the kind 'admission'"),
        (["pd", "apcm-swl"], "'pd' and 'apcm' are both of the kind 'admission'"),
        (["dwt-pric", "fermi"], "'pric' and 'fermi' are both index functions of the L1"),
        (["swl:best,pd"], "'best' must be option=value; policies are joined with a plus sign"),
        (["pd+"], "unknown policy ''"),
    ],
)
def test_a_bad_combination_is_told_with_what_is_allowed(run, given, said):
    options = [text for one in given for text in ("--policy", one)]
    status, out, err = run("simulate", "atax.1", *SMALL, *options, "--gpu", FERMI)
    assert (status, out) == (2, "")
    assert said in err


def test_the_report_of_a_run_says_policies_bypassed_loads_and_what_was_found(run):
    options = ["--policy", "swl:best", "--policy", "pd:distance=1", "--policy", "mrpb:entries=2"]
    status, out, err = run("simulate", "atax.1", *SMALL, *options, "--gpu", FERMI)
    assert (status, err) == (0, "")
    result = rd.simulate(
        tracegen.kernel("atax.1", **SIZES), gpu=FERMI, policies=["swl:best", "pd:distance=1", "mrpb:entries=2"]
    )
    found = result.found["swl.warps"]
    assert f"\npolicies swl:warps=best, pd:distance=1, mrpb:entries=2; found swl.warps={found}\noccupancy: " in out
    assert sections(out)["L1"]["bypassed"] == [f"{result.bypassed:,}"]
    assert ", loads that bypass the L1 and stores" in out
    plain = json.loads(run("simulate", "atax.1", *SMALL, *options, "--json", "--gpu", FERMI)[1])
    assert plain.pop("occupancy")["limiter"] == "blocks"
    assert timeless(plain) == timeless(json.loads(json.dumps(result.to_dict())))


def test_a_run_without_policies_says_nothing_of_them(run):
    _, out, _ = run("simulate", "atax.1", *SMALL, "--gpu", FERMI)
    assert "polic" not in out
    assert "bypass" not in out


def test_runs_that_find_different_things_fit_in_one_csv(run):
    _, out, _ = run(
        "simulate", *NAMES, *SMALL, "--policy", "dwt-cs:period=50,confirm=1,mpki=1000", "--csv", "--gpu", FERMI
    )
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["kernel"] for row in rows] == NAMES


def test_locality_takes_policies_too(run):
    status, out, _ = run("locality", "atax.1", *SMALL, "--policy", "swl:warps=1", "--gpu", FERMI)
    assert status == 0
    assert "\npolicies swl:warps=1\n\n" in out
    _, out, _ = run("locality", "atax.1", *SMALL, "--policy", "swl:warps=1", "--json", "--gpu", FERMI)
    found = rd.locality(tracegen.kernel("atax.1", **SIZES), gpu=FERMI, policies=["swl:warps=1"]).to_dict()
    assert timeless(json.loads(out)) == timeless(json.loads(json.dumps(found)))


# ---- several launches


HASTY = "dwt-cs:period=50,confirm=1,mpki=10"


@pytest.fixture
def launches(tmp_path):
    """Return a file with two launches of one kernel, and one of another."""
    other = SAXPY.replace("saxpy", "other").partition(".visible")
    (tmp_path / "both.ptx").write_text(SAXPY + "".join(other[1:]))
    file = tmp_path / "three.toml"
    file.write_text(
        'source = "both.ptx"\ngrid = 40\nblock = 256\n'
        'args = { a = 2.0, n = 10240, x = "float[10240]:iota", y = "float[10240]" }\n'
        + "".join(f'[[launch]]\nkernel = "{kernel}"\n' for kernel in ("saxpy", "other", "saxpy"))
    )
    return str(file)


def limits_of(results: list[dict]) -> list[int | None]:
    return [one["config"]["options"]["policies"][0]["limit"] for one in results]


def test_a_limit_that_was_found_holds_for_later_launches_of_the_kernel(run, launches):
    options = ["--policy", HASTY, "--policy", "pd", "--json"]
    three = json.loads(run("simulate", launches, *options, "--gpu", FERMI)[1])
    assert limits_of(three) == [None, None, three[0]["found"]["dwt-cs.limit"]]
    assert [one["config"]["options"]["policies"][1]["name"] for one in three] == ["pd"] * 3
    assert limits_of(json.loads(run("locality", launches, *options, "--gpu", FERMI)[1])) == limits_of(three)


def test_a_limit_that_was_found_is_forgotten_with_the_file(run, launches):
    found = json.loads(run("simulate", launches, launches, "--policy", HASTY, "--json", "--gpu", FERMI)[1])
    assert limits_of(found) == 2 * [None, None, found[0]["found"]["dwt-cs.limit"]]


def test_what_is_remembered_is_the_limit_and_nothing_else():
    given = [rd.policies.SWL(warps="best"), PD()]
    assert rd.policies.remember(given, {"swl.warps": 3}) == tuple(given)
    assert rd.policies.remember([HASTY, PD()], {}) == (parse_policy(HASTY), PD())
    assert rd.policies.remember([HASTY, "pd"], {"dwt-cs.limit": 3}) == (parse_policy(f"{HASTY},limit=3"), PD())
    # What a later launch decides goes on; one that decides nothing leaves the limit as it is.
    assert rd.policies.remember(["dwt-cs:limit=3"], {"dwt-cs.limit": 2}) == (parse_policy("dwt-cs:limit=2"),)
    assert rd.policies.remember(["dwt-cs:limit=3"], {}) == (parse_policy("dwt-cs:limit=3"),)
    with pytest.raises(rd.ConfigError, match="did you mean 'dwt-cs'"):
        rd.policies.remember(["dwt-sc"], {})


# ---- mistakes


BAD = {
    "policies gemm --policies swll:best": "unknown policy 'swll'; did you mean 'swl'",
    "policies gemm --policies dwt-prik": "did you mean 'dwt-pric'",
    "policies gemm --policies pd,,mrpb": "unknown policy ''",
    "policies gemm --policies pd:distance": "policy 'pd': 'distance' must be option=value",
    "policies gemm --policies pd+bypass-all": "'pd' and 'bypass-all' are both of the kind 'admission'",
    "policies gemm --policies index:prik": "did you mean 'pric'",
    "policies gemm --policy pd": "unknown argument '--policy'; did you mean '--policies'",
    "policies gemm --jobs 0": "n_jobs=0: must be at least 1",
    "policies gemm --jobs two": "'two' is not a whole number",
    "policies gemmm --policies pd": "did you mean 'gemm'",
    "policies gemm --plot a.gif": "plot='a.gif': must end in .svg, .png, .pdf",
    "policies gemm --block 2048": "2048 threads, at most 1024 fit in a block",
    "policies gemm --json --csv": "not allowed with argument",
    "policies --policies pd": "KERNEL_OR_FILE: is missing; name a kernel or a file, or --suite NAME",
    "policies --csv": "KERNEL_OR_FILE: is missing",
    "policies --plot a.svg": "KERNEL_OR_FILE: is missing",
    "policies --suite polybenk": "did you mean 'polybench'",
    "policies --suite polybench gem": "unknown kernel of the suite polybench: 'gem'; did you mean 'gemm'",
    "policies --suite polybench --param NI=4": "--param: --suite polybench is a suite, which has its own sizes",
    "policy gemm": "did you mean 'policies'",
    "simulate gemm --policy swll:warps=1": "unknown policy 'swll'; did you mean 'swl'",
    "simulate gemm --policy swl": "policy 'swl': option 'warps' is missing",
    "simulate gemm --policy pric:p=3": "index function 'pric': takes no options in a text",
    "simulate gemm --policy pd --policy bypass-all": "'pd' and 'bypass-all' are both of the kind 'admission'",
    "locality gemm --policy pd:distanse=2": "did you mean 'distance'",
}


@pytest.mark.parametrize("line", BAD)
def test_a_mistake_gives_status_2_and_one_clear_line_before_the_work(run, monkeypatch, line):
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(contest_module, "_run_all", never)
    status, out, err = run(*line.split())
    assert (status, out) == (2, "")
    assert BAD[line] in err
    assert err.count("\n") == 1


def test_asking_for_help_loads_no_numpy_and_other_commands_no_joblib():
    code = (
        "import sys, contextlib; from rdmodel.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['policies', '--help'])\n"
        "print('numpy' in sys.modules, file=sys.stderr)\n"
        "main(['policies'])\n"
        "print('joblib' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "False\nFalse\n"


def test_a_second_contest_takes_its_runs_from_the_answers_file(run, tmp_path):
    words = ["policies", "atax.1", "--param", "NX=64", "--param", "NY=64", "--gpu", "gtx470-16k", "--policies", "pd"]
    file = ["--cache", str(tmp_path / "runs.sqlite")]
    first, second, third = run(*words, *file), run(*words, *file), run(*words, "--no-cache")
    assert first[0] == second[0] == third[0] == 0
    assert (first[2], third[2]) == ("", "")
    assert second[2] == "rdmodel: 2 runs were taken from the answers file\n"
    tables = [re.sub(r"[\d.]+ s of work", "", out) for _, out, _ in (first, second, third)]
    assert tables[0] == tables[1] == tables[2]
