"""Serve requests: read lines and write answers until the input ends, the output breaks or a signal comes."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import ceil, inf
from typing import Any

from rdmodel.service.line_buffer import LineBuffer
from rdmodel.service.operations import compute, list_gpus, list_kernels
from rdmodel.service.protocol import (
    MAX_BATCH_REQUESTS,
    MAX_LINE_BYTES,
    PROTOCOL_VERSION,
    Decoder,
    Refusal,
    answer_text,
    failure_text,
    json_text,
    result_text,
)
from rdmodel.service.requests import ServiceRequest, read_request
from rdmodel.service.scheduler import AnswerStore, Reply, RequestScheduler
from rdmodel.version import __version__

PIPE_READ_BYTES = 1 << 16
"""Number of bytes read at a time."""

EXIT_SECONDS_AFTER_SIGNAL = 2.0
"""Seconds from a signal to the end of the process, whatever it waits for."""

THREAD_SWITCH_SECONDS = 0.0005
"""Seconds after which a computing thread yields to another thread, such as the reading one."""


class Service:
    """A service that reads requests from the file descriptor `source` and writes answers to `sink`.

    Answers are stored in `store`, if there is one. Up to `jobs` requests are computed at a time, each by `threads`
    threads (None: the idle ones are shared out). A request may take `timeout` seconds. While `queue` requests are
    under way, reading pauses, or with `busy`, further requests are refused. After `run`, `idle` tells whether all
    threads have ended.
    """

    def __init__(
        self,
        source: int,
        sink: int,
        *,
        store: AnswerStore | None = None,
        jobs: int = 1,
        threads: int | None = None,
        timeout: float = inf,
        queue: int = 1024,
        busy: bool = False,
        debug: bool = False,
        compute: Callable[..., dict[str, Any]] = compute,
    ) -> None:
        self._source, self._debug, self._busy = source, debug, busy
        self._limits = {"jobs": jobs, "queue": queue, "line_bytes": MAX_LINE_BYTES, "batch": MAX_BATCH_REQUESTS}
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._sink = _Sink(sink, self.wake)
        self._decoder = Decoder()
        self._lines = LineBuffer(MAX_LINE_BYTES)
        self._ended = False
        self._signal: int | None = None
        self.idle = True
        self._scheduler = RequestScheduler(
            compute,
            store,
            jobs=jobs,
            threads=threads,
            timeout=timeout,
            max_requests=queue,
            notify=self.wake,
            debug=debug,
        )

    def run(self) -> int:
        """Serve until the end, and return the exit status: 0, or 128 plus the number of a signal.

        Raises `OSError` if reading the input or writing the output fails.
        """
        with _signals(self._on_signal), _switching(THREAD_SWITCH_SECONDS):
            try:
                self._serve()
            finally:
                self._scheduler.end_all("the service ends")
                self.idle = self._scheduler.close()
        if self._signal is not None:
            return 128 + self._signal
        if self._sink.broken is not None:
            raise self._sink.broken
        return 0

    def wake(self) -> None:
        """Wake the reading thread, so that it checks for changes; may be called in any thread."""
        # A full pipe wakes the thread as well.
        with suppress(BlockingIOError):
            os.write(self._waker, b".")

    def _on_signal(self, number: int) -> None:
        self._signal = number
        self.wake()

    # ---- the reading thread

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        reading = False
        while self._signal is None and self._sink.broken is None:
            while len(self._lines) and self._room:
                self._handle_line(self._lines.next())
            if self._ended and not len(self._lines) and self._scheduler.idle:
                return
            if reading != (wanted := not self._ended and not len(self._lines)):
                (poll.register if wanted else poll.unregister)(*(self._source, select.POLLIN)[: 1 + wanted])
                reading = wanted
            patience = self._scheduler.expire()
            for fd, _ in poll.poll(None if patience == inf else ceil(1000 * max(0.0, patience))):
                if fd == self._wake:
                    os.read(self._wake, PIPE_READ_BYTES)
                else:
                    self._read()

    @property
    def _room(self) -> bool:
        return self._signal is None and self._sink.broken is None and (self._busy or self._scheduler.room)

    def _read(self) -> None:
        try:
            data = os.read(self._source, PIPE_READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self._lines.feed(data)
        else:
            self._lines.end()
            self._ended = True

    def _handle_line(self, line: bytes | None) -> None:
        """Answer a line, now or later; a mistake in it becomes an answer."""
        try:
            if line is None:
                raise Refusal("too_large", f"the line is longer than {MAX_LINE_BYTES} bytes")
            if not line.strip(b" \t\r"):
                return
            value = self._decoder.decode(line)
            if isinstance(value, list):
                self._handle_batch(value, len(line))
            else:
                self._handle_request(value, self._sink.write, len(line))
        except Exception as error:
            id = error.id if isinstance(error, Refusal) else "null"
            self._sink.write(answer_text(id, failure_text(error, self._debug)))

    def _handle_batch(self, values: list[Any], size: int) -> None:
        if not values:
            raise Refusal("invalid_request", "[]: a batch must hold at least one request")
        if len(values) > MAX_BATCH_REQUESTS:
            raise Refusal("too_large", f"a batch of {len(values)} requests; the maximum is {MAX_BATCH_REQUESTS}")
        batch = _Batch(len(values), self._sink.write)
        for at, value in enumerate(values):
            self._handle_request(value, batch.writer(at), size // len(values))

    def _handle_request(self, value: Any, write: Callable[[str], None], size: int) -> None:
        """Answer a request by one call of `write`, now or later."""
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

    def _submit(self, request: ServiceRequest, reply: Reply, size: int) -> None:
        if self._busy and not self._scheduler.room:
            raise Refusal(
                "busy",
                f"{self._scheduler.under_way} requests are under way; send this one again when one of them is answered",
            )
        self._scheduler.submit(request, reply, size)

    def _answer(self, request: ServiceRequest) -> dict[str, Any]:
        """Return the answer to a request that needs no computation."""
        if request.op == "gpus":
            return list_gpus(request.fields)
        if request.op == "kernels":
            return list_kernels()
        if request.op == "cancel":
            return {"found": self._scheduler.cancel(json_text(request.fields["request"]))}
        under_way = {"under_way": self._scheduler.under_way}
        return {
            "service": "rdmodel",
            "version": __version__,
            "protocol": PROTOCOL_VERSION,
            **under_way,
            "limits": self._limits,
        }


class _Batch:
    """The answers to a batch, written as one line when all of them are there."""

    def __init__(self, count: int, write: Callable[[str], None]) -> None:
        self._answers = [""] * count
        self._missing = count
        self._write = write
        self._lock = threading.Lock()

    def writer(self, at: int) -> Callable[[str], None]:
        """Return the function that takes the answer to request number `at`."""

        def put(answer: str) -> None:
            with self._lock:
                self._answers[at] = answer
                self._missing -= 1
                done = not self._missing
            if done:
                self._write(f"[{','.join(self._answers)}]")

        return put


class _Sink:
    """The output of the service, which takes whole lines from any thread; after an error, `broken`, it drops them."""

    def __init__(self, fd: int, on_broken: Callable[[], None]) -> None:
        self._fd, self._on_broken = fd, on_broken
        self._lock = threading.Lock()
        self.broken: OSError | None = None

    def write(self, line: str) -> None:
        """Write a line; wait while the pipe is full."""
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
    """Pass SIGINT, SIGTERM and SIGHUP to `handle`; a second signal, or a timer, then ends the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, _frame: Any) -> None:
        for handled in numbers:
            signal.signal(handled, signal.SIG_DFL)
        # Without a timer, a write to a pipe that nobody reads would wait for ever.
        timer = threading.Timer(EXIT_SECONDS_AFTER_SIGNAL, os._exit, (128 + number,))
        timer.daemon = True
        timer.start()
        timers.append(timer)
        handle(number)

    timers: list[threading.Timer] = []
    numbers: list[int] = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as it is under nohup
        numbers.append(signal.SIGHUP)
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
    """Switch between threads after this time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
