"""Make traces from the launches of a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rdmodel.errors import LaunchError, RdmodelError, TraceError
from rdmodel.trace import Launch
from tracegen.cuda.session import MAX_INSTRUCTIONS, trace_of_launch
from tracegen.formats.launch_entries import LaunchChoice, LaunchEntry
from tracegen.ptx import Module
from tracegen.ptx.emulator.device_memory import DeviceMemory
from tracegen.ptx.emulator.emulated_launch import EmulatedLaunch
from tracegen.ptx.emulator.emulated_trace import EmulatedTrace
from tracegen.ptx.emulator.textures import TextureTable
from tracegen.recording.events import Event, RecordingHead, read_events, read_head, read_ptx
from tracegen.recording.files import DATA_FILE
from tracegen.recording.kernels import Executor, RecordedLaunch, RecordedModule, load_text
from tracegen.recording.memory import AddressSpace
from tracegen.recording.textures import RecordedTexture
from tracegen.unrolling import DEFAULT_UNROLL, Unroll, parse_unroll

MAX_REPLAYED_BYTES = 1 << 40
"""Largest size of all live allocations of a recording."""

OUTSIDE_ADVICE = (
    "; a device may not notice such an access: with lenient=True (--lenient), memory near allocations holds zeros"
)
"""End of the errors about accesses outside all allocations."""

Fail = Callable[[str], TraceError]


def list_launches(folder: str | Path, kernel: str | None = None) -> tuple[LaunchEntry, ...]:
    """List the launches of a recording; with `kernel`, a number or a pattern of the name, those that match.

    Raises `TraceError` for a damaged recording, and if no launch matches.
    """
    head = read_head(Path(folder))
    choice, entries = LaunchChoice(str(folder), kernel), []
    number = 0
    for event, fail in read_events(head):
        if event["event"] == "launch":
            number += 1
            launch = _recorded(event)
            try:
                entries.append(LaunchEntry(number, _shape(launch)))
            except LaunchError as error:
                raise fail(str(error)) from None
    matching = tuple(entry for entry in entries if choice.accepts(entry.number, entry.launch.kernel))
    if not matching:
        raise choice.no_match_error([(entry.number, entry.launch.kernel) for entry in entries])
    return matching


def launches(
    folder: str | Path,
    kernel: str | None = None,
    *,
    number: int | None = None,
    max_instructions: int = MAX_INSTRUCTIONS,
    unroll: Unroll = DEFAULT_UNROLL,
    lenient: bool = False,
) -> Iterator[EmulatedTrace]:
    """Yield the trace of every launch of a recording, in order.

    The memory of a launch is that of the recorded program, including the results of all earlier launches if the
    launch depends on the contents of memory. They are executed for it; other launches are not.

    Parameters
    ----------
    folder
        A folder that `record` wrote.
    kernel
        Number of a launch, or pattern of its name: yield only the launches that match.
    number
        Number of the only launch to yield, from 1.
    max_instructions
        Maximum number of warp instructions that a block may execute.
    unroll
        How often the assembler unrolls loops, or ``"none"``; see `tracegen.cuda.trace`.
    lenient
        Whether kernels may access memory near their allocations, which holds zeros, instead of failing there.

    Yields
    ------
    EmulatedTrace
        The trace of one launch, which executes each block on demand.

    Raises
    ------
    TraceError
        If the recording is damaged, no launch matches, or a kernel cannot be executed.
    LaunchError
        If a launch has an impossible shape.
    """
    entries = list_launches(folder, kernel if number is None else str(number))
    chosen = {entry.number for entry in entries}
    head = read_head(Path(folder))
    texts = _ModuleTexts(head)
    dependent = _dependent_launches(head, texts, chosen)
    replay = _Replay(head, texts, contents=bool(dependent), unroll=parse_unroll(unroll), lenient=lenient)
    last = max(dependent, default=0)
    for at, launch, module in replay.launches():
        if at in chosen:
            yield replay.trace(at, launch, module, max_instructions, copies=at in dependent)
        if at < last:
            replay.execute(at, launch, module, max_instructions)
        elif at >= max(chosen):
            return


def _dependent_launches(head: RecordingHead, texts: _ModuleTexts, chosen: set[int]) -> set[int]:
    """Return the numbers of the chosen launches whose addresses or branches depend on the contents of memory."""
    replay = _Replay(head, texts, contents=False)
    found = set()
    for at, launch, module in replay.launches():
        if at in chosen:
            try:
                launched = replay.prepare(launch, module, MAX_INSTRUCTIONS)
            except RdmodelError:
                continue  # said when its turn comes
            if launched.data_dependent:
                found.add(at)
    return found


class _ModuleTexts:
    """The modules of a recording, each of which is parsed once."""

    def __init__(self, head: RecordingHead) -> None:
        self._head = head
        self._parsed: dict[int, Module] = {}

    def __getitem__(self, number: int) -> Module:
        if number not in self._parsed:
            path = self._head.folder / f"module-{number}.ptx"
            self._parsed[number] = load_text(read_ptx(self._head, number), str(path))
        return self._parsed[number]


class _Replay:
    """The memory and the modules of the program, as its events change them; `contents`: also what memory holds."""

    def __init__(
        self,
        head: RecordingHead,
        texts: _ModuleTexts,
        *,
        contents: bool,
        unroll: int | None = DEFAULT_UNROLL,
        lenient: bool = False,
    ) -> None:
        self._head, self._texts, self._contents, self._unroll = head, texts, contents, unroll
        self._lenient = lenient
        self._space = AddressSpace()
        self._textures = TextureTable()
        self._modules: list[RecordedModule] = []
        self._executor = Executor()
        self._live = 0
        size = head.counts["data"]
        self._data = np.memmap(head.folder / DATA_FILE, np.uint8, "r") if size else np.zeros(0, np.uint8)

    def launches(self) -> Iterator[tuple[int, RecordedLaunch, RecordedModule]]:
        """Yield every launch with its number and module, after the events before it."""
        number = 0
        for event, fail in read_events(self._head):
            if event["event"] == "launch":
                number += 1
                if event["module"] >= len(self._modules):
                    raise fail(f"module={event['module']}: is not loaded")
                module = self._modules[event["module"]]
                if event["kernel"] not in module.module.kernels:
                    raise fail(f"kernel={event['kernel']!r:.80}: must be a kernel of module {event['module']}")
                yield number, _recorded(event), module
            else:
                self._executor.forget()
                self._apply(event, fail)

    def prepare(
        self, launch: RecordedLaunch, module: RecordedModule, most: int, *, copies: bool = False
    ) -> EmulatedLaunch:
        """Return a launch whose blocks are not executed; `copies`: on a copy of the present memory."""
        memory = self._memory(copies=copies)
        return module.launch(launch, memory, self._textures, values=False, max_instructions=most, unroll=self._unroll)

    def trace(
        self, number: int, launch: RecordedLaunch, module: RecordedModule, most: int, *, copies: bool
    ) -> EmulatedTrace:
        """Return the trace of a launch on the present memory, which does not change."""
        try:
            launched = self.prepare(launch, module, most, copies=copies)
        except (LaunchError, TraceError) as error:
            raise type(error)(f"{self._head.folder}: launch {number}: {error}") from None
        trace = trace_of_launch(launched, launch.title)
        trace.number = number
        return trace

    def execute(self, number: int, launch: RecordedLaunch, module: RecordedModule, most: int) -> None:
        """Execute a launch; the memory then holds its results."""
        memory = self._memory(copies=False)
        try:
            self._executor.run(module, launch, memory, self._textures, most)
        except (LaunchError, TraceError) as error:
            raise TraceError(
                f"{self._head.folder}: launch {number}, on whose results later ones may depend: {error}"
            ) from None

    def _memory(self, *, copies: bool) -> DeviceMemory:
        advice = "" if self._lenient else OUTSIDE_ADVICE
        return self._space.device_memory(copies=copies, margins=self._lenient, advice=advice)

    # ---- events

    def _apply(self, event: Event, fail: Fail) -> None:
        name = event["event"]
        try:
            if name == "allocate":
                self._allocate(event, fail)
            elif name == "free":
                freed = self._space.remove(event["address"])
                if freed is None:
                    raise fail(f"address={event['address']}: must be that of an allocation")
                self._live -= len(freed.content)
            elif name == "load":
                self._load(event, fail)
            elif name == "texture":
                texture = RecordedTexture.of(event)
                self._view(event, "address", texture.size, fail)
                self._textures.add(texture.row())
            else:
                self._change(event, fail)
        except TraceError as error:
            if str(error).startswith(str(self._head.folder)):
                raise
            raise fail(str(error)) from None

    def _allocate(self, event: Event, fail: Fail) -> None:
        self._live += event["bytes"]
        if self._live > MAX_REPLAYED_BYTES:
            raise fail(f"bytes={event['bytes']}: all allocations together must have at most 2^40 bytes")
        self._space.add(event["address"], np.zeros(event["bytes"], np.uint8), event["kind"])

    def _load(self, event: Event, fail: Fail) -> None:
        number = event["module"]
        if number != len(self._modules) or number >= self._head.counts["modules"]:
            raise fail(f"module={number}: must be {len(self._modules)}, the next one")
        parsed = self._texts[number]
        places = event["variables"]
        for variable in (v.name for v in parsed.variables.values() if v.space in ("global", "const")):
            if variable not in places:
                raise fail(f"variables: has no address of {variable}")
        module = RecordedModule(parsed, places)
        for allocation in module.variables():
            self._space.insert(allocation)
        self._modules.append(module)

    def _change(self, event: Event, fail: Fail) -> None:
        """Apply an event that changes the contents of memory."""
        if event["event"] == "copy":
            view = self._view(event, "to", event["bytes"], fail)
            content = self._view(event, "from", event["bytes"], fail)
        elif event["event"] == "write":
            view = self._view(event, "address", event["bytes"], fail)
            content = self._data[event["data"] : event["data"] + event["bytes"]]
            if len(content) != event["bytes"]:
                raise fail(f"data={event['data']}: {event['bytes']} bytes from there are not in {DATA_FILE}")
        else:
            element = np.frombuffer(bytes.fromhex(event["value"]), np.uint8)
            if not len(element):
                raise fail("value='': must have at least one byte")
            view = self._view(event, "address", len(element) * event["count"], fail).reshape(-1, len(element))
            content = element
        if self._contents:
            view[...] = content.copy() if event["event"] == "copy" else content

    def _view(self, event: Event, key: str, size: int, fail: Fail) -> NDArray[np.uint8]:
        view = self._space.view(event[key], size)
        if view is None:
            raise fail(f"{key}={event[key]}: {size} bytes from there must lie in one allocation")
        return view


def _recorded(event: Event) -> RecordedLaunch:
    gx, gy, gz = event["grid"]
    bx, by, bz = event["block"]
    parameters, cluster = bytes.fromhex(event["parameters"]), event.get("cluster")
    return RecordedLaunch(
        event["kernel"], (gx, gy, gz), (bx, by, bz), event["shared"], parameters, cluster and tuple(cluster)
    )


def _shape(launch: RecordedLaunch) -> Launch:
    return Launch(kernel=launch.title, grid=launch.grid, block=launch.block, shared_memory=launch.shared)
