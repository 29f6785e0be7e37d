"""Name the presets that the simulator can run."""

from __future__ import annotations

from rdmodel import presets

SIMULATED_PRESETS = [name for name in presets.names() if not presets.gpu(name).sectored]
"""Presets without sectors: the simulator does not know the others yet."""

FERMI = "gtx470-16k"
"""GPU of tests whose numbers hold for it: small, and with lines that are fetched whole."""
