"""Launch the kernels of a plan on a GPU: `python launcher.py PLAN [--once]`, with the standard library only.

The machine with the GPU needs the driver and this file, not the project. A plan is a JSON file beside its modules:
``{"pool": bytes, "launches": [...]}``. All data lie in one pool, whose first byte is aligned to 2 MiB, so that the
distances between arrays are those of the traced launch. A launch has

* ``case``, its name; ``module``, a file with machine code or PTX; and ``kernel``;
* ``grid`` and ``block``, three numbers each; ``shared``, bytes of dynamic shared memory (default 0); ``carveout``, the
  percentage of the SM's memory to prefer as shared memory (default: the driver decides);
* ``args``, in order: ``{"at": offset in the pool}`` for a pointer, or ``{"hex": bytes}`` for any other value;
* ``clear``, how many bytes of the pool are set to zero before (default 0); ``data``, what is then copied:
  ``{"at": offset, "file": name}``, or ``{"at": offset, "floats": count}`` for random numbers in [0, 1);
* ``globals``, files for variables of the module by name; ``times``, how many launches are timed after one that is not
  (default 1); ``read``, ``{"at": offset, "bytes": count, "file": name}`` for results to keep.

The command prints a JSON line per launch, with its case and the milliseconds of each timed launch. With ``--once`` it
makes each launch once and times none, for a profiler.
"""

from __future__ import annotations

import array
import ctypes
import json
import random
import sys
from pathlib import Path
from typing import Any

ALIGNMENT = 1 << 21
DYNAMIC_SHARED_MEMORY, CARVEOUT = 8, 9
"""Attributes of a function in the driver's interface."""


class DriverError(Exception):
    """A call of the driver that failed, with its message."""


class Gpu:
    """The first GPU, with one pool of memory; `pool` is the address of its first byte."""

    def __init__(self, pool_bytes: int) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._modules: dict[Path, ctypes.c_void_p] = {}
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        memory = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(pool_bytes + ALIGNMENT))
        self.pool = -(-memory.value // ALIGNMENT) * ALIGNMENT

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; raise `DriverError` if it does not return success."""
        status = getattr(self._driver, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(status, ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'unknown error').decode()} ({status})")

    def clear(self, count: int) -> None:
        """Set the first bytes of the pool to zero."""
        self.call("cuMemsetD8_v2", ctypes.c_uint64(self.pool), ctypes.c_ubyte(0), ctypes.c_size_t(count))

    def write(self, address: int, data: bytes) -> None:
        """Copy bytes to the GPU."""
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, ctypes.c_size_t(len(data)))

    def read(self, address: int, count: int) -> bytes:
        """Copy bytes from the GPU."""
        data = ctypes.create_string_buffer(count)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(address), ctypes.c_size_t(count))
        return data.raw

    def module(self, path: Path) -> ctypes.c_void_p:
        """Return the module in a file, which is loaded once."""
        if path not in self._modules:
            loaded = ctypes.c_void_p()
            self.call("cuModuleLoadData", ctypes.byref(loaded), path.read_bytes() + b"\0")
            self._modules[path] = loaded
        return self._modules[path]

    def function(self, path: Path, kernel: str, shared: int, carveout: int | None) -> ctypes.c_void_p:
        """Return a kernel that may use so much dynamic shared memory."""
        found = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(found), self.module(path), kernel.encode())
        if shared > 48 << 10:
            self.call("cuFuncSetAttribute", found, DYNAMIC_SHARED_MEMORY, shared)
        if carveout is not None:
            self.call("cuFuncSetAttribute", found, CARVEOUT, carveout)
        return found

    def variable(self, path: Path, name: str) -> int:
        """Return the address of a variable of a module."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        self.call("cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), self.module(path), name.encode())
        return address.value


class Launch:
    """A launch of a plan whose data are on the GPU."""

    def __init__(self, gpu: Gpu, folder: Path, plan: dict[str, Any]) -> None:
        self._gpu = gpu
        path, shared = folder / plan["module"], plan.get("shared", 0)
        gpu.clear(plan.get("clear", 0))
        for item in plan.get("data", []):
            data = (folder / item["file"]).read_bytes() if "file" in item else floats(item["floats"])
            gpu.write(gpu.pool + item["at"], data)
        for name, file in plan.get("globals", {}).items():
            gpu.write(gpu.variable(path, name), (folder / file).read_bytes())
        self._values = [self._value(each) for each in plan["args"]]
        self._pointers = (ctypes.c_void_p * max(1, len(self._values)))(*map(ctypes.addressof, self._values))
        function = gpu.function(path, plan["kernel"], shared, plan.get("carveout"))
        self._arguments = (function, *plan["grid"], *plan["block"], shared, None, self._pointers, None)

    def _value(self, item: dict[str, Any]) -> Any:
        data = bytes.fromhex(item["hex"]) if "hex" in item else (self._gpu.pool + item["at"]).to_bytes(8, "little")
        return ctypes.create_string_buffer(data, len(data))

    def run(self) -> None:
        """Launch the kernel and wait for its end."""
        self._gpu.call("cuLaunchKernel", *self._arguments)
        self._gpu.call("cuCtxSynchronize")

    def time(self) -> float:
        """Return the milliseconds of a launch."""
        first, last, found = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
        for event in (first, last):
            self._gpu.call("cuEventCreate", ctypes.byref(event), 0)
        self._gpu.call("cuEventRecord", first, None)
        self._gpu.call("cuLaunchKernel", *self._arguments)
        self._gpu.call("cuEventRecord", last, None)
        self._gpu.call("cuEventSynchronize", last)
        self._gpu.call("cuEventElapsedTime", ctypes.byref(found), first, last)
        for event in (first, last):
            self._gpu.call("cuEventDestroy_v2", event)
        return found.value


def floats(count: int) -> bytes:
    """Return random numbers, which repeat after 2^20."""
    draw = random.Random(0)
    some = array.array("f", (draw.random() for _ in range(min(count, 1 << 20)))).tobytes()
    return (some * -(-4 * count // len(some)))[: 4 * count] if some else b""


def main(path: Path, once: bool) -> None:
    """Run a plan; a launch that fails is reported, and ends the run only if the GPU takes no other."""
    plan = json.loads(path.read_text())
    gpu = Gpu(plan["pool"])
    for each in plan["launches"]:
        try:
            launch = Launch(gpu, path.parent, each)
            launch.run()
            times = [] if once else [launch.time() for _ in range(each.get("times", 1))]
            if "read" in each:
                read = each["read"]
                (path.parent / read["file"]).write_bytes(gpu.read(gpu.pool + read["at"], read["bytes"]))
            print(json.dumps({"case": each["case"], "ms": times}), flush=True)
        except DriverError as error:
            print(json.dumps({"case": each["case"], "failure": str(error)}), flush=True)
            gpu.call("cuCtxSynchronize")


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--once" in sys.argv[2:])
