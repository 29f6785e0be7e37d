"""The operations of the service: questions, their answers, and the refusal of questions without an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

import rdmodel
from rdmodel.errors import RdmodelError
from rdmodel.service import operations
from rdmodel.service.operations import is_answer, question_of
from rdmodel.service.protocol import Refusal
from rdmodel.service.requests import read_request
from tests.support.service_client import ROWS


def question(**fields: Any) -> dict[str, Any]:
    return question_of(read_request({"op": "predict", "kernel": "gemm", **fields}))


def test_a_question_does_not_depend_on_what_the_answer_does_not_depend_on():
    assert question() == question(id=7, timeout=3, gpu=rdmodel.presets.DEFAULT_GPU, seed=0, effort="exact")
    assert question(definition="paper") == question(definition="paper", gpu=rdmodel.presets.PAPER_GPU)
    assert question() != question(seed=1)


def test_a_question_knows_the_order_of_arrays_and_of_the_names_of_tiles():
    other = {**ROWS, "arrays": dict(reversed(ROWS["arrays"].items()))}
    assert other == ROWS
    assert json.dumps(question(kernel=other), sort_keys=True) != json.dumps(question(kernel=ROWS), sort_keys=True)


def test_a_kernel_as_text_is_no_name():
    assert question(kernel={"name": "x"})["kernel"] != question(kernel='{"name":"x"}')["kernel"]


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"kernel": "gem"}, "unknown kernel 'gem'; did you mean 'gemm'"),
        ({"gpu": "gtx47-16k"}, "unknown GPU 'gtx47-16k'; did you mean"),
        ({"gpu": "/etc/x.toml"}, "unknown GPU '/etc/x.toml'"),
        ({"gpu": {"name": "x"}}, "l1: is missing"),
        ({"gpu": {"name": "x" * 70_000}}, "gpu: is longer"),
        ({"set": {"l1.sise": 1}}, "unknown key 'l1.sise'; did you mean 'l1.size'"),
        ({"set": {"l1.size": "48Q"}}, "l1.size='48Q'"),
        ({"params": {"NX": 2}}, "unknown"),
        ({"params": {"NI": 0}}, "gemm: "),
        ({"params": {"NI": 1 << 62, "NJ": 1 << 62, "NK": 1 << 62}}, "gemm"),
        ({"params": {"NK": 1 << 40}}, "1099511627776 iterations"),
        ({"kernel": "bfs", "params": {"graph": 1}}, "unknown"),
        ({"block": [2000]}, "block"),
        ({"effort": "quik"}, "unknown value for effort: 'quik'; did you mean 'quick'"),
        ({"effort": "quick", "seeds": 3}, "seeds: only the effort 'exact'"),
        ({"work": 1000}, "work: only the effort 'quick'"),
        ({"sched": "rnd"}, "unknown value for sched"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": "x"}, "seed='x'"),
        ({"sms": 1 << 30, "model_sms": "all"}, "sms=1073741824"),
        ({"set": {"sms": 1 << 30}, "model_sms": "all"}, "sms=1073741824"),
        ({"seeds": 1 << 30}, "seeds=1073741824"),
        ({"gpu": "gtx470-16k", "set": {"l1.size": 1 << 40, "l1.index": "linear"}}, "sets need"),
        ({"set": {"l2.size": 1 << 36}}, "l2.size"),
        ({"kernel": {**ROWS, "body": [{"load": "B", "at": [0]}]}}, "unknown array 'B'"),
        ({"kernel": {**ROWS, "body": [{"load": "A", "at": ["x", "x + 1"]}]}}, "A[255, 256]"),
        ({"kernel": {**ROWS, "body": [{"load": "A", "at": ["x", "x * x"]}]}}, "'x * x': is not affine"),
        ({"kernel": {**ROWS, "description": "x" * 600_000}}, "kernel: is longer than 524288"),
        ({"kernel": {**ROWS, "bdy": []}}, "did you mean 'body'"),
        ({"kernel": {**ROWS, "parameters": {"N": 1 << 62}}}, "rows"),
    ],
)
def test_what_cannot_be_is_refused_and_the_offending_part_named(fields, part):
    request = read_request({"op": "predict", "kernel": "gemm", **fields})
    with pytest.raises((RdmodelError, Refusal)) as caught:
        operations.compute(request, lambda done, total: None, 1)
    assert part in str(caught.value)


def test_a_kernel_in_json_is_answered_as_predict_answers():
    import tracegen

    request = read_request(
        {"op": "predict", "kernel": ROWS, "params": {"N": 128}, "gpu": "gtx470-16k", "seed": 3, "set": {"l1.mshrs": 8}}
    )
    found = operations.compute(request, lambda done, total: None, 1)
    gpu = rdmodel.presets.gpu("gtx470-16k")
    gpu = gpu.replace(l1=rdmodel.gpu.config.replace(gpu.l1, mshrs=8))
    wanted = rdmodel.predict(tracegen.affine_kernel(ROWS, N=128), gpu, seed=3).to_dict()
    for name in ("transactions", "hits", "latency_misses", "misses", "miss_rate", "steps", "seed"):
        assert found[name] == wanted[name]
    assert found["config"]["gpu"]["l1"] == wanted["config"]["gpu"]["l1"]


def test_kernels_in_both_forms_are_answered_alike():
    import tracegen

    found = operations.compute(read_request({"op": "predict", "kernel": "atax.2"}), lambda done, total: None, 1)
    assert found["misses"] == rdmodel.predict(tracegen.kernel("atax.2")).to_dict()["misses"]


def test_every_kernel_that_is_listed_can_be_opened():
    for spec in operations.list_kernels()["kernels"]:
        trace = operations._trace_maker(spec["name"])({}, None)
        assert list(trace.launch.block) == spec["block"]


def test_a_gpu_that_is_answered_can_be_asked_with():
    one = operations.list_gpus({"gpu": "koo-fermi", "set": {"l1.index": "bxor"}})["gpus"][0]
    assert operations.requested_gpu({"gpu": json.loads(json.dumps(one))}).to_dict() == one


@pytest.mark.parametrize("stored", [None, [], {}, {"kernel": "gemm"}, {"kernel": 1, "gpu": "x"}])
@pytest.mark.parametrize("op", ["predict", "rank"])
def test_what_is_no_answer_is_not_taken_for_one(op, stored):
    assert not is_answer(op, stored)


@pytest.mark.parametrize("gpu", ["a100", "h100", "b200", "rtx5090"])
def test_all_sms_and_the_l2_of_a_large_gpu_are_within_the_limits_of_the_service(gpu):
    fields = {"kernel": "gemm", "params": {"NI": 64, "NJ": 64, "NK": 64}, "gpu": gpu, "model_sms": "all", "l2": True}
    found = operations.compute(read_request({"op": "predict", **fields}), lambda done, total: None, 1)
    assert found["sms_modelled"] == rdmodel.presets.gpu(gpu).sms
    assert found["l2"]["reads"] == sum(found["misses"][cause] for cause in ("compulsory", "capacity", "associativity"))
