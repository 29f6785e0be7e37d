"""Call the operations of Liger-Kernel with the inputs of its benchmarks.

A release of it must be importable, with torch. Tensors have the type of the row; weights, where the benchmarks have
them in single precision, too.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import Any

HEADS, KEY_HEADS = 32, 8
"""Heads of the queries and of the keys to which positions are applied."""

CHANNELS_PER_GROUP = 4
"""Channels of a group that is normalized."""

EPSILON = 1e-6


def operation(name: str, shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    """Return a call of an operation, with its inputs on the GPU.

    Parameters
    ----------
    name
        Its name in `published.csv`.
    shape
        Rows and columns of the input. For an embedding, the rows of its table follow. Positions have tokens and the
        numbers of a head, and groups of channels have batch, channels and extent.
    dtype
        The type of the input.
    """
    return _OPERATIONS[name](shape, dtype)


def names() -> tuple[str, ...]:
    """Return the names of the operations."""
    return tuple(_OPERATIONS)


def _function(module: str, name: str) -> Any:
    return getattr(import_module(f"liger_kernel.ops.{module}"), name).apply


def _tensor(*shape: int, dtype: Any, differentiable: bool = True) -> Any:
    import torch

    return torch.empty(*shape, dtype=dtype, device="cuda", requires_grad=differentiable)


def _single(*shape: int) -> Any:
    import torch

    return _tensor(*shape, dtype=torch.float32)


def _rms_norm(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    import_module("torch.distributed.tensor")  # which the library uses and leaves to others to import
    x, weight = _tensor(*shape, dtype=dtype), _single(shape[1])
    return lambda: _function("rms_norm", "LigerRMSNormFunction")(x, weight, EPSILON)


def _fused_add_rms_norm(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    x, residual, weight = _tensor(*shape, dtype=dtype), _tensor(*shape, dtype=dtype), _tensor(shape[1], dtype=dtype)
    return lambda: _function("fused_add_rms_norm", "LigerFusedAddRMSNormFunction")(x, residual, weight, EPSILON)


def _layer_norm(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    x, weight, bias = (_tensor(*each, dtype=dtype) for each in (shape, shape[1:], shape[1:]))
    return lambda: _function("layer_norm", "LigerLayerNormFunction")(x, weight, bias, EPSILON)


def _poly_norm(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    x, weight, bias = _tensor(*shape, dtype=dtype), _tensor(3, dtype=dtype), _tensor(1, dtype=dtype)
    return lambda: _function("poly_norm", "LigerPolyNormFunction")(x, weight, bias, EPSILON)


def _group_norm(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    channels = shape[1]
    x, weight, bias = _tensor(*shape, dtype=dtype), _tensor(channels, dtype=dtype), _tensor(channels, dtype=dtype)
    function = _function("group_norm", "LigerGroupNormFunction")
    return lambda: function(x, weight, bias, channels, channels // CHANNELS_PER_GROUP, EPSILON)


def _dyt(shape: tuple[int, ...], dtype: Any, biased: bool = False) -> Callable[[], Any]:
    x, alpha, gamma = _tensor(*shape, dtype=dtype), _tensor(1, dtype=dtype), _tensor(shape[1], dtype=dtype)
    beta = _tensor(shape[1], dtype=dtype) if biased else None
    return lambda: _function("dyt", "LigerDyTFunction")(x, alpha, gamma, beta)


def _softmax(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    x = _tensor(*shape, dtype=dtype)
    return lambda: _function("softmax", "LigerSoftmaxFunction")(x)


def _relu_squared(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    x = _tensor(*shape, dtype=dtype)
    return lambda: _function("relu_squared", "LigerReLUSquaredFunction")(x)


def _swiglu(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    gate, up = _tensor(*shape, dtype=dtype), _tensor(*shape, dtype=dtype)
    return lambda: _function("swiglu", "LigerSiLUMulFunction")(gate, up)


def _embedding(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    import torch

    rows, columns, known = shape
    table = _tensor(known, columns, dtype=dtype)
    tokens = torch.randint(known, (rows,), generator=torch.Generator().manual_seed(1)).to("cuda")
    return lambda: _function("experimental.embedding", "LigerEmbeddingFunction")(table, tokens)


def _cross_entropy(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    import torch

    x = _tensor(*shape, dtype=dtype)
    target = torch.randint(shape[1], shape[:1], generator=torch.Generator().manual_seed(1)).to("cuda")
    function = import_module("liger_kernel.ops.cross_entropy").LigerCrossEntropyFunction
    # The first releases have no weights of classes between the target and the class that is left out.
    weight = (None,) if "weight" in signature(function.forward).parameters else ()
    return lambda: function.apply(x, target, *weight, -100)


def _divergence(module: str, name: str, *more: Any) -> Callable[[tuple[int, ...], Any], Callable[[], Any]]:
    def make(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
        x, target = _tensor(*shape, dtype=dtype), _tensor(*shape, dtype=dtype, differentiable=False)
        return lambda: _function(module, name)(x, target, *more)

    return make


def _rope(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    queries, keys, angles = _positions(shape, dtype, 1)
    return lambda: _function("rope", "LigerRopeFunction")(queries, keys, *angles)


def _multimodal_rope(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    quarter = shape[1] // 8
    queries, keys, angles = _positions(shape, dtype, 3, 1)
    sections = [quarter, shape[1] // 2 - 2 * quarter, quarter]
    return lambda: _function("qwen2vl_mrope", "LigerQwen2VLMRopeFunction")(queries, keys, *angles, sections)


def _positions(shape: tuple[int, ...], dtype: Any, *outer: int) -> tuple[Any, Any, list[Any]]:
    tokens, size = shape
    queries, keys = (_tensor(1, tokens, heads, size, dtype=dtype).transpose(1, 2) for heads in (HEADS, KEY_HEADS))
    return queries, keys, [_tensor(*outer, tokens, size, dtype=dtype, differentiable=False) for _ in range(2)]


_OPERATIONS: dict[str, Callable[[tuple[int, ...], Any], Callable[[], Any]]] = {
    "rms_norm": _rms_norm,
    "fused_add_rms_norm": _fused_add_rms_norm,
    "layer_norm": _layer_norm,
    "poly_norm": _poly_norm,
    "group_norm": _group_norm,
    "dyt": _dyt,
    "dyt_beta": lambda shape, dtype: _dyt(shape, dtype, biased=True),
    "softmax": _softmax,
    "relu_squared": _relu_squared,
    "swiglu": _swiglu,
    "embedding": _embedding,
    "cross_entropy": _cross_entropy,
    "kl_div": _divergence("kl_div", "LigerKLDivLossFunction"),
    "tvd": _divergence("tvd", "LigerTVDLossFunction"),
    "jsd": _divergence("jsd", "LigerJSDFunction"),
    "rope": _rope,
    "multimodal_rope": _multimodal_rope,
}
