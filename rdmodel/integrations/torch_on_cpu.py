"""Let programs of torch that use a GPU run on the CPU: what they put on the GPU stays in the memory of the CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

from rdmodel.gpu.config import GPU
from rdmodel.integrations.torch_device import accelerator_answers, cuda_answers


def without_redirection() -> AbstractContextManager[Any]:
    """Return a context in which tensors tell what they are, whatever `torch_on_cpu` lets them say."""
    torch = sys.modules.get("torch")
    found: AbstractContextManager[Any] = nullcontext() if torch is None else torch._C.DisableTorchFunction()
    return found


def device_of(value: Any) -> str:
    """Return the device that holds a tensor, whatever `torch_on_cpu` lets it say; arrays are on the ``"cpu"``."""
    with without_redirection():
        return str(getattr(value, "device", "cpu"))


@contextmanager
def torch_on_cpu(
    gpu: GPU, capability: tuple[int, int], handed_out: Callable[[Any], None] = lambda tensor: None
) -> Iterator[bool]:
    """Redirect torch from GPUs to the CPU within a ``with`` block; without torch, or with a GPU, change nothing.

    Devices such as ``"cuda"`` become the CPU wherever functions of torch and methods of tensors take one. Tensors say
    that they are on ``"cuda:0"``, and questions about the device are answered for `gpu` and its compute `capability`.
    `handed_out` gets each tensor whose address the program asks for. Mixed precision works as on a GPU. Nothing is
    compiled by ``torch.compile``, which would make code for the CPU.
    Yields whether torch is redirected.
    """
    try:
        import torch
        import torch.utils.checkpoint
    except ImportError:
        yield False
        return
    if torch.cuda.is_available():
        yield False
        return
    redirection = _redirection(torch, handed_out)
    patches = [
        *((torch.cuda, name, answer) for name, answer in cuda_answers(torch, gpu, capability).items()),
        *((torch.accelerator, name, answer) for name, answer in accelerator_answers(torch).items()),
        (torch._C, "_cuda_getCurrentRawStream", lambda device=0: 0),
        (torch.Tensor, "record_stream", lambda tensor, stream: None),
        (torch, "Generator", _generator_on_cpu(torch)),
        (torch, "set_default_device", _default_on_cpu(torch)),
        (torch, "compile", _leave),
        (torch.autograd, "_engine_run_backward", _run_with(redirection, torch.autograd._engine_run_backward)),
        *_autocast_on_cpu(torch),
    ]
    with ExitStack() as stack:
        for owner, name, replacement in patches:
            stack.enter_context(patch.object(owner, name, replacement, create=owner is torch._C))
        # Its default compares devices, which a tensor tells differently where torch calls back and the mode is off.
        checks = torch.utils.checkpoint._allowed_determinism_checks_to_fns
        stack.enter_context(patch.dict(checks, default=lambda x: {"shape": x.shape, "dtype": x.dtype}))
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(redirection)
        yield True


def _leave(model: Any = None, **options: Any) -> Any:
    """Return a model as it is, or a decorator that does, in place of ``torch.compile``."""
    return (lambda function: function) if model is None else model


def _redirection(torch: Any, handed_out: Callable[[Any], None]) -> Any:
    """Return a mode of torch in which its functions and the methods of tensors use the CPU for a GPU."""
    is_cuda, device, first_gpu = torch.Tensor.is_cuda, torch.Tensor.device, torch.device("cuda", 0)

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
        if function == device.__get__:
            real = function(*args)
            return first_gpu if real.type == "cpu" else real
        if name == "get_device":
            return 0
        if name == "data_ptr":
            handed_out(args[0])
        if name == "type" and len(args) == 1 and not kwargs:
            return str(function(*args)).replace("torch.", "torch.cuda.", 1)
        if name == "to":
            args = tuple(_on_cpu(torch, argument) for argument in args)
        return function(*args, **{key: _on_cpu(torch, value) for key, value in (kwargs or {}).items()})

    return type("OnCpu", (torch.overrides.TorchFunctionMode,), {"__torch_function__": redirect})()


def _run_with(mode: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of torch that calls back to the program; a mode is off while torch executes a function."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with mode:
            return function(*args, **kwargs)

    return run


def _generator_on_cpu(torch: Any) -> type:
    """Return a class in place of ``torch.Generator``, whose objects are on the CPU."""
    original = torch.Generator

    class OnCpu(type):
        def __call__(cls, device: Any = "cpu") -> Any:
            return original(_on_cpu(torch, device))

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, original)

    return OnCpu("Generator", (), {})


def _default_on_cpu(torch: Any) -> Callable[[Any], None]:
    original = torch.set_default_device
    return lambda device: original(_on_cpu(torch, device))


def _autocast_on_cpu(torch: Any) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield methods of the class ``torch.autocast`` for which mixed precision on a GPU is also that on the CPU."""
    autocast = torch.amp.autocast_mode.autocast
    enter, leave = autocast.__enter__, autocast.__exit__
    partners: list[Any] = []

    def enter_both(self: Any) -> Any:
        if self.device == "cuda":
            # On the CPU, others are refused with a warning; single precision casts next to nothing.
            enabled = self._enabled and self.fast_dtype in (torch.bfloat16, torch.float16)
            partners.append(autocast("cpu", dtype=self.fast_dtype, enabled=enabled, cache_enabled=self._cache_enabled))
            enter(partners[-1])
        return enter(self)

    def leave_both(self: Any, *raised: Any) -> Any:
        result = leave(self, *raised)
        if self.device == "cuda":
            leave(partners.pop(), *raised)
        return result

    yield autocast, "__enter__", enter_both
    yield autocast, "__exit__", leave_both


def _on_cpu(torch: Any, value: Any) -> Any:
    """Return the CPU for a GPU, and any other value as it is."""
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    return "cpu" if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")) else value
