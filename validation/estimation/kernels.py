"""List the kernels to estimate: PolyBench, and loop nests with several tiles and block shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tracegen
from rdmodel import Trace
from tracegen.kernel_library.suites import POLYBENCH


def _product(second: str, at: list[str], arrays: dict[str, list[str]]) -> dict[str, Any]:
    """Return a tiled matrix product: TI x TJ elements of c per block, TK of the inner dimension at a time."""
    return {
        "name": f"product.{second}",
        "parameters": {"NI": 512, "NJ": 512, "NK": 512, "TI": 16, "TJ": 16, "TK": 16},
        "arrays": {"c": ["NI", "NJ"], **arrays},
        "threads": ["NJ", "NI"],
        "block": ["TJ", "TI"],
        "body": [
            {
                "for": "k",
                "to": "NK",
                "step": "TK",
                "do": [
                    {
                        "for": "p",
                        "from": "thread_x",
                        "to": "TK",
                        "step": "TJ",
                        "do": [{"load": "a", "at": ["y", "k + p"]}],
                    },
                    {"for": "q", "from": "thread_y", "to": "TK", "step": "TI", "do": [{"load": second, "at": at}]},
                    "barrier",
                    {"gap": 32},
                    "barrier",
                ],
            },
            {"load": "c", "at": ["y", "x"]},
            {"store": "c", "at": ["y", "x"]},
        ],
    }


NESTS: Mapping[str, dict[str, Any]] = {
    "gemm": _product("b", ["k + q", "x"], {"a": ["NI", "NK"], "b": ["NK", "NJ"]}),
    "syrk": _product("a", ["x", "k + q"], {"a": ["NI", "NK"]}),
    "transpose": {
        "name": "transpose",
        "parameters": {"N": 1024, "BX": 32, "BY": 8},
        "arrays": {"o": ["N", "N"], "i": ["N", "N"]},
        "threads": ["N", "N"],
        "block": ["BX", "BY"],
        "body": [{"load": "i", "at": ["y", "x"]}, {"store": "o", "at": ["x", "y"]}],
    },
    "stencil2d": {
        "name": "stencil2d",
        "parameters": {"N": 1024, "BX": 32, "BY": 4, "T": 4},
        "arrays": {"o": ["N", "N"], "i": ["N", "N"]},
        "threads": ["N", "N // T"],
        "block": ["BX", "BY"],
        "body": [
            {
                "for": "r",
                "from": "y * T",
                "to": "y * T + T",
                "do": [
                    {
                        "if": ["0 < r", "r < N - 1", "0 < x", "x < N - 1"],
                        "do": [
                            {"load": "i", "at": ["r - 1", "x"]},
                            {"load": "i", "at": ["r", "x - 1"]},
                            {"load": "i", "at": ["r", "x"]},
                            {"load": "i", "at": ["r", "x + 1"]},
                            {"load": "i", "at": ["r + 1", "x"]},
                            {"store": "o", "at": ["r", "x"]},
                        ],
                    }
                ],
            }
        ],
    },
    "stencil3d": {
        "name": "stencil3d",
        "parameters": {"N": 128, "BX": 32, "BY": 8},
        "arrays": {"o": ["N", "N", "N"], "i": ["N", "N", "N"]},
        "threads": ["N", "N"],
        "block": ["BX", "BY"],
        "body": [
            {
                "if": ["0 < x", "x < N - 1", "0 < y", "y < N - 1"],
                "do": [
                    {
                        "for": "k",
                        "from": 1,
                        "to": "N - 1",
                        "do": [
                            {"load": "i", "at": ["k - 1", "y", "x"]},
                            {"load": "i", "at": ["k", "y - 1", "x"]},
                            {"load": "i", "at": ["k", "y", "x - 1"]},
                            {"load": "i", "at": ["k", "y", "x"]},
                            {"load": "i", "at": ["k", "y", "x + 1"]},
                            {"load": "i", "at": ["k", "y + 1", "x"]},
                            {"load": "i", "at": ["k + 1", "y", "x"]},
                            {"store": "o", "at": ["k", "y", "x"]},
                        ],
                    }
                ],
            }
        ],
    },
}

TILES: Mapping[str, tuple[dict[str, int], ...]] = {
    "gemm": (
        {"TI": 8, "TJ": 32, "TK": 32},
        {"TI": 16, "TJ": 16, "TK": 16},
        {"TI": 32, "TJ": 32, "TK": 32},
        {"TI": 4, "TJ": 64, "TK": 16},
        {"TI": 8, "TJ": 8, "TK": 64},
    ),
    "syrk": ({"TI": 16, "TJ": 16, "TK": 16}, {"TI": 8, "TJ": 32, "TK": 32}, {"TI": 32, "TJ": 16, "TK": 8}),
    "transpose": ({"BX": 32, "BY": 8}, {"BX": 8, "BY": 32}, {"BX": 16, "BY": 16}),
    "stencil2d": ({"BX": 32, "BY": 4, "T": 4}, {"BX": 64, "BY": 2, "T": 16}, {"BX": 8, "BY": 16, "T": 2}),
    "stencil3d": ({"BX": 32, "BY": 8}, {"BX": 16, "BY": 16}, {"BX": 64, "BY": 4}),
}


def _tiled() -> dict[str, tuple[str, dict[str, int]]]:
    return {
        f"{name} {'x'.join(map(str, tile.values()))}": (name, tile) for name, tiles in TILES.items() for tile in tiles
    }


TILED = _tiled()
CASES = (*POLYBENCH, *TILED)
"""Names of all kernels."""


def trace_of(case: str) -> Trace:
    """Return the trace of the kernel `case`; kernels of PolyBench have the sizes of the suite."""
    if case in POLYBENCH:
        sizes: Mapping[str, Any] = POLYBENCH[case]
        return tracegen.affine_kernel(case, **sizes)
    name, tile = TILED[case]
    chosen: Mapping[str, Any] = tile
    return tracegen.affine_kernel(NESTS[name], **chosen)
