"""Let the signals that ask a program to end do so as Ctrl-C does: with an exception, so that files are cleaned up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

STOPPING_SIGNALS = {signal.SIGTERM: "terminated", signal.SIGHUP: "hung up"}
"""Signals that end a command as Ctrl-C does, and the word for each in the message."""


class Stopped(KeyboardInterrupt):
    """The end of a command by a signal other than SIGINT; `number` is that of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(STOPPING_SIGNALS[signal.Signals(number)])
        self.number = number


@contextmanager
def stopping_signals() -> Iterator[None]:
    """Raise `Stopped` in the main thread for SIGTERM and SIGHUP.

    A signal that the caller of the program ignores, as ``nohup`` does, stays ignored; so does one that the caller of
    `main` handles in its own way.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in STOPPING_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    raise Stopped(number)
