"""`serve`: lines in, lines out, until the input ends, the reader of the answers is gone, or a signal comes."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import ceil, inf
from typing import Any

from rdmodel.service.line_buffer import Lines
from rdmodel.service.operations import compute, gpus, kernels
from rdmodel.service.protocol import (
    MOST_BATCH,
    MOST_BYTES,
    VERSION,
    Decoder,
    Refusal,
    answer_text,
    failure_text,
    result_text,
    text_of,
)
from rdmodel.service.requests import Request, read_request
from rdmodel.service.scheduler import Desk, Reply, Store
from rdmodel.version import __version__

CHUNK = 1 << 16
"""Bytes that are read at a time."""

GRACE = 2.0
"""Seconds after a signal until the process ends, whatever it waits for."""

SWITCH = 0.0005
"""Seconds after which a thread that computes in Python lets another one go on, such as the one that reads."""


class Service:
    """One service: reads requests from the file descriptor `source` and writes answers to `sink`.

    `store` keeps answers (None: nothing is kept), `jobs` requests are computed at a time, each by `threads` threads
    (None: by all that have nothing else to do), `timeout` is the most seconds for a request, `queue` the most
    requests under way. When they are that many, reading stops until one is answered, or, if `busy`, further ones
    are refused. After `run`, `idle` tells whether all threads have ended.
    """

    def __init__(
        self,
        source: int,
        sink: int,
        *,
        store: Store | None = None,
        jobs: int = 1,
        threads: int | None = None,
        timeout: float = inf,
        queue: int = 1024,
        busy: bool = False,
        debug: bool = False,
        compute: Callable[..., dict[str, Any]] = compute,
    ) -> None:
        self._source, self._debug, self._busy = source, debug, busy
        self._limits = {"jobs": jobs, "queue": queue, "line_bytes": MOST_BYTES, "batch": MOST_BATCH}
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._sink = _Sink(sink, self.wake)
        self._decoder = Decoder()
        self._lines = Lines(MOST_BYTES)
        self._ended = False
        self._signal: int | None = None
        self.idle = True
        self._desk = Desk(
            compute,
            store,
            jobs=jobs,
            threads=threads,
            timeout=timeout,
            most=queue,
            notify=self.wake,
            debug=debug,
        )

    def run(self) -> int:
        """Serve until the end; return the status to exit with, 128 and its number after a signal.

        Raises `OSError` if the input cannot be read or the output not be written.
        """
        with _signals(self._on_signal), _switching(SWITCH):
            try:
                self._serve()
            finally:
                self._desk.end_all("the service ends")
                self.idle = self._desk.close()
        if self._signal is not None:
            return 128 + self._signal
        if self._sink.broken is not None:
            raise self._sink.broken
        return 0

    def wake(self) -> None:
        """Have the thread that reads look at what has changed; safe in any thread."""
        # A full pipe wakes it as well.
        with suppress(BlockingIOError):
            os.write(self._waker, b".")

    def _on_signal(self, number: int) -> None:
        self._signal = number
        self.wake()

    # ---- the thread that reads

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        reading = False
        while self._signal is None and self._sink.broken is None:
            while len(self._lines) and self._room:
                self._take(self._lines.next())
            if self._ended and not len(self._lines) and self._desk.idle:
                return
            if reading != (wanted := not self._ended and not len(self._lines)):
                (poll.register if wanted else poll.unregister)(*(self._source, select.POLLIN)[: 1 + wanted])
                reading = wanted
            patience = self._desk.expire()
            for fd, _ in poll.poll(None if patience == inf else ceil(1000 * max(0.0, patience))):
                if fd == self._wake:
                    os.read(self._wake, CHUNK)
                else:
                    self._read()

    @property
    def _room(self) -> bool:
        return self._signal is None and self._sink.broken is None and (self._busy or self._desk.room)

    def _read(self) -> None:
        try:
            data = os.read(self._source, CHUNK)
        except BlockingIOError:
            return
        if data:
            self._lines.feed(data)
        else:
            self._lines.end()
            self._ended = True

    def _take(self, line: bytes | None) -> None:
        """Answer a line, now or later; whatever is wrong with it, the service goes on."""
        try:
            if line is None:
                raise Refusal("too_large", f"the line is longer than {MOST_BYTES} bytes")
            if not line.strip(b" \t\r"):
                return
            value = self._decoder.decode(line)
            if isinstance(value, list):
                self._take_batch(value, len(line))
            else:
                self._handle(value, self._sink.write, len(line))
        except Exception as error:
            id = error.id if isinstance(error, Refusal) else "null"
            self._sink.write(answer_text(id, failure_text(error, self._debug)))

    def _take_batch(self, values: list[Any], size: int) -> None:
        if not values:
            raise Refusal("invalid_request", "[]: a batch holds at least one request")
        if len(values) > MOST_BATCH:
            raise Refusal("too_large", f"a batch of {len(values)} requests; at most {MOST_BATCH} come at a time")
        batch = _Batch(len(values), self._sink.write)
        for at, value in enumerate(values):
            self._handle(value, batch.place(at), size // len(values))

    def _handle(self, value: Any, write: Callable[[str], None], size: int) -> None:
        """Answer one request by one call of `write`, now or later."""
        id = "null"
        try:
            request = read_request(value)
            id = request.id
            if request.op in ("predict", "rank"):
                self._submit(request, lambda member: write(answer_text(id, member)), size)
                return
            member = result_text(self._answer(request))
        except Exception as error:
            id = error.id if isinstance(error, Refusal) and id == "null" else id
            member = failure_text(error, self._debug)
        write(answer_text(id, member))

    def _submit(self, request: Request, reply: Reply, size: int) -> None:
        if self._busy and not self._desk.room:
            raise Refusal("busy", f"{self._desk.under_way} requests are under way; wait for one of them")
        self._desk.submit(request, reply, size)

    def _answer(self, request: Request) -> dict[str, Any]:
        """Return the answer to a request that takes no time."""
        if request.op == "gpus":
            return gpus(request.fields)
        if request.op == "kernels":
            return kernels()
        if request.op == "cancel":
            return {"found": self._desk.cancel(text_of(request.fields["request"]))}
        under_way = {"under_way": self._desk.under_way}
        return {"service": "rdmodel", "version": __version__, "protocol": VERSION, **under_way, "limits": self._limits}


class _Batch:
    """Answers to a batch, written as one line when there are all."""

    def __init__(self, count: int, write: Callable[[str], None]) -> None:
        self._answers = [""] * count
        self._missing = count
        self._write = write
        self._lock = threading.Lock()

    def place(self, at: int) -> Callable[[str], None]:
        """Return what takes the answer to request `at`."""

        def put(answer: str) -> None:
            with self._lock:
                self._answers[at] = answer
                self._missing -= 1
                done = not self._missing
            if done:
                self._write(f"[{','.join(self._answers)}]")

        return put


class _Sink:
    """Where answers go: whole lines, from any thread. After an error, `broken`, nothing is written any more."""

    def __init__(self, fd: int, on_broken: Callable[[], None]) -> None:
        self._fd, self._on_broken = fd, on_broken
        self._lock = threading.Lock()
        self.broken: OSError | None = None

    def write(self, line: str) -> None:
        """Write a line; waits while the reader of the answers does not read."""
        data = memoryview(f"{line}\n".encode("ascii"))
        with self._lock:
            while data and self.broken is None:
                try:
                    data = data[os.write(self._fd, data) :]
                except BlockingIOError:
                    select.select([], [self._fd], [])
                except OSError as error:
                    self.broken = error
        if self.broken is not None:
            self._on_broken()


# ---- the process


@contextmanager
def _signals(handle: Callable[[int], None]) -> Iterator[None]:
    """Have SIGINT and SIGTERM handled; a second one, or `GRACE` seconds, ends the process as it is."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, _frame: Any) -> None:
        for one in numbers:
            signal.signal(one, signal.SIG_DFL)
        # A write to a pipe that nobody reads would wait for ever.
        timer = threading.Timer(GRACE, os._exit, (128 + number,))
        timer.daemon = True
        timer.start()
        timers.append(timer)
        handle(number)

    timers: list[threading.Timer] = []
    numbers: Sequence[int] = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, on_signal) for number in numbers]
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@contextmanager
def _switching(seconds: float) -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
