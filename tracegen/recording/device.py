"""Be the device of a recorded program: log what changes its memory, and execute its kernels when results are wanted."""

from __future__ import annotations

import dataclasses
import mmap
import os

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import RdmodelError, TraceError
from tracegen.limits import MAX_BLOCK_THREADS
from tracegen.ptx.emulator.module_variables import placed_variables
from tracegen.ptx.emulator.textures import TextureTable
from tracegen.ptx.lowering.lowering import variable_bytes
from tracegen.recording.events import EventWriter
from tracegen.recording.fatbinary import find_linked_ptx
from tracegen.recording.kernels import Executor, RecordedLaunch, RecordedModule, load_text, parameter_places
from tracegen.recording.memory import AddressSpace, Allocation
from tracegen.recording.textures import RecordedTexture

MEMORY_BASE = 1 << 40
MEMORY_BYTES = 1 << 39
"""The place of device memory in the address space of the program; variables of modules follow it."""

_ALIGNMENT = 256
_PIECE_BYTES = 1 << 26
"""Contents are logged in pieces of at most this size."""

_PAGE = 4096
"""Bytes in which changes by the host are noticed."""

_INVALID_VALUE, _INVALID_CONFIGURATION, _INVALID_SYMBOL, _NOT_FOUND = 1, 9, 13, 500
"""Results of CUDA."""


class RefusedError(Exception):
    """A request that fails with a `result` of CUDA."""

    def __init__(self, result: int) -> None:
        self.result = result


class RecordedDevice:
    """A device of the compute capability `capability`, whose memory is the file `memory`.

    With `values`, kernels are executed by `flush`. `notes` are sentences about parts that differ from a real device.
    """

    def __init__(self, writer: EventWriter, memory: int, capability: int, *, values: bool) -> None:
        self._writer, self._memory, self._capability, self.values = writer, memory, capability, values
        os.ftruncate(memory, 2 * MEMORY_BYTES)
        self.notes: list[str] = []
        self._space = AddressSpace()
        self._modules: list[RecordedModule] = []
        self._functions: list[tuple[int, str]] = []
        self._places: list[dict[str, int]] = []  # addresses of the variables of every module
        self._next_variable = MEMORY_BASE + MEMORY_BYTES
        self._seen: dict[int, NDArray[np.uint8]] = {}  # the bytes of shared memory when the host last had them
        self._pending: list[tuple[int, int, RecordedLaunch]] = []
        self._freed: list[Allocation] = []
        self._textures = TextureTable()
        self._launches = self._stale = 0

    # ---- memory

    def allocate(self, kind: str, address: int, size: int) -> str:
        """Allocate memory at an address that the program chose."""
        allocation = self._space.add(address, self._map(address, size), kind)
        self._writer.add("allocate", address=address, bytes=size, kind=kind)
        if kind != "device":
            self._seen[address] = np.zeros(size, np.uint8)
        assert allocation.address == address
        return ""

    def free(self, address: int) -> str:
        """Free memory; its pages are given back once no kernel that may use it is pending."""
        allocation = self._space.remove(address)
        if allocation is None:
            raise RefusedError(_INVALID_VALUE)
        self._writer.add("free", address=address)
        self._seen.pop(address, None)
        self._freed.append(allocation)
        if not self._pending:
            self._give_back()
        return ""

    def check(self, to: int, origin: int, size: int) -> str:
        """Check that the sides of a copy that lie on the device, which are not 0, are inside allocations."""
        for address in filter(None, (to, origin)):
            if self._space.find(address, size) is None:
                raise RefusedError(_INVALID_VALUE)
        return ""

    def write(self, address: int, size: int) -> str:
        """Log bytes that the program has just copied to the device."""
        content = self._view(address, size)
        for at in range(0, size, _PIECE_BYTES):
            self._writer.add_content(address + at, content[at : at + _PIECE_BYTES].tobytes())
        self._note_seen(address, size)
        return ""

    def fill(self, address: int, element: int, value: int, count: int) -> str:
        """Log a fill with `count` elements of `element` bytes."""
        text = value.to_bytes(8, "little")[:element].hex()
        self._writer.add("fill", address=address, value=text, count=count)
        self._note_seen(address, element * count)
        return ""

    def copy(self, to: int, origin: int, size: int) -> str:
        """Log a copy within the device, after changes of its origin by the host."""
        self._log_changes(self._space.find(origin, size))
        self._writer.add("copy", to=to, **{"from": origin}, bytes=size)
        self._note_seen(to, size)
        return ""

    def read(self, address: int, size: int) -> str:
        """Count a copy back that kernels may have changed, if they were not executed."""
        self._stale += bool(not self.values and self._launches)
        return ""

    def share(self, address: int) -> str:
        """Watch a variable that the host accesses directly."""
        found = self._space.find(address)
        if found is not None:
            self._seen[found.address] = found.content.copy()
        return ""

    def texture(self, texture: RecordedTexture) -> str:
        """Log a texture whose texels lie in memory."""
        if self._space.find(texture.address, texture.size) is None:
            raise RefusedError(_INVALID_VALUE)
        self._writer.add("texture", **texture.fields)
        self._textures.add(texture.row())
        return ""

    def _map(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return the bytes of the program's memory at an address."""
        offset = address - MEMORY_BASE
        start = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        pages = mmap.mmap(self._memory, offset - start + max(size, 1), offset=start)
        return np.frombuffer(pages, np.uint8)[offset - start : offset - start + size]

    def _view(self, address: int, size: int) -> NDArray[np.uint8]:
        view = self._space.view(address, size)
        if view is None:
            raise RefusedError(_INVALID_VALUE)
        return view

    def _give_back(self) -> None:
        for allocation in self._freed:
            start = -(-(allocation.address - MEMORY_BASE) // _PAGE) * _PAGE
            length = (allocation.end - MEMORY_BASE) // _PAGE * _PAGE - start
            if length > 0:
                with mmap.mmap(self._memory, length, offset=start) as pages:
                    pages.madvise(mmap.MADV_REMOVE)
        self._freed.clear()

    def _note_seen(self, address: int, size: int) -> None:
        found = self._space.find(address, size)
        if found is not None and found.address in self._seen:
            at = address - found.address
            self._seen[found.address][at : at + size] = found.content[at : at + size]

    def _log_changes(self, allocation: Allocation | None) -> None:
        """Log the pages of shared memory that the host has changed itself."""
        seen = None if allocation is None else self._seen.get(allocation.address)
        if allocation is None or seen is None or np.array_equal(seen, allocation.content):
            return
        size = len(seen)
        changed = [
            at
            for at in range(0, size, _PAGE)
            if not np.array_equal(seen[at : at + _PAGE], allocation.content[at : at + _PAGE])
        ]
        begin = changed[0]
        for at, following in zip(changed, [*changed[1:], -1], strict=True):
            if following != at + _PAGE:
                self.write(allocation.address + begin, min(at + _PAGE, size) - begin)
                begin = following

    # ---- modules

    def load(self, image: bytes) -> int:
        """Load a module, place its variables, and return its number."""
        ptx = find_linked_ptx(image, self._capability)
        number = self._writer.counts["modules"]
        module = load_text(ptx, f"module {number}")
        self._note_newer(module.architecture)
        places = {}
        for name, size in placed_variables(module).items():
            places[name] = self._next_variable
            self._next_variable += max(1, -(-size // _ALIGNMENT)) * _ALIGNMENT
        if self._next_variable > MEMORY_BASE + 2 * MEMORY_BYTES:
            raise TraceError(f"module {number}: its variables do not fit into device memory")
        loaded = RecordedModule(module, places)
        for variable in loaded.variables():
            content = self._map(variable.address, len(variable.content))
            content[...] = variable.content
            self._space.insert(dataclasses.replace(variable, content=content))
        self._modules.append(loaded)
        self._writer.add_module(ptx)
        self._writer.add("load", module=number, variables=places)
        self._places.append(places)
        return number

    def _note_newer(self, wanted: int) -> None:
        """Note that a module is for newer devices, whose number is `wanted`, as the program has no other one."""
        if wanted > self._capability:
            needed, own = (f"{number // 10}.{number % 10}" for number in (wanted, self._capability))
            note = f"the program has no PTX for compute capability {own}: that for {needed} is used"
            if note not in self.notes:
                self.notes.append(note)

    def function(self, module: int, name: str) -> str:
        """Return the number of a kernel, its static memory, its largest block, and the places of its parameters."""
        parsed = self._modules[module].module
        if name not in parsed.kernels:
            raise RefusedError(_NOT_FOUND)
        kernel = parsed.functions[name]
        self._functions.append((module, name))
        places = parameter_places(parsed, name)
        shared = sum(variable_bytes(v) for v in kernel.variables if v.space == "shared")
        local = sum(variable_bytes(v) for v in kernel.variables if v.space == "local")
        largest = kernel.directives.get("maxntid", "")
        threads = int(np.prod([int(n) for n in largest.split(",")])) if largest else MAX_BLOCK_THREADS
        numbers = [number for place in places for number in place]
        return " ".join(map(str, (len(self._functions) - 1, shared, local, threads, len(places), *numbers)))

    def variable(self, module: int, name: str) -> str:
        """Return the address and the bytes of a variable."""
        address = self._places[module].get(name)
        if address is None:
            raise RefusedError(_INVALID_SYMBOL)
        found = self._space.find(address)
        return f"{address} {0 if found is None else len(found.content)}"

    # ---- launches

    def launch(self, function: int, launch: RecordedLaunch) -> str:
        """Log a launch; with values, it waits for `flush`."""
        module, kernel = self._functions[function]
        launch = dataclasses.replace(launch, kernel=kernel)
        if min(*launch.grid, *launch.block) < 1 or int(np.prod(launch.block, dtype=object)) > MAX_BLOCK_THREADS:
            raise RefusedError(_INVALID_CONFIGURATION)
        words = {int(word) for word in np.frombuffer(launch.parameters[: len(launch.parameters) // 8 * 8], np.uint64)}
        for address in sorted(self._seen):
            found = self._space.find(address)
            # Pointers to managed memory also lie in structures; pages of the host are usually passed themselves.
            if found is not None and (found.kind != "host" or any(address <= word < found.end for word in words)):
                self._log_changes(found)
        self._launches += 1
        self._writer.add(
            "launch", module=module, kernel=kernel, grid=launch.grid, block=launch.block, shared=launch.shared,
            parameters=launch.parameters.hex(), **({} if launch.cluster is None else {"cluster": launch.cluster}),
        )  # fmt: skip
        if self.values:
            self._pending.append((self._launches, module, launch))
        return ""

    def flush(self) -> str:
        """Execute the pending launches in order."""
        executor = Executor()
        for number, module, launch in self._pending:
            try:
                memory = self._space.device_memory(copies=False, freed=self._freed)
                executor.run(self._modules[module], launch, memory, self._textures)
            except RdmodelError as error:
                self.notes.append(f"launch {number}: not all of its results are computed: {error}")
        self._pending.clear()
        self._give_back()
        for address, seen in self._seen.items():
            found = self._space.find(address)
            if found is not None:
                seen[...] = found.content
        return ""

    def finish(self) -> None:
        """Add the notes about the whole program."""
        if self._stale:
            copies = "1 copy" if self._stale == 1 else f"{self._stale} copies"
            self.notes.append(
                f"{copies} to the host came after launches, whose results were not computed; if later launches depend "
                "on them, record with --values"
            )
