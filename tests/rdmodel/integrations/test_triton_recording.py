"""The launches of a Python program become traces while it runs on the CPU; no GPU is needed."""

from __future__ import annotations

import numpy as np
import pytest

from rdmodel import predict, time
from rdmodel.errors import ConfigError, TraceError
from rdmodel.integrations import triton_recording
from rdmodel.integrations.triton import recorded_launches, trace
from rdmodel.integrations.triton_tracing import trace_keywords
from rdmodel.trace import Trace

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")


@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


@triton.jit
def add_one(x_ptr, out_ptr, BLOCK: tl.constexpr, offset: tl.constexpr = 0):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at + offset) + 1)


tuned = triton.autotune([triton.Config({"BLOCK": size}, num_warps=2) for size in (512, 1024)], key=["n"])(scale)
sized = triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})(scale)


def program(x):
    """Scale an array in three launches, as host code does that knows nothing of a recording."""
    out = np.empty_like(x)
    scale[(4,)](x, out, x.size, 2.0, BLOCK=1024, num_warps=4)
    sized[(1,)](x, out, 256, 0.5)
    tuned[lambda meta: (triton.cdiv(x.size, meta["BLOCK"]),)](x, out, x.size, 3.0)
    return out


def test_every_launch_becomes_a_trace_in_its_order():
    x = np.zeros(4096, np.float32)
    with recorded_launches() as traces:
        program(x)
    assert [(made.launch.kernel, made.launch.grid[0]) for made in traces] == [("scale", 4), ("scale", 1), ("scale", 8)]
    alone = trace(scale, 4, x, np.zeros_like(x), 4096, 2.0, BLOCK=1024, num_warps=4)
    for name in ("sectors", "hits", "misses"):
        assert getattr(predict(traces[0], "a100", sms=1), name) == getattr(predict(alone, "a100", sms=1), name)


def test_a_function_of_the_traces_is_recorded_in_their_place():
    with recorded_launches("h100", architecture="sm_90", then=lambda made: predict(made, "h100", sms=1)) as found:
        program(np.zeros(4096, np.float32))
    assert [prediction.sectors for prediction in found] == [512, 32, 512]


def test_kernels_launch_as_before_after_the_block_and_after_an_error():
    before = type(scale).run
    with pytest.raises(ZeroDivisionError), recorded_launches():
        raise ZeroDivisionError
    assert type(scale).run is before
    with pytest.raises(ConfigError, match="scale: missing argument BLOCK"), recorded_launches() as traces:
        scale[(1,)](np.zeros(8, np.float32), np.zeros(8, np.float32), 8, 1.0)
    assert type(scale).run is before and traces == []


def test_a_program_can_ask_for_the_device():
    with recorded_launches("a100", architecture="sm_90"):
        device = triton.runtime.driver.active
        assert device.utils.get_device_properties(0)["multiprocessor_count"] == 108
        assert device.utils.get_device_properties(0)["max_shared_mem"] == 163 << 10
        assert device.get_current_target().arch == 90
        with pytest.raises(ConfigError, match="asks the driver of Triton for 'load_binary', which needs a GPU"):
            device.utils.load_binary()


def test_a_configuration_prepares_its_arguments_first():
    seen = []
    config = triton.Config({"BLOCK": 512}, pre_hook=lambda values: seen.append(values["BLOCK"]))
    kernel = triton.autotune([config], key=["n"])(scale)
    with recorded_launches() as traces:
        kernel[(2,)](np.zeros(1024, np.float32), np.zeros(1024, np.float32), 1024, 1.0)
    assert seen == [512] and len(traces) == 1 and isinstance(traces[0], Trace)


@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK != 7 * 32, "no power of two")
    for start in range(tl.program_id(0) * BLOCK, n, BLOCK * tl.num_programs(0)):
        at = start + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n), mask=at < n)


def launch_copies(configs, sizes, **options):
    """Record copies of arrays by an autotuned function; return the sizes of grids, and the chosen sizes of blocks."""
    tuned, chosen = triton.autotune(configs, key=["n"])(copy), []
    with recorded_launches("a100", **options) as traces:
        for n in sizes:
            x = np.zeros(n, np.float32)
            tuned[lambda meta: (meta["BLOCK"] // 32,)](x, np.zeros_like(x), n)
            chosen.append(tuned.best_config.kwargs["BLOCK"])
    return [made.launch.grid[0] for made in traces], chosen


def test_an_autotuned_function_takes_the_configuration_that_is_predicted_to_be_the_fastest():
    configs = [triton.Config({"BLOCK": size}) for size in (32, 2048, 256)]
    assert launch_copies(configs, [1 << 16]) == ([1], [32])
    # A grid of 64 blocks with 16 elements per thread is faster than one of 1 or 8 blocks.
    assert launch_copies(configs, [1 << 16, 1 << 16], tune="time") == ([64, 64], [2048, 2048])
    best = min(configs, key=lambda config: predicted_time(config.kwargs["BLOCK"]))
    assert best.kwargs["BLOCK"] == 2048


def predicted_time(size):
    x = np.zeros(1 << 16, np.float32)
    return time(trace(copy, size // 32, x, np.zeros_like(x), x.size, BLOCK=size), "a100").milliseconds


def test_a_function_is_tuned_once_for_each_value_of_its_keys(monkeypatch):
    timed = []
    monkeypatch.setattr(triton_recording, "time", lambda made, gpu: timed.append(1) or time(made, gpu))
    configs = [triton.Config({"BLOCK": size}) for size in (256, 512)]
    launch_copies(configs, [4096, 8192, 4096], tune="time")
    assert len(timed) == 4


def test_configurations_that_cannot_run_are_passed_over():
    configs = [triton.Config({"BLOCK": 7 * 32}), triton.Config({"BLOCK": 64})]
    assert launch_copies(configs, [4096], tune="time") == ([2], [64])
    with pytest.raises(ConfigError, match=r"copy: Triton cannot compile it for sm_80: .*no power of two"):
        launch_copies([triton.Config({"BLOCK": 7 * 32}, num_warps=n) for n in (1, 2)], [4096], tune="time")


def test_a_hook_prepares_the_arguments_of_each_configuration():
    seen = []
    hook = lambda values: seen.append(values["BLOCK"])  # noqa: E731
    launch_copies([triton.Config({"BLOCK": size}, pre_hook=hook) for size in (64, 128)], [4096], tune="time")
    assert seen[:2] == [64, 128] and len(seen) == 3


def test_the_way_of_tuning_is_first_or_time():
    with pytest.raises(ConfigError, match="unknown value for tune: 'best'; known: first, time"):
        launch_copies([triton.Config({"BLOCK": 64})], [64], tune="best")


def test_a_warm_up_compiles_and_launches_nothing():
    with recorded_launches() as traces:
        compiled = scale.warmup(np.zeros(8, np.float32), np.zeros(8, np.float32), 8, 1.0, BLOCK=16, grid=(1,))
    assert traces == [] and "scale" in compiled.asm["ptx"]


def test_a_keyword_launch_still_takes_a_grid_that_is_a_function():
    keywords = {"x": np.zeros(64, np.float32), "out": np.zeros(64, np.float32), "n": 64, "factor": 1.0, "BLOCK": 32}
    assert trace_keywords(scale, lambda meta: (64 // meta["BLOCK"],), keywords, "sm_80").launch.grid == (2, 1, 1)


@triton.jit
def halves(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at * 2, tl.load(x + at).to(tl.float16))


@triton.jit
def product(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tile = tl.load(x + at[:, None] * N + at[None, :])
    tl.store(out + at[:, None] * N + at[None, :], tl.dot(tile, tile).to(tl.float16))


def test_with_values_a_program_finds_the_results_of_its_kernels():
    x = np.arange(4096, dtype=np.float32)
    with recorded_launches(values=True) as traces:
        out = program(x)
    assert np.array_equal(out, 3 * x) and np.array_equal(x, np.arange(4096)) and len(traces) == 3


def test_results_go_where_a_view_lies_and_nowhere_else():
    whole = np.full(64, 7, np.float16)
    x = np.arange(16, dtype=np.float32)
    x.setflags(write=False)
    with recorded_launches(values=True):
        halves[(1,)](x, whole[8:40], BLOCK=16)
    assert np.array_equal(whole[8:40:2], x) and set(whole[9:40:2]) == set(whole[40:]) == set(whole[:8]) == {7}


def test_results_in_a_view_survive_an_argument_that_overlaps_it():
    whole = np.arange(64, dtype=np.float32)
    with recorded_launches(values=True):
        scale[(1,)](whole, whole[32:], 32, 2.0, BLOCK=32)
        scale[(1,)](whole[32:], whole, 32, 2.0, BLOCK=32)
    assert np.array_equal(whole, [*(4 * np.arange(32)), *(2 * np.arange(32))])


def test_accesses_outside_an_array_are_errors_unless_the_recording_is_lenient():
    x, out = np.ones(1, np.float32), np.ones(1024, np.float32)
    with recorded_launches() as traces:
        add_one[(1,)](x, out, BLOCK=1024)
    with pytest.raises(TraceError, match=r"past the end of x_ptr .*; a GPU may not notice .* lenient=True"):
        predict(traces[0], "a100", sms=1)
    with recorded_launches(values=True, lenient=True) as traces:
        add_one[(1,)](x, out, BLOCK=1024)
    assert predict(traces[0], "a100", sms=1).sectors == 128
    assert x.tolist() == [1] and out.tolist() == [2] + [1] * 1023
    with recorded_launches(lenient=True) as traces:
        add_one[(1,)](x, out, BLOCK=1024, offset=1 << 24)
    with pytest.raises(TraceError, match=r"thread \(0, 0, 0\) of block \(0, 0, 0\)$"):
        predict(traces[0], "a100", sms=1)


def test_results_of_tensor_cores_leave_the_arrays_with_a_warning():
    x, out = np.ones((32, 32), np.float16), np.full((32, 32), 5, np.float16)
    with pytest.warns(UserWarning, match="the arrays keep their values: .*product"), recorded_launches(values=True):
        product[(1,)](x, out, N=32)
    assert (out == 5).all()


def test_tensors_of_torch_get_the_results_too():
    torch = pytest.importorskip("torch")
    with recorded_launches(values=True):
        x = torch.arange(1024, dtype=torch.bfloat16, device="cuda")
        out = torch.zeros_like(x)
        scale[(1,)](x, out, x.numel(), 2.0, BLOCK=1024)
        assert torch.equal(out, 2 * x)


def test_what_a_program_puts_on_a_gpu_stays_on_the_cpu():
    torch = pytest.importorskip("torch")
    with recorded_launches("a100", architecture="sm_90") as traces:
        x = torch.rand(1024, device="cuda", dtype=torch.float32)
        out = torch.empty_like(x).to("cuda:0").cuda()
        assert x.is_cuda and torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
        assert torch.cuda.get_device_properties("cuda").multi_processor_count == 108
        with torch.cuda.device(x.device), torch.cuda.stream(torch.cuda.Stream()):
            scale[(1,)](x, out, x.numel(), 2.0, BLOCK=1024)
        torch.cuda.synchronize()
        moved = torch.nn.Linear(4, 4).to(torch.device("cuda"))(torch.ones(4, device=torch.device("cuda", 0)))
        assert moved.shape == (4,)
    assert len(traces) == 1 and traces[0].launch.grid == (1, 1, 1)
    assert not x.is_cuda and not torch.cuda.is_available()


def test_a_program_of_torch_is_recorded_forwards_and_backwards():
    torch = pytest.importorskip("torch")

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = torch.empty_like(x)
            scale[(1,)](x, out, x.numel(), 2.0, BLOCK=1024)
            return out

        @staticmethod
        def backward(ctx, grad):
            out = torch.empty_like(grad)
            scale[(1,)](grad, out, grad.numel(), 2.0, BLOCK=1024)
            return out

    with recorded_launches() as traces:
        Scaled.apply(torch.zeros(1024, requires_grad=True)).sum().backward()
    assert len(traces) == 2
