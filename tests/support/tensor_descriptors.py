"""Descriptors of tensors for kernels of Triton and of Gluon, whose own classes take tensors of torch only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Descriptor:
    """The fields of ``TensorDescriptor`` of Triton, and of that of Gluon, which has a `layout`, too."""

    base: Any
    block_shape: list[int]
    layout: Any = None
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of elements."""
        return self.base.shape

    @property
    def strides(self) -> list[int]:
        """Steps between elements, in elements."""
        return [stride // self.base.itemsize for stride in self.base.strides]
