"""Index functions of the user: tables and Python functions, in both engines and their references."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rdmodel as rd
import tracegen
from rdmodel import policies
from rdmodel.errors import ConfigError
from rdmodel.gpu.config import gpu_from_dict
from rdmodel.gpu.overrides import override
from rdmodel.model.options import Options
from tests.support.builders import make_trace
from tests.support.engine_checks import check_trace
from tests.support.examples import examples
from tests.support.random_predictions import HARDWARE, assert_counts_equal, expected, machines, programs

FERMI = rd.presets.gpu("gtx470-16k")
V100 = rd.presets.gpu("v100")
TRACE = tracegen.kernel("gemm", NI=32, NJ=32, NK=32)

called: list[int] = []


def mix(line: int) -> int:
    """Return a set from bits that no included function combines."""
    called.append(line)
    return (line ^ line >> 3 ^ line * 5 >> 7) % 4


def with_index(gpu: rd.GPU, index: policies.IndexFunction) -> rd.GPU:
    return gpu.replace(l1=replace(gpu.l1, index=index))


LINES = st.lists(st.integers(0, (1 << 56) - 1), min_size=1, max_size=20)


@examples(100)
@given(LINES, st.lists(st.integers(0, 31), min_size=1, max_size=70), st.integers(0, 40))
def test_a_table_gives_the_entry_of_the_shifted_line(lines, table, shift):
    found = policies.Table(table, shift=shift).set_of(np.array(lines), 32)
    assert found.tolist() == [table[(line >> shift) % len(table)] for line in lines]


@examples(100)
@given(LINES)
def test_a_function_is_called_with_each_line(lines):
    assert policies.Function(mix).set_of(np.array(lines), 4).tolist() == [mix(line) for line in lines]


def own_indices(sets: int) -> list[policies.IndexFunction]:
    """Return a table and a function that are defined for a number of sets."""
    table = policies.Table([(7 * entry + entry // 3) % sets for entry in range(13)], shift=1)
    return [table, policies.Function(lambda line: (line ^ line >> 3 ^ line * 5 >> 7) % sets)]


@examples(60)
@given(programs(), machines(), HARDWARE, st.integers(0, 1))
def test_compiled_model_and_reference_agree(program, gpu, options, which):
    gpu = with_index(gpu, own_indices(gpu.l1.sets)[which])
    trace = make_trace(*program)
    want = expected(trace, program[0], gpu, Options(**options).resolve(gpu), 1)
    assert_counts_equal(rd.predict(trace, gpu, seed=1, **options), want)


@pytest.mark.parametrize("which", [0, 1], ids=["table", "function"])
@pytest.mark.parametrize("gpu", [FERMI, V100], ids=["lines", "sectors"])
def test_compiled_machine_and_reference_agree(gpu, which):
    gpu = with_index(gpu, own_indices(gpu.l1.sets)[which])
    check_trace(tracegen.kernel("gemm", NI=8, NJ=32, NK=6), gpu, sms=2)


def test_functions_that_say_the_same_give_the_same_counts():
    fermi = policies.Fermi()
    own = policies.Function(lambda line: int(fermi.set_of(np.array([line]), 32)[0]))
    low = policies.Table(np.arange(32))
    for mine, included in ((own, fermi), (low, policies.Linear())):
        found, wanted = (rd.predict(TRACE, with_index(FERMI, index)) for index in (mine, included))
        assert found.misses == wanted.misses


def test_a_function_is_called_once_per_line_of_an_sm():
    called.clear()
    rd.predict(TRACE, with_index(FERMI, policies.Function(mix)), model_sms=1)
    assert called
    assert len(called) == len(set(called))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda line: 1 // (line - line), r"<lambda>\(\d+\) raised ZeroDivisionError: "),
        (
            lambda line: 32,
            r"<lambda>\(\d+\) returned 32; must be a whole number from 0 to 31, the last set of the cache",
        ),
        (lambda line: -1, r"<lambda>\(\d+\) returned -1; must be"),
        (lambda line: 1.0, r"<lambda>\(\d+\) returned 1.0; must be"),
        (lambda: 1, r"<lambda>\(\d+\) raised TypeError: "),
    ],
)
def test_a_mistake_in_a_function_ends_the_run_with_its_name_and_line(function, message):
    trace = tracegen.kernel("atax.1", NX=64, NY=64)
    gpu = with_index(FERMI, policies.Function(function))
    for run in (rd.predict, rd.simulate):
        with pytest.raises(ConfigError, match=message):
            run(trace, gpu)


def test_ctrl_c_in_a_function_is_not_swallowed():
    def stop(line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rd.predict(TRACE, with_index(FERMI, policies.Function(stop)), n_jobs=1)


def test_what_is_no_function_or_table_is_refused():
    with pytest.raises(ConfigError, match="function='mix': must be a Python function of a line"):
        policies.Function("mix")
    with pytest.raises(ConfigError, match="table=7: must be a sequence or an array of sets"):
        policies.Table(7)
    with pytest.raises(ConfigError, match="command lines cannot name one"):
        override(FERMI, {"l1.index": "function", "l1.index.function": "os.system"})


def test_a_table_can_be_given_on_the_command_line_and_in_files():
    changed = override(FERMI, {"l1.index": "table", "l1.index.table": "0,1,2,3", "l1.index.shift": "2"})
    assert changed.l1.index == policies.Table((0, 1, 2, 3), shift=2)
    assert gpu_from_dict(json.loads(json.dumps(changed.to_dict()))) == changed


def test_results_name_a_function_and_a_gpu_with_one_can_be_changed():
    gpu = with_index(FERMI, policies.Function(mix))
    assert gpu.to_dict()["l1"]["index"] == {"name": "function", "function": f"{__name__}.mix"}
    assert override(gpu, {"l1.mshrs": 8}).l1.index == policies.Function(mix)
    assert pickle.loads(pickle.dumps(gpu)) == gpu


def test_a_sweep_takes_functions_and_stores_no_answer_about_them(tmp_path):
    answers = str(tmp_path / "answers.sqlite")
    grid = {
        "index": [policies.Function(mix), policies.Table((0, 1, 3, 2))],
        "ways": [2, 4],
        "l1_size": [4096],
    }
    first, second = (rd.sweep(TRACE, FERMI, n_jobs=1, answers=answers, **grid) for _ in range(2))
    assert first == second
    assert (first.kept, second.kept) == (0, 2)
