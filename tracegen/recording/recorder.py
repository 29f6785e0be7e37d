"""Run a program with stand-ins for CUDA's libraries, and record what it asks of the device.

The stand-ins (`tracegen.recording.libraries`) send one line per request over a socket and wait for the answer. Device
memory is a file that both processes map, so that copies stay within the program. This process logs the events, and
with ``values=True`` executes the kernels in the emulator before the program can see their results.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rdmodel.common.late_dataclass import dataclass
from rdmodel.common.text import counted
from rdmodel.errors import ConfigError, TraceError
from rdmodel.trace.replacement import folder_replaced_when_complete, recover, resolve_folder
from tracegen.recording.device import RecordedDevice
from tracegen.recording.events import EventWriter
from tracegen.recording.files import DATA_FILE, EVENTS_FILE, HEAD_FILE, is_recording
from tracegen.recording.libraries import DRIVER, USUAL_RUNTIMES, named_runtimes, stand_ins
from tracegen.recording.requests import Requests, UnansweredError

_POLL_SECONDS = 0.1
"""Time between two looks whether a program without requests has ended."""

_STOP_SECONDS = 5.0
"""Time that a program gets to end after Ctrl-C before it is killed."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result of a recording: its folder, the exit status of the program, notes, and the number of launches."""

    folder: Path
    status: int
    notes: tuple[str, ...]
    launches: int


def record(
    command: Sequence[str],
    folder: str | os.PathLike[str] | None = None,
    *,
    device: Mapping[str, int],
    gpu: str,
    values: bool = False,
    overwrite: bool = False,
) -> Recorded:
    """Run a program and record its kernel launches in a folder.

    Parameters
    ----------
    command
        The program and its arguments. It has this process's stdin, stdout and stderr.
    folder
        The folder to write, in the format of `tracegen.recording.events`. None: the name of the program, with
        ``.recording``, in the current folder.
    device
        The numbers that describe the device by the names of ``cudaDeviceProp``.
    gpu
        The name of the device.
    values
        Whether kernels are executed when the program can see their results. Otherwise copies back return what the
        memory held before.
    overwrite
        Replace an existing recording.

    Returns
    -------
    Recorded
        The result. A program that a signal ends has a negative status.

    Raises
    ------
    ConfigError
        If the program does not exist, or there is no C compiler.
    TraceError
        If the program makes a request that cannot be served, or launches no kernel. The launches until then are
        recorded. Also if the folder exists.
    KeyboardInterrupt
        After Ctrl-C; the launches until then are recorded, as its text says.
    """
    program = _find_program(command)
    if folder is None:
        folder = f"{Path(command[0]).name}.recording"
    target = resolve_folder(folder)
    recover(target)
    _refuse_foreign(target, overwrite)
    libraries = stand_ins(named_runtimes(program) or USUAL_RUNTIMES)
    try:
        with folder_replaced_when_complete(target) as partial:
            run = _Run(list(command), program, libraries, partial)
            run.execute(dict(device), gpu, values)
            if run.error is not None and not run.launches:
                raise run.error
    except OSError as error:
        raise TraceError(f"{folder}: cannot be written: {error.strerror or error}") from error
    until_then = f"{target} holds the {counted(run.launches, 'launch', 'launches')} until then"
    if isinstance(run.error, TraceError):
        raise TraceError(f"{run.error}; {until_then}")
    if isinstance(run.error, KeyboardInterrupt):
        raise KeyboardInterrupt(f"interrupted; {until_then}") from None
    if run.error is not None:
        raise run.error
    return Recorded(Path(folder), run.status, run.notes, run.launches)


def _find_program(command: Sequence[str]) -> Path:
    if not command:
        raise ConfigError("record: needs a program: rdmodel record -- ./app args")
    found = shutil.which(command[0])
    if found is None:
        raise ConfigError(f"{command[0]}: no such program, or it is not executable")
    return Path(os.path.abspath(found))


def _refuse_foreign(target: Path, overwrite: bool) -> None:
    if not os.path.lexists(target):
        return
    files = {entry.name for entry in target.iterdir()} if target.is_dir() else set()
    foreign = {name for name in files if not name.startswith("module-")} - {HEAD_FILE, EVENTS_FILE, DATA_FILE}
    if not is_recording(target) or foreign:
        raise TraceError(f"{target}: exists and is not a recording, or holds other files; it is never overwritten")
    if not overwrite:
        raise TraceError(f"{target}: exists already; overwrite=True (--overwrite) replaces it")


class _Run:
    """One run of a program, and its outcome: `error` says why it was stopped, None if it ended by itself."""

    def __init__(self, command: list[str], program: Path, libraries: Path, folder: Path) -> None:
        self._command, self._program, self._libraries = command, program, libraries
        self._writer = EventWriter(folder)
        self.status = 0
        self.notes: tuple[str, ...] = ()
        self.error: BaseException | None = None

    @property
    def launches(self) -> int:
        """Number of launches so far."""
        return self._writer.counts["launches"]

    def execute(self, properties: dict[str, int], gpu: str, values: bool) -> None:
        """Run the program to its end, and complete the recording."""
        memory = os.memfd_create("device memory")
        try:
            capability = 10 * properties["major"] + properties["minor"]
            device = RecordedDevice(self._writer, memory, capability, values=values)
            requests = Requests(device, properties, gpu)
            with self._started(memory) as (process, channel):
                try:
                    _serve(process, channel, requests)
                except UnansweredError as reason:
                    self.error = TraceError(f"{self._command[0]}: {reason}")
                except KeyboardInterrupt as stop:
                    self.error = stop
                self.status = _end(process) if self.error else process.wait()
        finally:
            os.close(memory)
        device.finish()
        self.notes = tuple(device.notes)
        if self.error is None and not self.launches:
            self.error = TraceError(f"{self._command[0]}: {self._why_nothing(requests)}")
        complete = self.error is None and self.status >= 0
        status = self.status if complete else None
        self._writer.finish(
            program=self._command, gpu=gpu, values=values, complete=complete, status=status, notes=list(self.notes)
        )

    @contextmanager
    def _started(self, memory: int) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
        """Start the program; end it, if it still runs, on leaving."""
        channel, other = socket.socketpair()
        environment = dict(os.environ, RDMODEL_RECORDER=f"{other.fileno()}:{memory}")
        paths = [str(self._libraries), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        environment["LD_LIBRARY_PATH"] = ":".join(paths)
        runtimes = named_runtimes(self._program)
        if runtimes and not set(" :") & set(str(self._libraries)):
            # A run path in the program would otherwise precede the stand-ins.
            loaded = [str(self._libraries / name) for name in (DRIVER, *runtimes)]
            environment["LD_PRELOAD"] = ":".join([*loaded, *filter(None, [os.environ.get("LD_PRELOAD")])])
        try:
            process = subprocess.Popen(
                self._command,
                executable=self._program,
                pass_fds=(other.fileno(), memory),
                env=environment,
                preexec_fn=_lift_limits,
            )
        except OSError as error:
            raise ConfigError(f"{self._command[0]}: cannot be started: {error.strerror or error}") from None
        finally:
            other.close()
        try:
            yield process, channel
        finally:
            channel.close()
            _end(process)

    def _why_nothing(self, requests: Requests) -> str:
        if self.status == 127 and not requests.connected:
            return "could not be started with the stand-ins for CUDA's libraries; see the message above"
        if requests.connected or named_runtimes(self._program):
            return f"launched no kernel (it ended with status {self.status})"
        return (
            "did not use the stand-ins for CUDA's libraries: link it with them dynamically, with 'rdmodel nvcc' or the "
            "option -cudart shared of nvcc"
        )


def _lift_limits() -> None:
    """Give the program the memory that this process may not take itself."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _serve(process: subprocess.Popen[bytes], channel: socket.socket, requests: Requests) -> None:
    """Answer requests until the program ends."""
    channel.settimeout(_POLL_SECONDS)
    received = b""
    while True:
        try:
            piece = channel.recv(1 << 16)
        except TimeoutError:
            if process.poll() is not None:
                return
            continue
        except ConnectionError:
            return
        if not piece:
            return
        received += piece
        while (request := requests.take(received)) is not None:
            line, payload, used = request
            received = received[used:]
            answer = requests.answer(line, payload)
            with suppress(ConnectionError):
                channel.settimeout(None)
                channel.sendall(answer.encode() + b"\n")
            channel.settimeout(_POLL_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> int:
    """End a program that still runs, and return its status."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()
