"""Define the base of the exceptions that end work early without an error."""

from __future__ import annotations


class Cancelled(BaseException):
    """Raised to end work whose result is no longer needed; the code that started the work catches it.

    It derives from `BaseException`, like `KeyboardInterrupt`, so that an ``except Exception`` in a kernel function or
    in a progress callback does not keep the work going.
    """
