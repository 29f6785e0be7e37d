"""Answer the questions that programs ask ``torch.cuda``, where torch has no GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from rdmodel.gpu.config import GPU
from rdmodel.gpu.device_properties import device_properties

_MEMORY = 64 << 30
"""Bytes of memory of the GPU. A preset does not say how many it has."""

_PROPERTIES = {
    "major": "major",
    "minor": "minor",
    "total_memory": "totalGlobalMem",
    "multi_processor_count": "multiProcessorCount",
    "warp_size": "warpSize",
    "regs_per_multiprocessor": "regsPerMultiprocessor",
    "shared_memory_per_block": "sharedMemPerBlock",
    "shared_memory_per_block_optin": "sharedMemPerBlockOptin",
    "shared_memory_per_multiprocessor": "sharedMemPerMultiprocessor",
    "max_threads_per_block": "maxThreadsPerBlock",
    "max_threads_per_multi_processor": "maxThreadsPerMultiProcessor",
    "L2_cache_size": "l2CacheSize",
    "clock_rate": "clockRate",
    "memory_clock_rate": "memoryClockRate",
    "memory_bus_width": "memoryBusWidth",
}
"""Properties of a device of torch, and their names in ``cudaDeviceProp``."""


class _Event:
    """Stands for ``torch.cuda.Event``; no time passes on the GPU."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take what an event takes."""

    def record(self, stream: Any = None) -> None:
        """Do nothing."""

    def wait(self, stream: Any = None) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""

    def query(self) -> bool:
        """Say that all work is done."""
        return True

    def elapsed_time(self, end: Any) -> float:
        """Return no number: the launches between two events are recorded, not timed."""
        return float("nan")


class _Stream:
    """Stands for ``torch.cuda.Stream``, also as a context."""

    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take what a stream takes."""

    def __enter__(self) -> _Stream:
        """Begin nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """End nothing."""

    def synchronize(self) -> None:
        """Do nothing."""

    def query(self) -> bool:
        """Say that all work is done."""
        return True

    def wait_stream(self, stream: Any) -> None:
        """Do nothing."""

    def wait_event(self, event: Any) -> None:
        """Do nothing."""

    def record_event(self, event: _Event | None = None) -> _Event:
        """Return the event."""
        return _Event() if event is None else event


class _Generator:
    """Stands for the generator of random numbers of the device; its state has its seed and its offset."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._state: list[int] = [torch.initial_seed() % (1 << 63), 0]

    def initial_seed(self) -> int:
        """Return the seed."""
        return self._state[0]

    def manual_seed(self, seed: int) -> _Generator:
        """Set the seed."""
        self._state = [seed % (1 << 63), 0]
        return self

    def get_state(self) -> Any:
        """Return a tensor of 16 bytes."""
        return self._torch.tensor(self._state, dtype=self._torch.int64).view(self._torch.uint8)

    def set_state(self, state: Any) -> None:
        """Set the seed and the offset."""
        self._state = state.view(self._torch.int64).tolist()

    def get_offset(self) -> int:
        """Return the offset."""
        return self._state[1]

    def set_offset(self, offset: int) -> None:
        """Set the offset."""
        self._state[1] = offset


class _Context:
    """Stands for contexts that choose a device or a stream."""

    idx = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take a device or a stream."""

    def __enter__(self) -> None:
        """Begin nothing."""

    def __exit__(self, *_: object) -> None:
        """End nothing."""


def _returns(value: Any) -> Callable[..., Any]:
    """Return a function of any arguments that returns a value."""
    return lambda *_, **__: value


def cuda_answers(torch: Any, gpu: GPU, capability: tuple[int, int]) -> Mapping[str, Any]:
    """Return functions, classes and values for the names of ``torch.cuda`` that programs ask about their device.

    No two are the same object, because ``torch.compile`` keeps a table of the functions of torch. Random numbers are
    those of the CPU, where they are drawn.
    """
    values = device_properties(gpu, _MEMORY) | {"major": capability[0], "minor": capability[1]}
    properties = SimpleNamespace(name=gpu.name, **{name: values[source] for name, source in _PROPERTIES.items()})
    returns, stream, generator = _returns, _Stream(), _Generator(torch)

    def nothing() -> Callable[..., None]:
        def do_nothing(*_: Any, **__: Any) -> None:
            """Do nothing."""

        return do_nothing

    def subclass(base: type) -> type:
        return type(base.__name__, (base,), {})

    return {
        "is_available": returns(True),
        "is_bf16_supported": returns(capability >= (8, 0)),
        "is_current_stream_capturing": returns(False),
        "device_count": returns(1),
        "current_device": returns(0),
        "get_device_name": returns(gpu.name),
        "get_device_capability": returns(capability),
        "get_device_properties": returns(properties),
        "mem_get_info": returns((_MEMORY, _MEMORY)),
        "memory_allocated": returns(0),
        "max_memory_allocated": returns(0),
        "memory_reserved": returns(0),
        "current_stream": returns(stream),
        "default_stream": returns(stream),
        "Stream": _Stream,
        "Event": _Event,
        "device": subclass(_Context),
        "device_of": subclass(_Context),
        "stream": subclass(_Context),
        "default_generators": (generator,),
        "initial_seed": generator.initial_seed,
        "is_initialized": returns(True),
        "get_arch_list": returns(["sm_{}{}".format(*capability)]),
        "memory_stats": returns({}),
        "can_device_access_peer": returns(False),
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "set_rng_state": lambda state, device=None: torch.set_rng_state(state),
        **{name: nothing() for name in _WITHOUT_EFFECT},
    }


def accelerator_answers(torch: Any) -> Mapping[str, Callable[..., Any]]:
    """Return functions for the names of ``torch.accelerator``, which programs for several kinds of devices ask."""
    returns, stream = _returns, _Stream()
    return {
        "is_available": returns(True),
        "device_count": returns(1),
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": returns(0),
        "current_device_idx": returns(0),
        "set_device_index": returns(None),
        "set_device_idx": returns(None),
        "current_stream": returns(stream),
        "set_stream": returns(None),
        "synchronize": returns(None),
        "empty_cache": returns(None),
        "memory_allocated": returns(0),
        "memory_reserved": returns(0),
        "max_memory_allocated": returns(0),
        "get_memory_info": returns((_MEMORY, _MEMORY)),
        "device_index": type("device_index", (_Context,), {}),
    }


_WITHOUT_EFFECT = (
    "synchronize",
    "empty_cache",
    "set_device",
    "set_stream",
    "init",
    "_lazy_init",
    "ipc_collect",
    "manual_seed",
    "manual_seed_all",
    "reset_peak_memory_stats",
)
"""Functions of ``torch.cuda`` that do nothing."""
