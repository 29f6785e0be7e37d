"""List the parameters of functions that declare kernels, their grids and their data."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any


def parameter_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters of a function, in order.

    They are those of `inspect.signature`, which takes longer than the model of a short kernel.
    """
    if type(function) is FunctionType and not vars(function):
        code = function.__code__
        if not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    return list(inspect.signature(function).parameters)
