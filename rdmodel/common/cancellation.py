"""Define the base of the exceptions that end work early without an error, and the points at which work may end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Cancelled(BaseException):
    """Raised to end work whose result is no longer needed; the code that started the work catches it.

    It derives from `BaseException`, like `KeyboardInterrupt`, so that an ``except Exception`` in a kernel function or
    in a progress callback does not keep the work going.
    """


_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


def checkpoint() -> None:
    """Call the check of the work under way, if there is one; it may raise to end the work.

    Work that takes long without a progress callback, such as the generation of inputs, calls this often.
    """
    check = _check.get()
    if check is not None:
        check()


@contextmanager
def cancellable(check: Callable[[], None]) -> Iterator[None]:
    """Let every `checkpoint` of this thread call `check`."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)
