"""Leave out tests that cannot hold under AddressSanitizer, which has memory of its own and handles signals itself."""

from __future__ import annotations

import os

import pytest

SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
"""Whether the tests run under AddressSanitizer."""

not_sanitized = pytest.mark.skipif(SANITIZED, reason="AddressSanitizer changes memory limits, signals and their timing")
