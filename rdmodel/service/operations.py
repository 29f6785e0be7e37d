"""What requests ask, and how it is answered: the only place that calls the model, with what it needs for that."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tracegen
from rdmodel import presets
from rdmodel.common.progress import Progress
from rdmodel.errors import unknown
from rdmodel.estimation.estimate import estimate
from rdmodel.execution.memory_need import prediction_bytes
from rdmodel.gpu.config import GPU, gpu_from_dict
from rdmodel.gpu.overrides import override
from rdmodel.model.predict import predict
from rdmodel.service.protocol import Refusal, text_of
from rdmodel.service.requests import EXACT_OPTIONS, MODEL_OPTIONS, QUICK_OPTIONS, Request
from rdmodel.tiling.rank import rank_tiles
from rdmodel.trace import Trace
from tracegen import affine
from tracegen.kernel_library.registry import REGISTRY

DEFAULTS: dict[str, dict[str, Any]] = {
    "predict": {"gpu": "gtx470-16k", "effort": "exact", "seed": 0},
    "rank": {"gpu": "gtx470-16k", "effort": "quick", "seed": 0, "objective": "dram_bytes", "top": 1},
}
"""Fields that a question has when its request leaves them out."""

EFFORTS = ("quick", "exact")

MOST_SMS = 1 << 12
MOST_SEEDS = 1 << 10
MOST_MEMORY = 2 << 30
"""SMs, seeds, and bytes of empty caches, that a request may ask for."""

MOST_GPU = 1 << 16
MOST_KERNEL = 1 << 19
"""Characters of a GPU and of a kernel as JSON."""

KEPT_KERNELS = 64
KEPT_LENGTH = 1 << 16
"""Kernels that are kept parsed, and characters of the longest of them as JSON."""


def question_of(request: Request) -> dict[str, Any]:
    """Return what is asked, as a question of `rdmodel.Answers`: equal for requests with the same answer.

    Kernels and tiles are texts in it: the order of arrays says where they lie in memory, and that of names of tiles
    which tile comes first. Raises `Refusal` for a GPU that is too long.
    """
    question = {"op": request.op, **DEFAULTS[request.op], **request.fields}
    for name in ("kernel", "tiles"):
        if isinstance(question.get(name), dict | list):
            question[name] = {"text": text_of(question[name])}
    return question


def is_answer(op: str, stored: Mapping[str, Any] | None) -> bool:
    """Tell whether what was stored can be the answer to a question."""
    if not isinstance(stored, Mapping):
        return False
    texts = ("kernel", "gpu") if op == "predict" else ("kernel", "gpu", "objective")
    if not all(isinstance(stored.get(name), str) for name in texts):
        return False
    if op == "rank":
        return isinstance(stored.get("tiles"), list) and isinstance(stored.get("infeasible"), list)
    numbers = ("transactions", "hits", "latency_misses", "miss_rate")
    return all(isinstance(stored.get(name), int | float) for name in numbers) and isinstance(
        stored.get("misses"), Mapping
    )


def compute(request: Request, progress: Progress, threads: int) -> dict[str, Any]:
    """Return the answer to a `predict` or `rank` request, ready for JSON.

    Raises `Refusal`, `RdmodelError`, and what `progress` raises.
    """
    fields = {**DEFAULTS[request.op], **request.fields}
    if fields["effort"] not in EFFORTS:
        raise Refusal("bad_input", unknown("value for effort:", fields["effort"], EFFORTS))
    gpu = machine(fields)
    options = _options(fields)
    _check_size(gpu, options)
    make = _kernel(fields["kernel"])
    if request.op == "rank":
        return _rank(make, gpu, fields, options, progress, threads)
    trace = make(fields.get("params", {}), fields.get("block"))
    if fields["effort"] == "quick":
        result = estimate(trace, gpu, progress=progress, **options)
    else:
        result = predict(trace, gpu, histogram=False, n_jobs=threads, progress=progress, **options)
    return result.to_dict()


def _options(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the model that are given; refuse those of the other effort."""
    other, effort = (EXACT_OPTIONS, "exact") if fields["effort"] == "quick" else (QUICK_OPTIONS, "quick")
    for name in other:
        if name in fields:
            raise Refusal("bad_input", f"{name}: only the effort {effort!r} has this option")
    return {name: fields[name] for name in (*MODEL_OPTIONS, *EXACT_OPTIONS, *QUICK_OPTIONS) if name in fields}


def _rank(
    make: Callable[[Mapping[str, int], Sequence[int] | None], Trace],
    gpu: GPU,
    fields: Mapping[str, Any],
    options: Mapping[str, Any],
    progress: Progress,
    threads: int,
) -> dict[str, Any]:
    def make_trace(tile: Mapping[str, Any]) -> Trace:
        progress(0, 1)
        sizes = {name: size for name, size in tile.items() if name != "block"}
        return make({**fields.get("params", {}), **sizes}, tile.get("block", fields.get("block")))

    chosen = {name: fields[name] for name in ("objective", "effort", "top")}
    ranking = rank_tiles(make_trace, fields["tiles"], gpu, **chosen, n_jobs=threads, progress=progress, **options)
    # Raises a `ConfigError` with the first reason if no tile can run: then something is wrong with the request.
    _ = ranking.best
    return ranking.to_dict()


def _check_size(gpu: GPU, options: Mapping[str, Any]) -> None:
    """Refuse what would need much memory before the first access: what is needed later, a time limit ends."""
    sms = options.get("sms")
    sms = gpu.sms if not isinstance(sms, int) else max(gpu.sms, sms)
    if sms > MOST_SMS:
        raise Refusal("too_large", f"sms={sms}: the service models machines of at most {MOST_SMS} SMs")
    seeds = options.get("seeds", 1)
    if isinstance(seeds, int) and seeds > MOST_SEEDS:
        raise Refusal("too_large", f"seeds={seeds}: the service runs at most {MOST_SEEDS}")
    model_sms = options.get("model_sms", 1)
    modelled = model_sms if isinstance(model_sms, int) and model_sms <= sms else sms
    least = prediction_bytes(0, sms=modelled, sets=gpu.l1.sets, warps=gpu.max_warps)
    if least > MOST_MEMORY:
        raise Refusal("too_large", f"{modelled} SMs with {gpu.l1.sets} sets need {least:,} bytes before they begin")
    lines = gpu.l2.slices * gpu.l2.size // gpu.l1.line
    if lines * 64 > MOST_MEMORY:
        raise Refusal(
            "too_large", f"l2.size: {lines} lines in all slices; the service has room for {MOST_MEMORY // 64}"
        )


# ---- GPUs


def machine(fields: Mapping[str, Any]) -> GPU:
    """Return the GPU of a request: a preset or an object, with the changes of `set`. No file is read.

    Raises `Refusal` or `ConfigError`.
    """
    given = fields["gpu"]
    if isinstance(given, str):
        if given not in _gpus():
            raise Refusal("bad_input", unknown("GPU", f"{given:.60}", _gpus()))
        gpu = presets.gpu(given)
    else:
        if len(text_of(given)) > MOST_GPU:
            raise Refusal("too_large", f"gpu: is longer than {MOST_GPU} characters")
        gpu = gpu_from_dict(given)
    return override(gpu, fields["set"]) if fields.get("set") else gpu


@functools.cache
def _gpus() -> tuple[str, ...]:
    return tuple(presets.names())


def gpus(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the GPUs that there are, or the one that is asked for, with all fields."""
    if fields:
        return {"gpus": [machine({**DEFAULTS["predict"], **fields}).to_dict()]}
    return {"gpus": [presets.gpu(name).to_dict() for name in _gpus()]}


# ---- kernels


@functools.cache
def kernels() -> dict[str, Any]:
    """Return the kernels that can be asked for by name: sizes with their defaults, and the block."""
    specs = {
        spec.name: {
            "name": spec.name,
            "sizes": dict(spec.sizes),
            "block": list(spec.block),
            "description": spec.description,
        }
        for spec in tracegen.kernels()
    }
    for name in affine.names():
        if name not in specs:
            kernel = _named(name)
            trace = tracegen.affine_kernel(kernel)
            specs[name] = {
                "name": name,
                "sizes": dict(kernel.parameters),
                "block": list(trace.launch.block),
                "description": kernel.description,
            }
    return {"kernels": list(specs.values())}


def _kernel(given: str | Mapping[str, Any]) -> Callable[[Mapping[str, int], Sequence[int] | None], Trace]:
    """Return what makes the trace of a kernel from the values of parameters and the shape of a block.

    Kernels that are there in both forms are taken as loop nests: the traces are the same, and there sooner.
    """
    if isinstance(given, str) and given not in affine.names():
        if given not in REGISTRY:
            names = dict.fromkeys((*REGISTRY, *affine.names()))
            raise Refusal("bad_input", unknown("kernel", f"{given:.60}", names))
        spec = REGISTRY[given]
        return lambda params, block: spec.trace(block=block, blocks=None, base=None, **_checked(spec, params))
    kernel = _named(given) if isinstance(given, str) else _from_json(given)
    return lambda params, block: tracegen.AffineTrace(kernel, params, block=block)


def _checked(spec: tracegen.KernelSpec, params: Mapping[str, int]) -> Mapping[str, int]:
    """Refuse inputs, which are files or arrays: a request has numbers only."""
    for name in params:
        if name not in spec.sizes:
            raise Refusal("bad_input", f"params: {unknown(f'size of {spec.name}', name, spec.sizes)}")
    return params


@functools.cache
def _named(name: str) -> tracegen.AffineKernel:
    return tracegen.load_affine(name)


def _from_json(given: Mapping[str, Any]) -> tracegen.AffineKernel:
    text = text_of(given)
    if len(text) > MOST_KERNEL:
        raise Refusal("too_large", f"kernel: is longer than {MOST_KERNEL} characters")
    return _parsed(text) if len(text) <= KEPT_LENGTH else affine.from_json(given)


@functools.lru_cache(KEPT_KERNELS)
def _parsed(text: str) -> tracegen.AffineKernel:
    return affine.from_json(json.loads(text))
