"""Answer the requests of the stand-ins: lines of words, some with bytes behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rdmodel.errors import RdmodelError
from tracegen.recording.device import RecordedDevice, RefusedError
from tracegen.recording.kernels import RecordedLaunch
from tracegen.recording.textures import RecordedTexture

MAX_PAYLOAD_BYTES = 1 << 30
"""Largest number of bytes behind a line."""

_STATIC_CALL = "cuGetExportTable"
"""The call by which a runtime that is linked statically finds undocumented functions of the driver."""


_TEXTURE = tuple(RecordedTexture.__dataclass_fields__)
"""The words of a texture, in order."""


class UnansweredError(Exception):
    """A request that ends the program; the message says why."""


class Requests:
    """The requests of one program; `connected` tells whether there was any."""

    def __init__(self, device: RecordedDevice, properties: Mapping[str, int], gpu: str) -> None:
        self._device = device
        self._properties = properties
        self._gpu = gpu
        self.connected = False
        self._answers: Mapping[str, Callable[..., str]] = {
            "hello": self._hello,
            "name": lambda: self._gpu,
            "missing": self._missing,
            "allocate": self._allocate,
            "free": lambda address: self._device.free(int(address)),
            "inside": lambda to, origin, size: self._device.check(int(to), int(origin), int(size)),
            "write": lambda address, size: self._device.write(int(address), int(size)),
            "copy": lambda to, origin, size: self._device.copy(int(to), int(origin), int(size)),
            "read": lambda address, size: self._device.read(int(address), int(size)),
            "fill": lambda *numbers: self._device.fill(*map(int, numbers)),
            "flush": lambda: self._device.flush(),
            "texture": self._texture,
            "share": lambda address: self._device.share(int(address)),
            "function": lambda module, name: self._device.function(int(module), name),
            "variable": lambda module, name: self._device.variable(int(module), name),
        }

    @staticmethod
    def take(received: bytes) -> tuple[list[str], bytes, int] | None:
        """Return the words of the first request, the bytes behind it, and its length; None if it is incomplete."""
        end = received.find(b"\n")
        if end < 0:
            return None
        words = received[:end].decode("utf-8", "replace").split(" ")
        extra = 0
        if words[0] in ("module", "launch"):
            extra = int(words[-1]) if words[-1].isdecimal() else MAX_PAYLOAD_BYTES + 1
        if extra > MAX_PAYLOAD_BYTES:
            raise UnansweredError(f"loads a module of more than {MAX_PAYLOAD_BYTES} bytes")
        if len(received) < end + 1 + extra:
            return None
        return words, received[end + 1 : end + 1 + extra], end + 1 + extra

    def answer(self, words: list[str], payload: bytes) -> str:
        """Return the answer to a request: ``ok`` and more words, or ``error`` and a result of CUDA.

        Raises `UnansweredError` if the program cannot go on.
        """
        name, *rest = words
        try:
            if name == "module":
                return f"ok {self._device.load(payload)}"
            if name == "launch":
                return f"ok {self._launch(payload, *map(int, rest))}"
            return f"ok {self._answers[name](*rest)}".rstrip()
        except RefusedError as refusal:
            return f"error {refusal.result}"
        except RdmodelError as error:
            raise UnansweredError(str(error)) from None
        except (KeyError, TypeError, ValueError, IndexError):
            raise UnansweredError(f"sent the request {' '.join(words)!r:.80}, which is not understood") from None

    def _hello(self, process: str) -> str:
        if self.connected:
            raise UnansweredError("a second process uses CUDA: record one program at a time")
        self.connected = True
        numbers = " ".join(f"{name}={value}" for name, value in self._properties.items())
        return f"values={int(self._device.values)} {numbers}"

    def _missing(self, *words: str) -> str:
        call = " ".join(words)
        if call == _STATIC_CALL:
            raise UnansweredError(
                "is linked statically with the CUDA runtime (it calls cuGetExportTable): link it with 'rdmodel nvcc', "
                "or with the option -cudart shared of nvcc"
            )
        raise UnansweredError(f"calls {call}, which the stand-ins for CUDA's libraries do not provide")

    def _allocate(self, kind: str, address: str, size: str) -> str:
        return self._device.allocate(kind, int(address), int(size))

    def _texture(self, *words: str) -> str:
        values = (word if name in ("kind", "mode") else int(word) for name, word in zip(_TEXTURE, words, strict=True))
        return self._device.texture(RecordedTexture.of(dict(zip(_TEXTURE, values, strict=True))))

    def _launch(self, parameters: bytes, function: int, *numbers: int) -> str:
        gx, gy, gz, bx, by, bz, shared, _, cx, cy, cz, _ = numbers
        cluster = None if (cx, cy, cz) == (1, 1, 1) else (cx, cy, cz)
        launch = RecordedLaunch("", (gx, gy, gz), (bx, by, bz), shared, parameters, cluster)
        return self._device.launch(function, launch)
