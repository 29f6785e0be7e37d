"""Programs that launch, tune and measure Triton kernels in ways of their own are recorded, too."""

from __future__ import annotations

import numpy as np
import pytest

import rdmodel as rd
from rdmodel.errors import ConfigError
from rdmodel.integrations.triton import recorded_launches, trace

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
torch = pytest.importorskip("torch")


@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def rows(x, stride, out, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out + row * BLOCK + at, tl.load(x + row * stride + at))


@triton.jit
def gather(table, out, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(table + row).to(tl.pointer_type(tl.float32))
    tl.store(out + row * BLOCK + at, tl.load(x + at))


@triton.jit
def copy_from(address, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(address.to(tl.pointer_type(tl.float32)) + at))


def tensors(n=4096):
    return torch.arange(n, dtype=torch.float32), torch.zeros(n)


# ---- compiled kernels


def test_a_compiled_kernel_launches_again_with_other_arguments():
    x, out = tensors()
    other = torch.zeros_like(out)
    with recorded_launches(values=True) as traces:
        compiled = scale[(4,)](x, out, 4096, BLOCK=1024)
        compiled[(2, 1, 1)](x, other, 4096, 1024)
        compiled[(1, 1, 1)](x[2048:], other[2048:], 1024)
    assert [made.launch.grid for made in traces] == [(4, 1, 1), (2, 1, 1), (1, 1, 1)]
    assert torch.equal(out, 2 * x) and torch.equal(other[:2048], 2 * x[:2048])
    assert torch.equal(other[2048:3072], 2 * x[2048:3072]) and not other[3072:].any()


def test_a_compiled_kernel_tells_its_registers_and_launches_as_triton_does_inside():
    x, out = tensors()
    with recorded_launches() as traces:
        compiled = scale.warmup(x, out, 4096, BLOCK=1024, grid=(1,))
        compiled._init_handles()
        assert 1 <= compiled.n_regs <= 255 and compiled.n_spills == 0
        assert traces == []
        enter = leave = None
        compiled.run(4, 1, 1, 0, compiled.function, compiled.packed_metadata, None, enter, leave, x, out, 4096, 1024)
    assert [made.launch.grid for made in traces] == [(4, 1, 1)]


def test_a_compiled_kernel_belongs_to_the_recording_in_which_it_is_launched():
    x, out = tensors()
    with recorded_launches("a100") as first:
        compiled = scale[(4,)](x, out, 4096, BLOCK=1024, num_warps=8)
    with pytest.raises(ConfigError, match="scale: was compiled within recorded_launches: launch it there"):
        compiled[(4, 1, 1)](x, out, 4096)
    with recorded_launches("h100", architecture="sm_90") as second:
        compiled[(2, 1, 1)](x, out, 4096)
    assert [made.launch.grid for made in (*first, *second)] == [(4, 1, 1), (2, 1, 1)]
    assert second[0].launch.block == (256, 1, 1)


def test_a_compiled_kernel_with_too_few_arguments_is_refused():
    x, out = tensors()
    with recorded_launches():
        compiled = scale[(4,)](x, out, 4096, BLOCK=1024)
        with pytest.raises(ConfigError, match="scale: 2 arguments, but it has 4 parameters"):
            compiled[(4, 1, 1)](x, out)


# ---- tuning and measuring

CONFIGURATIONS = [triton.Config({"BLOCK": size}) for size in (32, 1024)]


class Tuner(triton.runtime.Autotuner):
    """An autotuner that launches in a way of its own."""

    def run(self, *args, **meta):
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        times = {config: self._bench(*args, config=config, **meta) for config in self.configs}
        return self.fn.run(*args, **meta, **min(times, key=times.get).all_kwargs())


def grid(meta):
    return (triton.cdiv(1 << 20, meta["BLOCK"]),)


@pytest.mark.parametrize(("tune", "blocks"), [("first", 1 << 15), ("time", 1 << 10)])
def test_an_autotuner_of_the_programs_own_gets_predicted_times(tune, blocks):
    tuner = Tuner(scale, scale.arg_names, CONFIGURATIONS, ["n"], None, None)
    with recorded_launches(tune=tune) as traces:
        tuner[grid](*tensors(1 << 20), 1 << 20)
    assert [made.launch.grid[0] for made in traces] == [blocks]


def test_an_autotuner_of_the_programs_own_leaves_out_what_cannot_run():
    configurations = [triton.Config({"BLOCK": 24}), triton.Config({"BLOCK": 1024})]
    tuner = Tuner(scale, scale.arg_names, configurations, ["n"], None, None)
    with recorded_launches(tune="time") as traces:
        tuner[grid](*tensors(1 << 20), 1 << 20)
    assert [made.launch.grid[0] for made in traces] == [1 << 10]


def test_a_measurement_by_the_program_is_a_prediction_and_records_nothing():
    x, out = tensors(1 << 16)

    def launch():
        scale[(64,)](x, out, 1 << 16, BLOCK=1024)

    with recorded_launches("h100") as traces:
        found = triton.testing.do_bench(launch)
        assert triton.testing.do_bench(launch, quantiles=[0.5, 0.2]) == [found] * 2
        assert triton.testing.do_bench_cudagraph(launch, return_mode="all") == [found]
        assert triton.runtime.driver.active.get_benchmarker()(launch, quantiles=(0.5,)) == [found]
    assert traces == []
    alone = trace(scale, 64, x, out, 1 << 16, BLOCK=1024)
    assert found == pytest.approx(rd.time(alone, "h100").milliseconds)


# ---- arguments


def test_a_view_is_the_base_of_its_tensor():
    x, out = torch.arange(8.0 * 512).reshape(8, 512), torch.zeros(8, 128)
    with recorded_launches(values=True):
        rows[(8,)](x[0], x.stride(0), out, BLOCK=128)
    assert torch.equal(out, x[:, :128])


@pytest.mark.parametrize("first", [0, 1])
def test_a_view_that_begins_elsewhere_is_compiled_without_wide_accesses(first):
    x, out = tensors()
    made = trace(scale, 1, x[first:], out, 1024, BLOCK=1024)
    assert set(made.block(0).size.tolist()) == ({16} if first == 0 else {4, 16})


def test_addresses_of_tensors_in_a_table_are_those_of_the_device():
    weights = [torch.full((128,), float(number)) for number in range(3)]
    before = torch.tensor([w.data_ptr() for w in weights], dtype=torch.uint64)
    out = torch.zeros(3, 128)
    with recorded_launches(values=True):
        gather[(3,)](before, out, BLOCK=128)
        assert out[:, 0].tolist() == [0, 1, 2]
        table = torch.tensor([w.data_ptr() for w in reversed(weights)], dtype=torch.int64)
        gather[(3,)](table, out, BLOCK=128)
        assert out[:, 0].tolist() == [2, 1, 0]
        copy_from[(1,)](weights[2].data_ptr(), out[0], BLOCK=128)
        assert out[0, 5].item() == 2
    assert table.tolist() == [w.data_ptr() for w in reversed(weights)]


class Wrapped:
    """A tensor in an object of the program's own."""

    def __init__(self, data):
        self.data, self.dtype, self.shape = data, data.dtype, data.shape

    def data_ptr(self):
        return self.data.data_ptr()


def test_an_object_with_an_address_and_a_type_is_an_array():
    x, out = tensors()
    with recorded_launches(values=True):
        scale[(4,)](Wrapped(x), Wrapped(out), 4096, BLOCK=1024)
    assert torch.equal(out, 2 * x)
    as_integers = triton.reinterpret(x, tl.int32)
    assert trace(scale, 4, as_integers, out, 4096, BLOCK=1024).launch.arrays[0].bytes == 4 * 4096


def test_a_grid_may_fill_and_replace_arguments():
    x, out = tensors()
    other = torch.zeros_like(out)
    calls = []

    def fill(arguments):
        calls.append(arguments["BLOCK"])
        x.fill_(3)
        arguments["out"] = other
        return (4,)

    with recorded_launches(values=True):
        scale[fill](x, out, 4096, BLOCK=1024)
    assert calls == [1024] and not out.any() and (other == 6).all()


def test_options_of_the_compiler_are_passed_and_unknown_ones_refused():
    x, out = np.zeros(1024, np.float32), np.zeros(1024, np.float32)
    with recorded_launches() as traces:
        scale[(1,)](x, out, 1024, BLOCK=1024, num_warps=8, maxnreg=32, sanitize_overflow=False)
        with pytest.raises(
            ConfigError, match="scale: unknown argument waves_per_eu: must be one of x, out, n, BLOCK, "
        ):
            scale[(1,)](x, out, 1024, BLOCK=1024, waves_per_eu=2)
    assert [made.launch.block for made in traces] == [(256, 1, 1)]
