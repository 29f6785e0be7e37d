"""Describe textures among the arguments of a kernel: an array, and how the kernel reads it.

An array is a texture if the kernel reads textures through its argument. It has other options than point sampling with
clamping if it is given as ``{texels=float[512,512], filter=linear}``, or as such a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rdmodel.common.late_dataclass import dataclass
from rdmodel.errors import ConfigError
from tracegen.ptx.emulator.textures import TextureOptions

TEXELS = "texels"
"""The field that makes a structure a texture; the others are those of `TextureOptions`."""

_OPTIONS = tuple(TextureOptions.__dataclass_fields__)


@dataclass(frozen=True, slots=True, eq=False)
class TextureValue:
    """An array that is read as a texture, and how; the array may still be a reference to another argument."""

    array: Any
    options: TextureOptions


def is_texture(fields: Mapping[str, object]) -> bool:
    """Return whether the fields of an argument describe a texture, and not a structure with a field of that name."""
    return TEXELS in fields and set(fields) <= {TEXELS, *_OPTIONS}


def texture_options(fields: Mapping[str, object], name: str) -> TextureOptions:
    """Return the options among the fields of the texture `name`; raises `ConfigError`."""
    options: dict[str, Any] = {}
    for field, value in fields.items():
        if field == TEXELS:
            continue
        options[field] = value in ("true", "1", True, 1) if field == "normalized" else str(value)
        if field == "normalized" and value not in ("true", "false", "0", "1", True, False):
            raise ConfigError(f"texture {name}: normalized={value!r:.40}: must be true or false")
    try:
        return TextureOptions(**options)
    except ConfigError as error:
        raise ConfigError(f"texture {name}: {error}") from None


def make_value(array: object, options: TextureOptions, name: str) -> TextureValue:
    """Return a texture; raises `ConfigError` unless its texels are an array."""
    if not isinstance(array, Mapping) and (not isinstance(array, np.ndarray) or not array.ndim):
        raise ConfigError(f"texture {name}: texels must be an array, such as float[512,512] or @image.npy")
    return TextureValue(array, options)
