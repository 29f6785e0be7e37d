"""A launch that is repeated is executed until it changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.recorded_programs import PTX
from tracegen.ptx.emulator.textures import TextureTable
from tracegen.recording.kernels import Executor, RecordedLaunch, RecordedModule, load_text
from tracegen.recording.memory import AddressSpace

BASE = 1 << 40
GROW = """
.visible .entry grow(.param .u64 x, .param .u32 most) {
  .reg .b64 %rd<2>; .reg .b32 %r<4>;
  ld.param.u64 %rd1, [x]; ld.param.u32 %r1, [most];
  ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1; min.u32 %r3, %r2, %r1; st.global.u32 [%rd1], %r3;
  ret;
}
"""


@pytest.fixture
def grown():
    """Return a function that launches ``x = min(x + 1, most)`` some times, and the executor and x."""
    space = AddressSpace()
    x = space.add(BASE, np.zeros(4, np.uint8), "device").content.view(np.uint32)
    module = RecordedModule(load_text(PTX + GROW, "m"), {"weight": BASE + 4096, "counter": BASE + 8192})
    for variable in module.variables():
        space.insert(variable)
    executor = Executor()

    def grow(times: int, most: int) -> None:
        parameters = BASE.to_bytes(8, "little") + most.to_bytes(4, "little")
        launch = RecordedLaunch("grow", (1, 1, 1), (1, 1, 1), 0, parameters)
        for _ in range(times):
            executor.run(module, launch, space.device_memory(copies=False), TextureTable())

    return grow, executor, x


def test_every_repetition_that_changes_memory_is_executed(grown):
    grow, executor, x = grown
    grow(20, 1000)
    assert (x[0], executor.executed) == (20, 20)


def test_repetitions_that_change_nothing_are_skipped_until_the_memory_or_the_launch_changes(grown):
    grow, executor, x = grown
    grow(20, 3)
    assert (x[0], executor.executed) == (3, 4)
    x[0] = 0
    executor.forget()
    grow(20, 3)
    assert (x[0], executor.executed) == (3, 8)
    grow(20, 5)
    assert (x[0], executor.executed) == (5, 11)
