"""Let programs of torch that use a GPU run on the CPU: what they put on the GPU stays in the memory of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from rdmodel.gpu.config import GPU
from rdmodel.trace import WARP


@contextmanager
def torch_on_cpu(gpu: GPU, capability: tuple[int, int]) -> Iterator[None]:
    """Redirect torch from GPUs to the CPU within a ``with`` block; without torch, or with a GPU, change nothing.

    Devices such as ``"cuda"`` become the CPU wherever functions of torch and methods of tensors take one. Questions
    about the device are answered for `gpu` and its compute `capability`.
    """
    try:
        import torch
        from torch.overrides import TorchFunctionMode
    except ImportError:
        yield
        return
    if torch.cuda.is_available():
        yield
        return

    is_cuda: Any = torch.Tensor.is_cuda

    def redirect(
        mode: Any,
        function: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = getattr(function, "__name__", "")
        if name in ("cuda", "pin_memory"):
            return args[0]
        if function == is_cuda.__get__:
            return True
        if name == "to":
            args = tuple(_on_cpu(torch, argument) for argument in args)
        return function(*args, **{key: _on_cpu(torch, value) for key, value in (kwargs or {}).items()})

    redirection = type("OnCpu", (TorchFunctionMode,), {"__torch_function__": redirect})
    properties = SimpleNamespace(
        name=gpu.name,
        major=capability[0],
        minor=capability[1],
        multi_processor_count=gpu.sms,
        warp_size=WARP,
        regs_per_multiprocessor=gpu.registers,
        shared_memory_per_multiprocessor=gpu.shared_memory,
        max_threads_per_multi_processor=gpu.max_threads,
        L2_cache_size=gpu.l2.size * gpu.l2.slices,
    )
    stream = SimpleNamespace(cuda_stream=0, synchronize=_nothing, wait_stream=_nothing)
    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: gpu.name,
        "get_device_capability": lambda device=None: capability,
        "get_device_properties": lambda device=None: properties,
        "current_stream": lambda device=None: stream,
        "synchronize": _nothing,
        "empty_cache": _nothing,
        "set_device": _nothing,
        "manual_seed": _nothing,
        "device": lambda device=None: nullcontext(),
        "Stream": lambda *_, **__: stream,
        "stream": lambda stream=None: nullcontext(),
    }
    with ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(patch.object(torch.cuda, name, answer))
        stack.enter_context(redirection())
        yield


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


def _on_cpu(torch: Any, value: Any) -> Any:
    """Return the CPU for a GPU, and any other value as it is."""
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    return "cpu" if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")) else value
