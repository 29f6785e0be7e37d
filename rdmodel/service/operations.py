"""Compute the answers to requests: build GPUs and kernels from their fields, and call the model."""

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
from rdmodel.gpu.default import default_gpu
from rdmodel.gpu.overrides import override
from rdmodel.model.predict import predict
from rdmodel.service.protocol import Refusal, json_text
from rdmodel.service.requests import EXACT_OPTIONS, MODEL_OPTIONS, QUICK_OPTIONS, ServiceRequest
from rdmodel.tiling.rank import rank_tiles
from rdmodel.trace import Trace
from tracegen import affine
from tracegen.kernel_library.registry import declared_spec, kernel_names

DEFAULTS: dict[str, dict[str, Any]] = {
    "predict": {"effort": "exact", "seed": 0},
    "rank": {"effort": "quick", "seed": 0, "objective": "dram_bytes", "top": 1},
}
"""Values of the fields that a request leaves out, by op; that of `gpu` is `default_gpu`."""

EFFORTS = ("quick", "exact")
"""Values of the field `effort`."""

MAX_REQUEST_SMS = 1 << 12
MAX_REQUEST_SEEDS = 1 << 10
MAX_EMPTY_CACHE_BYTES = 2 << 30
"""Limits of a request on SMs, seeds, and the memory of its caches before the first access."""

L2_LINE_BYTES = 64
"""Memory for one line of an empty L2."""

MAX_GPU_CHARACTERS = 1 << 16
MAX_KERNEL_CHARACTERS = 1 << 19
"""Maximum length of a GPU and of a kernel as JSON."""

CACHED_KERNELS = 64
MAX_CACHED_KERNEL_CHARACTERS = 1 << 16
"""Number of parsed kernels in the cache, and the maximum length of each as JSON."""


def question_of(request: ServiceRequest) -> dict[str, Any]:
    """Return the question of a request for `rdmodel.Answers`; requests with the same answer have equal questions.

    Kernels and tiles become texts, because the order of their members matters: that of arrays decides their addresses,
    that of tile sizes the order of the tiles.
    """
    question = {"op": request.op, **_with_defaults(request)}
    for name in ("kernel", "tiles"):
        if isinstance(question.get(name), dict | list):
            question[name] = {"text": json_text(question[name])}
    return question


def _with_defaults(request: ServiceRequest) -> dict[str, Any]:
    """Return the fields of a `predict` or `rank` request, with the default values of those that it leaves out."""
    gpu = default_gpu([request.fields.get("definition")])
    return {"gpu": gpu, **DEFAULTS[request.op], **request.fields}


def is_answer(op: str, stored: Mapping[str, Any] | None) -> bool:
    """Tell whether a stored value has the form of an answer to `op`."""
    if not isinstance(stored, Mapping):
        return False
    texts = ("kernel", "gpu") if op == "predict" else ("kernel", "gpu", "objective")
    if not all(isinstance(stored.get(name), str) for name in texts):
        return False
    if op == "rank":
        return isinstance(stored.get("tiles"), list) and isinstance(stored.get("infeasible"), list)
    if not isinstance(stored.get("miss_rate", ""), int | float | None):
        return False
    numbers = ("transactions", "hits", "latency_misses")
    return all(isinstance(stored.get(name), int | float) for name in numbers) and isinstance(
        stored.get("misses"), Mapping
    )


def compute(request: ServiceRequest, progress: Progress, threads: int) -> dict[str, Any]:
    """Return the answer to a `predict` or `rank` request, ready for JSON.

    Raises `Refusal`, `RdmodelError`, and any exception of `progress`.
    """
    fields = _with_defaults(request)
    if fields["effort"] not in EFFORTS:
        raise Refusal("bad_input", unknown("value for effort:", fields["effort"], EFFORTS))
    gpu = requested_gpu(fields)
    options = _options(fields)
    _check_size(gpu, options)
    make_trace = _trace_maker(fields["kernel"])
    if request.op == "rank":
        return _rank(make_trace, gpu, fields, options, progress, threads)
    trace = make_trace(fields.get("params", {}), fields.get("block"))
    if fields["effort"] == "quick":
        result = estimate(trace, gpu, progress=progress, **options)
    else:
        result = predict(trace, gpu, histogram=False, n_jobs=threads, progress=progress, **options)
    return result.to_dict()


def _options(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given options of the model; raise `Refusal` for an option of the other effort."""
    other, effort = (EXACT_OPTIONS, "exact") if fields["effort"] == "quick" else (QUICK_OPTIONS, "quick")
    for name in other:
        if name in fields:
            raise Refusal("bad_input", f"{name}: only the effort {effort!r} has this option")
    return {name: fields[name] for name in (*MODEL_OPTIONS, *EXACT_OPTIONS, *QUICK_OPTIONS) if name in fields}


def _rank(
    make_trace: Callable[[Mapping[str, int], Sequence[int] | None], Trace],
    gpu: GPU,
    fields: Mapping[str, Any],
    options: Mapping[str, Any],
    progress: Progress,
    threads: int,
) -> dict[str, Any]:
    def make_tile(tile: Mapping[str, Any]) -> Trace:
        progress(0, 1)
        sizes = {name: size for name, size in tile.items() if name != "block"}
        return make_trace({**fields.get("params", {}), **sizes}, tile.get("block", fields.get("block")))

    chosen = {name: fields[name] for name in ("objective", "effort", "top")}
    ranking = rank_tiles(make_tile, fields["tiles"], gpu, **chosen, n_jobs=threads, progress=progress, **options)
    # Raises a `ConfigError` with the first reason if no tile can run: the request must be wrong then.
    _ = ranking.best
    return ranking.to_dict()


def _check_size(gpu: GPU, options: Mapping[str, Any]) -> None:
    """Raise `Refusal` if empty caches would need too much memory; the time limit bounds the memory of a run later.

    The buffers of warps are no part of it: SMs fill them later, and share some.
    """
    sms = options.get("sms")
    sms = gpu.sms if not isinstance(sms, int) else max(gpu.sms, sms)
    if sms > MAX_REQUEST_SMS:
        raise Refusal("too_large", f"sms={sms}: the service models at most {MAX_REQUEST_SMS} SMs")
    seeds = options.get("seeds", 1)
    if isinstance(seeds, int) and seeds > MAX_REQUEST_SEEDS:
        raise Refusal("too_large", f"seeds={seeds}: the service runs at most {MAX_REQUEST_SEEDS}")
    model_sms = options.get("model_sms", 1)
    modelled = model_sms if isinstance(model_sms, int) and model_sms <= sms else sms
    least = prediction_bytes(0, sms=modelled, sets=gpu.l1.sets, warps=0)
    if least > MAX_EMPTY_CACHE_BYTES:
        raise Refusal(
            "too_large", f"{modelled} SMs with {gpu.l1.sets} sets need {least:,} bytes before the first access"
        )
    lines = gpu.l2.slices * gpu.l2.size // gpu.l1.line
    if lines * L2_LINE_BYTES > MAX_EMPTY_CACHE_BYTES:
        raise Refusal(
            "too_large",
            f"l2.size: {lines} lines in all slices; the service has room for {MAX_EMPTY_CACHE_BYTES // L2_LINE_BYTES}",
        )


# ---- GPUs


def requested_gpu(fields: Mapping[str, Any]) -> GPU:
    """Return the GPU of a request: a preset or an object, with the changes in `set`; no file is read.

    Raises `Refusal` or `ConfigError`.
    """
    given = fields["gpu"]
    if isinstance(given, str):
        if given.endswith(presets.SUFFIX):
            raise Refusal("bad_input", unknown("GPU", f"{given:.60}", _gpu_names()))
        gpu = presets.gpu(f"{given:.60}")
    else:
        if len(json_text(given)) > MAX_GPU_CHARACTERS:
            raise Refusal("too_large", f"gpu: is longer than {MAX_GPU_CHARACTERS} characters")
        gpu = gpu_from_dict(given)
    return override(gpu, fields["set"]) if fields.get("set") else gpu


@functools.cache
def _gpu_names() -> tuple[str, ...]:
    return tuple(presets.names())


def list_gpus(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return all presets with all their fields, or only the GPU that `fields` describe."""
    if fields:
        return {"gpus": [requested_gpu({"gpu": default_gpu(), **fields}).to_dict()]}
    return {"gpus": [presets.gpu(name).to_dict() for name in _gpu_names()]}


# ---- kernels


@functools.cache
def list_kernels() -> dict[str, Any]:
    """Return the kernels with a name: their sizes with defaults, and the shape of their blocks."""
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
            kernel = _load_kernel(name)
            trace = tracegen.affine_kernel(kernel)
            specs[name] = {
                "name": name,
                "sizes": dict(kernel.parameters),
                "block": list(trace.launch.block),
                "description": kernel.description,
            }
    return {"kernels": list(specs.values())}


def _trace_maker(given: str | Mapping[str, Any]) -> Callable[[Mapping[str, int], Sequence[int] | None], Trace]:
    """Return a function that makes the trace of a kernel from its sizes and the shape of its blocks.

    A kernel that exists in both forms is taken as a loop nest: the trace is the same, and is made faster.
    """
    if isinstance(given, str) and given not in affine.names():
        if given not in kernel_names():
            known = dict.fromkeys((*kernel_names(), *affine.names()))
            raise Refusal("bad_input", unknown("kernel", f"{given:.60}", known))
        spec = declared_spec(given)
        return lambda params, block: spec.trace(block=block, blocks=None, base=None, **_checked_sizes(spec, params))
    kernel = _load_kernel(given) if isinstance(given, str) else _read_kernel(given)
    return lambda params, block: tracegen.AffineTrace(kernel, params, block=block)


def _checked_sizes(spec: tracegen.KernelSpec, params: Mapping[str, int]) -> Mapping[str, int]:
    """Raise `Refusal` for a name that is not a size: inputs are files or arrays, but a request has numbers only."""
    for name in params:
        if name not in spec.sizes:
            raise Refusal("bad_input", f"params: {unknown(f'size of {spec.name}', name, spec.sizes)}")
    return params


@functools.cache
def _load_kernel(name: str) -> tracegen.AffineKernel:
    return tracegen.load_affine(name)


def _read_kernel(given: Mapping[str, Any]) -> tracegen.AffineKernel:
    text = json_text(given)
    if len(text) > MAX_KERNEL_CHARACTERS:
        raise Refusal("too_large", f"kernel: is longer than {MAX_KERNEL_CHARACTERS} characters")
    return _parse_kernel(text) if len(text) <= MAX_CACHED_KERNEL_CHARACTERS else affine.from_json(given)


@functools.lru_cache(CACHED_KERNELS)
def _parse_kernel(text: str) -> tracegen.AffineKernel:
    return affine.from_json(json.loads(text))
