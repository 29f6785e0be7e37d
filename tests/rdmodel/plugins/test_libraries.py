"""Libraries of policies are built, checked and loaded; whatever is wrong with one is said."""

from __future__ import annotations

import ctypes
import json
import pickle
import re
import shutil
import sys
from types import ModuleType

import numpy as np
import pytest

import rdmodel as rd
import tracegen
from rdmodel.answers.store import Answers
from rdmodel.errors import ConfigError, RdmodelError, SimulationError
from rdmodel.plugins import table
from rdmodel.plugins.build import build_plugin, include_folder
from rdmodel.plugins.table import read_table
from rdmodel.policies import CompiledPolicy, Policy, load_policy, parse_policy
from rdmodel.policies.combinations import combination, combinations
from rdmodel.policies.registry import policy_fields, policy_from_fields
from rdmodel.reference.machine.plugin import ABSENT, BYPASS, IN_FLIGHT, OUTCOMES, USE, USE_PRESENT, VALID
from tests.support.commands import run
from tests.support.compiled_policies import SOURCES, build_text, compiled, folder
from tests.support.engine_checks import check
from tests.support.presets import FERMI
from tests.support.random_machines import Mix, random_blocks, random_gpu

HEAD = """
#include "rdmodel_policy.h"
#pragma GCC diagnostic ignored "-Woverride-init"
#define ALLOWED .version = RDMODEL_POLICY_VERSION, .bytes = sizeof(rdmodel_policy), .name = "mine", .description = "d"
static int32_t admit(const void *state, const rdmodel_access *access) { return RDMODEL_USE; }
static int32_t permit(const void *state, const rdmodel_warp *warp) { return RDMODEL_LOAD; }
static void period_ended(void *const *states, const rdmodel_counters *counters, int64_t sms) {}
void (*const use_period_ended)(void *const *, const rdmodel_counters *, int64_t) = period_ended;
int32_t (*const use_permit)(const void *, const rdmodel_warp *) = permit;
int32_t (*const use_admit)(const void *, const rdmodel_access *) = admit;
"""

TAIL = """
static const rdmodel_policy table = {%s};
const rdmodel_policy *rdmodel_policy_table(void) { return &table; }
"""


def source(table: str, before: str = "") -> str:
    return HEAD + before + TAIL % table


def option(name="x", value="1", least="0", most="2", whole="1") -> str:
    return f'static const rdmodel_option options[] = {{{{"{name}", {value}, {least}, {most}, {whole}}}}};'


ADMITS = "ALLOWED, .kind = RDMODEL_ADMISSION, .admit = admit"
WITH_OPTION = f"{ADMITS}, .options = 1, .option = options"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (source(ADMITS + ", .version = 7"), "was built for version 7 of rdmodel_policy.h with 120 bytes, and this is"),
        (source(ADMITS + ", .bytes = 8"), "with 8 bytes, and this is version 1 with 120 bytes; build it again"),
        (source(ADMITS + ", .name = 0"), "name: is NULL"),
        (source(ADMITS + ', .name = "My Policy"'), "name='My Policy': must consist of lower-case letters, digits and"),
        (source(ADMITS + ', .name = "swl"'), "name='swl': is the name of a policy of rdmodel; choose another"),
        (source(ADMITS + ', .name = "dwt-pric"'), "name='dwt-pric': is the name of a combination of rdmodel"),
        (source(ADMITS + ', .name = "pric"'), "name='pric': is the name of an index function of rdmodel"),
        (source(ADMITS + ", .description = 0"), "description: is NULL"),
        (source(ADMITS + ', .description = "\\xff"'), r"description=b'\xff': must be UTF-8"),
        (source(ADMITS + ", .kind = 3"), "kind=3: must be RDMODEL_ADMISSION or RDMODEL_THROTTLING"),
        (
            source(ADMITS + ", .admit = 0"),
            "decides nothing; a policy of the kind 'admission' must have admit or replace",
        ),
        (source(ADMITS + ", .permit = permit"), "permit: belongs to policies of the kind 'throttling'"),
        (source("ALLOWED, .kind = RDMODEL_THROTTLING"), "a policy of the kind 'throttling' must have permit"),
        (source(ADMITS + ", .options = 1"), "options=1: must be the number of options in the table"),
        (source(ADMITS + ", .options = -1"), "options=-1: must be the number of options in the table"),
        (
            source(ADMITS + ", .period_ended = period_ended"),
            "period_ended: needs a whole option 'period' of at least 1",
        ),
        (
            source(f"{WITH_OPTION}, .period_ended = period_ended", option("period", least="0")),
            "period_ended: needs a whole option 'period' of at least 1",
        ),
        (source(WITH_OPTION, option("Bad")), "option 'Bad': must be a Python identifier in lower case"),
        (source(WITH_OPTION, option("lambda")), "option 'lambda': must be a Python identifier in lower case"),
        (source(WITH_OPTION, option("kind")), "option 'kind': must be a Python identifier in lower case, and none of"),
        (source(WITH_OPTION, option(value="3")), "option 'x': the default 3 must be from 0 to 2"),
        (source(WITH_OPTION, option(value="1.0 / 0")), "option 'x': the default inf must be from 0 to 2"),
        (source(WITH_OPTION, option(value="0.5")), "option 'x': is a whole number; its default and its limits must be"),
        (
            source(
                f"{ADMITS}, .options = 2, .option = options",
                'static const rdmodel_option options[] = {{"x", 0, 0, 1, 1}, {"x", 0, 0, 1, 1}};',
            ),
            "option: two have one name",
        ),
        (HEAD + "const rdmodel_policy *rdmodel_policy_table(void) { return 0; }", "rdmodel_policy_table returned NULL"),
        ("int nothing;", "exports no rdmodel_policy_table; write it against rdmodel_policy.h"),
    ],
)
def test_a_table_that_is_not_sound_is_refused_with_the_field_and_the_value(tmp_path, text, message):
    library = build_text(tmp_path / "mine.c", text)
    with pytest.raises(ConfigError, match=re.escape(message)):
        load_policy(library)


def test_a_file_that_is_no_library_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"missing\.so: cannot be read: No such file"):
        load_policy(tmp_path / "missing.so")
    bad = tmp_path / "bad.so"
    bad.write_text("not a library")
    with pytest.raises(ConfigError, match=r"bad\.so: is no shared library for this machine"):
        parse_policy(str(bad))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"period": 0}, "period=0: must be from 1 to 1e+09"),
        ({"period": 1.5}, "period=1.5: must be a whole number"),
        ({"period": True}, "period=True: must be a whole number"),
        ({"bypassing": 1.5}, "bypassing=1.5: must be from 0 to 1"),
        ({"bypassing": float("nan")}, "bypassing=nan: must be from 0 to 1"),
        ({"bypassing": "much"}, "bypassing='much': must be a number"),
    ],
)
def test_options_are_checked_against_the_table(options, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        compiled("chaos.c")(**options)


def test_texts_name_a_library_by_its_path_and_then_by_its_name():
    path = compiled("chaos.c").table.path
    policy = parse_policy(f"{path}:period=7,bypassing=0.5")
    assert (
        policy == compiled("chaos.c")(period=7, bypassing=0.5) == parse_policy("chaos-admission:period=7,bypassing=0.5")
    )
    assert combination(f"swl:warps=2+{path}:seed=1").policies[1] == compiled("chaos.c")(seed=1)
    names = [listed.name for listed in combinations(f"none,{path}:seed=1,period=3,{path}")]
    assert names == ["none", f"{path}:seed=1,period=3", str(path)]
    with pytest.raises(ConfigError, match="unknown option of policy 'chaos-admission': 'seeds'; did you mean"):
        parse_policy(f"{path}:seeds=1")


def test_a_compiled_policy_is_a_frozen_value_with_its_digest_in_results():
    policy = compiled("chaos.c")(seed=3)
    assert isinstance(policy, CompiledPolicy) and isinstance(policy, Policy)
    assert repr(policy).startswith("ChaosAdmission(seed=3, period=50")
    assert policy == compiled("chaos.c")(seed=3) != compiled("chaos.c")(seed=4)
    plain = policy_fields(policy)
    assert plain["library"] == policy.digest and len(policy.digest) == 16
    assert policy_from_fields(json.loads(json.dumps(plain))) == policy
    with pytest.raises(ConfigError, match=r"library='0+': this process has '[0-9a-f]{16}' by that name"):
        policy_from_fields({**plain, "library": "0" * 16})


def test_other_processes_load_the_library_again():
    policy = compiled("chaos.c")(seed=3)
    assert pickle.loads(pickle.dumps(policy)) == policy
    trace = tracegen.kernel("atax.1", NX=64, NY=64)
    one, two = (
        rd.contest([trace], ["none", compiled("chaos_throttling.c")(seed=2)], FERMI, sms=1, n_jobs=jobs)
        for jobs in (1, 2)
    )
    cycles = [{name: run.cycles for name, run in result.simulations[0].items()} for result in (one, two)]
    assert cycles[0] == cycles[1] and len(cycles[0]) == 2


def test_a_library_that_was_built_anew_does_not_get_the_answers_of_the_old_one(tmp_path):
    text = (SOURCES / "oldest.c").read_text()
    first = load_policy(build_text(tmp_path / "one.c", text))
    trace = tracegen.kernel("atax.1", NX=64, NY=64)
    with Answers(tmp_path / "answers.db") as answers:
        rd.contest([trace], [first(warps=1)], FERMI, sms=1, answers=answers)
        again = rd.contest([trace], [first(warps=1)], FERMI, sms=1, answers=answers)
        second = load_policy(
            build_text(tmp_path / "two.c", text.replace("(double)warp->rank <", "0.0 + (double)warp->rank <="))
        )
        other = rd.contest([trace], [second(warps=1)], FERMI, sms=1, answers=answers)
    assert (again.kept, other.kept) == (2, 1)


FAULTY = """
static int32_t admit_badly(const void *state, const rdmodel_access *access) { return 5; }
static int64_t replace_badly(const void *state, const rdmodel_access *access, const rdmodel_line *lines, int64_t n)
{
    return n;
}
static int32_t permit_badly(const void *state, const rdmodel_warp *warp) { return -1; }
int32_t (*const use_a)(const void *, const rdmodel_access *) = admit_badly;
int64_t (*const use_r)(const void *, const rdmodel_access *, const rdmodel_line *, int64_t) = replace_badly;
int32_t (*const use_p)(const void *, const rdmodel_warp *) = permit_badly;
"""


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            ".kind = RDMODEL_ADMISSION, .admit = admit_badly",
            "policy 'mine': admit returned 5; must be from 0 to 2",
        ),
        (
            ".kind = RDMODEL_ADMISSION, .replace = replace_badly",
            "replace returned 2 for 2 lines; must be from -1 to 1",
        ),
        (".kind = RDMODEL_THROTTLING, .permit = permit_badly", "permit returned -1; must be from 0 to 2"),
    ],
)
def test_an_answer_that_is_not_allowed_ends_the_run_with_its_name(tmp_path, table, message):
    policy = load_policy(build_text(tmp_path / "mine.c", source(f"ALLOWED, {table}", FAULTY)))()
    trace = tracegen.kernel("atax.1", NX=256, NY=256)
    with pytest.raises(SimulationError, match=rf"atax\.1, cycle [0-9]+: a plug-in is at fault: .*{message}"):
        rd.simulate(trace, FERMI, sms=1, policies=[policy])


def test_a_state_without_memory_is_an_error(tmp_path):
    before = "static void *create(const rdmodel_machine *m, int64_t sm, const double *options) { return 0; }"
    policy = load_policy(build_text(tmp_path / "mine.c", source(ADMITS + ", .create = create", before)))()
    with pytest.raises(MemoryError):
        rd.simulate(tracegen.kernel("atax.1", NX=64, NY=64), FERMI, sms=1, policies=[policy])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mine.py", "", r"mine\.py: must be a source in C, C\+\+ or Cython"),
        ("broken.c", "int x = ;", r"broken\.c: the compiler failed with status 1; its messages are on stderr"),
        ("broken.pyx", "cdef int f(:", r"broken\.pyx: Cython failed with status 1; its messages are on stderr"),
    ],
)
def test_a_source_that_cannot_be_built_is_refused_and_leaves_the_old_library(tmp_path, capfd, name, text, message):
    (tmp_path / name).write_text(text)
    old = (tmp_path / name).with_suffix(".so")
    old.write_text("old")
    with pytest.raises(RdmodelError, match=message):
        build_plugin(tmp_path / name)
    assert name.endswith(".py") or f"{name}:1:" in capfd.readouterr().err
    assert old.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {name, old.name}


def test_sources_and_folders_that_do_not_exist_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"missing\.c: is no file"):
        build_plugin(tmp_path / "missing.c")
    with pytest.raises(ConfigError, match="the folder does not exist"):
        build_plugin(SOURCES / "lru.c", tmp_path / "no" / "lru.so")
    (tmp_path / "mine.pyx").write_text("")
    with pytest.raises(
        ConfigError, match=r"other\.so: must be called mine\.so, because a module in Cython knows its name"
    ):
        build_plugin(tmp_path / "mine.pyx", tmp_path / "other.so")


def test_without_a_compiler_the_error_says_which_one_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    with pytest.raises(RdmodelError, match=r"no-such-compiler: cannot be run: No such file.*; name a compiler in CC"):
        build_plugin(SOURCES / "lru.c", tmp_path / "lru.so")


def test_a_policy_in_cpp_is_built_with_the_compiler_of_cpp(tmp_path, monkeypatch):
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    monkeypatch.setenv("CXX", "g++ -std=c++20")
    text = (SOURCES / "lru.c").read_text().replace("#include", "#include <vector>\n#include", 1)
    assert load_policy(build_text(tmp_path / "lru.cpp", text)).name == "lru"


def test_the_structures_of_ctypes_have_the_sizes_of_the_header(tmp_path):
    names = ("machine", "warp", "access", "line", "counters", "option", "policy")
    lines = "".join(f"int64_t size_of_{name}(void) {{ return sizeof(rdmodel_{name}); }}\n" for name in names)
    constants = "int64_t numbers(int64_t i) { const int64_t n[] = {RDMODEL_USE, RDMODEL_USE_PRESENT, RDMODEL_BYPASS, "
    constants += "RDMODEL_ABSENT, RDMODEL_VALID, RDMODEL_IN_FLIGHT, RDMODEL_HIT, RDMODEL_PENDING_HIT, RDMODEL_MISS, "
    constants += (
        "RDMODEL_BYPASSED, RDMODEL_WAIT, RDMODEL_LOAD_PRESENT, RDMODEL_LOAD, RDMODEL_POLICY_VERSION}; return n[i]; }"
    )
    library = ctypes.CDLL(str(build_text(tmp_path / "sizes.c", f'#include "rdmodel_policy.h"\n{lines}{constants}')))
    for name in names:
        assert getattr(library, f"size_of_{name}")() == ctypes.sizeof(getattr(table, f"{name.capitalize()}Struct"))
    numbers = [library.numbers(i) for i in range(14)]
    assert numbers == [
        USE,
        USE_PRESENT,
        BYPASS,
        ABSENT,
        VALID,
        IN_FLIGHT,
        *OUTCOMES.values(),
        0,
        1,
        2,
        table.POLICY_VERSION,
    ]


def text_of_the_page(name: str) -> str:
    page = (SOURCES.parents[2] / "docs" / "plugins.md").read_text()
    session = page[page.index(f"$ cat > {name}") :]
    lines = session[: session.index("> END")].splitlines()[1:]
    return "\n".join(line[2:] for line in lines) + "\n"


def test_two_modules_of_one_name_are_two_policies_and_hide_no_installed_module(tmp_path, monkeypatch):
    installed = ModuleType("backoff")
    monkeypatch.setitem(sys.modules, "backoff", installed)
    libraries = []
    for place in ("first", "second"):
        (tmp_path / place).mkdir()
        libraries.append(build_text(tmp_path / place / "backoff.pyx", text_of_the_page("backoff.pyx")))
    tables = [read_table(path) for path in (*libraries, libraries[0])]
    assert [table.path for table in tables] == [*libraries, libraries[0]]
    assert tables[0].address == tables[2].address != tables[1].address
    assert sys.modules["backoff"] is installed
    monkeypatch.delitem(sys.modules, "backoff")
    read_table(libraries[1])
    assert "backoff" not in sys.modules


@pytest.mark.parametrize("seed", range(8))
def test_the_examples_of_the_page_run_alike_in_both_machines(seed):
    random = np.random.default_rng(seed)
    policies = []
    for name in ("srrip.c", "backoff.pyx"):
        library = folder() / f"{name.partition('.')[0]}.so"
        if not library.exists():
            build_text(folder() / name, text_of_the_page(name))
        policies.append(load_policy(library)())
    blocks = random_blocks(random, 6, 4, Mix(most=30, pool=tuple(range(24))))
    check(random, random_gpu(random), blocks, 2, 2, None, tuple(policies))


def test_the_command_builds_shows_and_runs_a_policy(tmp_path):
    shutil.copy(SOURCES / "oldest.c", tmp_path)
    built = run(["plugin", "build", "oldest.c"], cwd=tmp_path)
    assert built.returncode == 0 and built.stderr == ""
    assert built.stdout.splitlines()[0] == "oldest.so: policy 'oldest' of the kind 'throttling'"
    assert "use: --policy ./oldest.so" in built.stdout
    shown = json.loads(run(["plugin", "show", "oldest.so", "--json"], cwd=tmp_path).stdout)
    assert shown["options"] == [{"name": "warps", "default": 4, "least": 1.0, "most": 64.0}]
    run_it = ["simulate", "vectoradd", "--sms", "1", "--policy", "./oldest.so:warps=2", "--json"]
    found = json.loads(run(run_it, cwd=tmp_path).stdout)
    assert found["config"]["options"]["policies"] == [{"name": "oldest", "warps": 2, "library": shown["digest"]}]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["build"], "FILE: is missing; name a source"),
        (["show"], "FILE: is missing; name a library"),
        (["include", "x.c"], "FILE: 'plugin include' takes none; leave out 'x.c'"),
        (["show", "x.so", "-o", "y.so"], "-o: belongs to 'plugin build'; 'show' writes no file"),
        (["show", "x.so"], "x.so: cannot be read: No such file or directory"),
        (["make", "x.c"], "unknown action 'make'; known: build, show, include"),
    ],
)
def test_wrong_words_after_plugin_are_explained(tmp_path, words, message):
    done = run(["plugin", *words], cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr


def test_the_folder_of_the_header_is_that_of_the_package():
    assert (include_folder() / "rdmodel_policy.h").is_file() and (include_folder() / "policy.pxd").is_file()
    done = run(["plugin", "include"])
    assert done.stdout.strip() == str(include_folder())
