"""Read the PTX files of the tests, and parse short kernels.

The files under data/ptx are written by hand in the style of compiler output.
"""

from __future__ import annotations

from tests.support.paths import DATA
from tracegen.ptx import (
    parse,
)

FILES = sorted((DATA / "ptx").glob("*.ptx"))
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def parse_body(body, head=HEAD):
    """Return the only kernel of a module, of which `body` starts on line 4."""
    return parse(f"{head}.entry k() {{ {body} }}").functions["k"]


def read(name):
    return next(path.read_text() for path in FILES if path.stem == name)
