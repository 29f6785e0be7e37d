"""Arrays are passed with the memory that they belong to, and addresses of this process become those of the device."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel.errors import ConfigError
from rdmodel.integrations import host_memory
from rdmodel.integrations.host_memory import HandedOut, find_memory, translate_address, translate_addresses
from rdmodel.integrations.ptx_launch import PtxLaunch

COPY = """.version 8.0 .target sm_80 .address_size 64
.visible .entry copy(.param .u64 from, .param .u64 to) {
  .reg .b64 %rd<9>; .reg .b32 %r<4>;
  ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
  add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3; ld.global.u32 %r2, [%rd4]; st.global.u32 [%rd5], %r2; ret;
}"""
"""Each thread copies a word of 32 bits."""


def test_a_view_belongs_to_the_memory_of_its_array():
    whole = np.arange(64, dtype=np.int32).reshape(8, 8)
    memory = find_memory("x", whole[2:4, 1:3])
    assert (memory.address, memory.bytes) == (whole.ctypes.data, whole.nbytes)
    assert (memory.offset, memory.size) == (4 * 17, 4 * 10)
    assert np.array_equal(memory.content().view(np.int32), whole.ravel())
    assert np.array_equal(memory.part().content().view(np.int32), whole.ravel()[17:27])


def test_of_a_large_array_a_view_is_passed_alone(monkeypatch):
    whole = np.arange(64, dtype=np.int32)
    monkeypatch.setattr(host_memory, "MOST_SHARED", whole.nbytes - 1)
    memory = find_memory("x", whole[8:16])
    assert (memory.address, memory.bytes, memory.offset) == (whole[8:].ctypes.data, 32, 0)


@pytest.mark.parametrize("empty", [np.zeros(0), np.zeros((4, 0), np.int8), np.zeros(8)[3:3]])
def test_an_array_without_elements_has_no_bytes_of_its_own(empty):
    assert find_memory("x", empty).size == 0


def test_views_of_an_array_share_it_on_the_device():
    whole = np.arange(128, dtype=np.int32)
    launch = PtxLaunch(COPY, "copy")
    first, second = launch.address("from", whole[96:]), launch.address("to", whole[32:64])
    assert first - second == 4 * 64
    launch.add(first, second)
    trace = launch.trace(1, 32)
    # The launch names the part of the array that its arguments span.
    assert [(array.name, array.base, array.bytes) for array in trace.launch.arrays] == [("from", second, 4 * 96)]
    launch.execute(1, 32)
    assert whole[:32].tolist() == list(range(32)) and whole[32:64].tolist() == list(range(96, 128))


def test_a_kernel_reaches_the_array_through_a_view_but_not_what_is_around_it():
    whole, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    launch = PtxLaunch(COPY, "copy")
    launch.add(launch.address("from", whole[:1]), launch.address("to", out))
    launch.execute(1, 64)
    assert np.array_equal(out, whole)


def test_an_array_that_may_not_be_written_keeps_its_values():
    fixed = np.zeros(32, np.int32)
    fixed.setflags(write=False)
    launch = PtxLaunch(COPY, "copy")
    launch.add(launch.address("from", np.ones(32, np.int32)), launch.address("to", fixed))
    launch.execute(1, 32)
    assert not fixed.any()


class Wrapper:
    """An object with an address, as Triton takes it."""

    def __init__(self, **attributes):
        self.__dict__ |= attributes

    def data_ptr(self):
        return self.address


@pytest.mark.parametrize("value", [Wrapper(address=16), Wrapper(address=16, base=Wrapper(address=16))])
def test_a_wrapper_of_nothing_is_refused(value):
    with pytest.raises(
        ConfigError, match=r"^x=.*: must be a NumPy array or a tensor on the CPU, or have one as \.base"
    ):
        find_memory("x", value)


def test_a_wrapper_of_another_tensor_is_refused():
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(8)
    with pytest.raises(ConfigError, match="its address is outside the tensor that it wraps"):
        find_memory("x", Wrapper(address=tensor.data_ptr() + 64, data=tensor))
    assert find_memory("x", Wrapper(address=tensor.data_ptr() + 4, data=tensor)).offset == 4


def test_numbers_become_addresses_of_the_device_only_inside_the_arrays():
    spans = [(1 << 40, 64, 256), (1 << 41, 8, 4096)]
    table = np.array([1 << 40, (1 << 40) + 63, (1 << 40) + 64, (1 << 41) + 7, 5, 2**64 - 1], np.uint64)
    content = np.concatenate([np.zeros(3, np.uint8), table.view(np.uint8)])
    translate_addresses(content, 3, spans)
    assert content[3:].view(np.uint64).tolist() == [256, 319, (1 << 40) + 64, 4103, 5, 2**64 - 1]
    assert [translate_address(number, spans) for number in (7, (1 << 41) + 1)] == [7, 4097]


def test_storages_are_found_by_addresses_in_them_as_long_as_they_exist():
    torch = pytest.importorskip("torch")
    handed_out, tensor, other = HandedOut(), torch.arange(16), torch.zeros(4)
    handed_out.add(tensor[3:])
    handed_out.add(other)
    address = tensor.data_ptr() + 8
    assert handed_out.targets([np.array([5, 0], np.int64)]) == []
    (found,) = handed_out.targets([np.array([5, address], np.int64)])
    assert np.array_equal(found.view(np.int64), np.arange(16))
    assert len(handed_out.targets([torch.tensor([address]), other.data_ptr()])) == 2
    del tensor, found
    assert handed_out.targets([address]) == []


def test_a_tensor_is_found_whose_address_was_known_before():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(4)
    (found,) = HandedOut().targets([tensor.data_ptr()])
    assert np.array_equal(found.view(np.int64), np.arange(4))
