"""rdmodel: what a GPU's caches will do with a kernel."""

from rdmodel.model import predict

__all__ = ["predict"]
