"""What all cache-management policies are: frozen values with a name and a kind."""

from __future__ import annotations

from typing import ClassVar, Literal

Kind = Literal["throttling", "admission", "reordering"]


class Policy:
    """Base of the cache-management policies of the simulated machine; equal when of one type with equal options.

    `name` is what the command line calls the policy. A machine has at most one policy of each `kind`.
    """

    __slots__ = ()
    name: ClassVar[str]
    kind: ClassVar[Kind]
