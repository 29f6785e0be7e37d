"""Programs of torch that use a GPU run on the CPU, and see there what they would see on the GPU."""

from __future__ import annotations

import math

import pytest

from rdmodel import presets
from rdmodel.integrations.torch_on_cpu import device_of, torch_on_cpu

torch = pytest.importorskip("torch")
if torch.cuda.is_available():
    pytest.skip("torch has a GPU", allow_module_level=True)


@pytest.fixture
def gpu():
    """Let torch have an H100."""
    with torch_on_cpu(presets.gpu("h100"), (9, 0)) as redirected:
        assert redirected
        yield presets.gpu("h100")


class Doubled(torch.autograd.Function):
    """An operation that notes what it is given, forwards and backwards."""

    @staticmethod
    def forward(ctx, x, seen):
        ctx.seen = seen
        seen.append((x.dtype, str(x.device)))
        return 2 * torch.ones(x.shape, dtype=x.dtype, device=x.device) * x

    @staticmethod
    def backward(ctx, gradient):
        ctx.seen.append((gradient.dtype, str(gradient.device)))
        return 2 * torch.ones(gradient.shape, dtype=gradient.dtype, device="cuda") * gradient, None


def layer():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.1)).cuda()


def test_tensors_say_that_they_are_on_the_gpu_and_are_not(gpu):
    x = torch.ones(4, device="cuda")
    assert x.is_cuda and x.get_device() == 0 and x.device == torch.device("cuda:0")
    assert device_of(x) == "cpu" and x.to(x.device).sum().item() == 4
    assert torch.zeros(2, device="meta").device.type == "meta"


def test_a_backward_pass_sees_the_gpu_as_the_forward_pass_does(gpu):
    seen, x = [], torch.ones(4, device="cuda", requires_grad=True)
    Doubled.apply(x, seen).sum().backward()
    torch.autograd.grad(Doubled.apply(x, seen).sum(), x)
    assert seen == [(torch.float32, "cuda:0")] * 4
    assert torch.equal(x.grad, torch.full((4,), 2.0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_mixed_precision_gives_kernels_the_types_that_they_have_on_a_gpu(gpu, dtype):
    seen, x = [], torch.ones(4, 8, device="cuda")
    with torch.autocast("cuda", dtype=dtype):
        Doubled.apply(layer()(x), seen).sum().backward()
        with torch.autocast("cuda", enabled=False):
            Doubled.apply(layer()(x), seen)
    Doubled.apply(layer()(x), seen)
    assert [kind for kind, _ in seen] == [dtype, dtype, torch.float32, torch.float32]


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_runs_again_in_the_backward_pass(gpu, reentrant):
    from torch.utils.checkpoint import checkpoint

    seen, model, x = [], layer(), torch.ones(4, 8, device="cuda", requires_grad=True)
    checkpoint(lambda x: model(Doubled.apply(x, seen)), x, use_reentrant=reentrant).sum().backward()
    assert seen == [(torch.float32, "cuda:0")] * 3


def test_gradients_are_scaled_and_random_numbers_are_drawn_on_the_cpu(gpu):
    model, scaler = layer(), torch.amp.GradScaler("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    generator = torch.Generator(device="cuda").manual_seed(3)
    assert isinstance(generator, torch.Generator)
    with torch.random.fork_rng(), torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.randn(4, 8, device="cuda", generator=generator)).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def test_the_default_device_may_be_the_gpu(gpu):
    torch.set_default_device("cuda")
    try:
        assert torch.nn.Linear(4, 4)(torch.ones(4)).is_cuda
    finally:
        torch.set_default_device(None)
    with torch.device("cuda"):
        assert torch.nn.Linear(4, 4)(torch.ones(4)).is_cuda


def test_questions_about_the_device_are_answered_for_the_gpu(gpu):
    properties = torch.cuda.get_device_properties("cuda")
    assert properties.multi_processor_count == gpu.sms and (properties.major, properties.minor) == (9, 0)
    assert properties.shared_memory_per_block_optin == 227 << 10
    assert torch.cuda.is_bf16_supported() and torch.cuda.device_count() == 1
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(torch.cuda.Stream()) as _, torch.cuda.device(0):
        begin.record()
        torch.cuda.current_stream().record_event(end)
    torch.cuda.synchronize()
    assert math.isnan(begin.elapsed_time(end)), "there is no time to measure"


def test_nothing_is_compiled(gpu):
    calls = []

    @torch.compile(dynamic=True)
    def add(x):
        calls.append(x.device.type)
        return x + 1

    assert torch.compile(add)(torch.ones(1, device="cuda")).item() == 2 and calls == ["cuda"]
    empty = torch.nn.ModuleList()
    assert torch.compile(empty) is empty


def test_the_tables_of_the_compiler_of_torch_can_be_made(gpu):
    """They name the functions of torch, of which no two may be the same."""
    from torch._dynamo import trace_rules

    trace_rules.get_torch_obj_rule_map.cache_clear()
    try:
        trace_rules.get_torch_obj_rule_map()
    finally:
        trace_rules.get_torch_obj_rule_map.cache_clear()


def test_torch_is_as_before_after_the_block():
    names = ("Generator", "set_default_device", "compile")
    before = [getattr(torch, name) for name in names], torch.autograd._engine_run_backward, torch.cuda.Event
    with torch_on_cpu(presets.gpu("h100"), (9, 0)):
        assert torch.cuda.is_available()
    after = [getattr(torch, name) for name in names], torch.autograd._engine_run_backward, torch.cuda.Event
    assert after == before and not torch.cuda.is_available() and str(torch.ones(1).device) == "cpu"


def test_questions_about_any_accelerator_are_answered_for_the_gpu(gpu):
    x = torch.ones(4, device="cuda")
    assert torch.accelerator.is_available() and torch.accelerator.current_accelerator().type == "cuda"
    assert torch.accelerator.device_count() == 1 and torch.accelerator.current_device_index() == 0
    with torch.accelerator.device_index(x.device.index):
        torch.accelerator.synchronize()
    x.record_stream(torch.cuda.current_stream())
    assert x.type() == "torch.cuda.FloatTensor" and x.type(torch.float16).dtype == torch.float16


def test_random_numbers_have_generators_and_a_device_has_a_number(gpu):
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    assert generator.initial_seed() == torch.cuda.initial_seed()
    seed, offset = generator.get_state().view(torch.int64)
    generator.set_state(torch.tensor([seed, offset + 4], dtype=torch.int64).view(torch.uint8))
    assert (generator.initial_seed(), generator.get_offset()) == (int(seed), 4)
    assert torch.cuda.device(0).idx == 0 and torch._C._cuda_getCurrentRawStream(0) == 0
    assert torch.cuda.get_arch_list() == ["sm_90"] and torch.cuda.is_initialized()


def test_the_program_tells_whose_address_it_asks_for():
    seen = []
    with torch_on_cpu(presets.gpu("h100"), (9, 0), seen.append):
        x = torch.ones(4, device="cuda")
        assert x.data_ptr() and x[1:].data_ptr() - x.data_ptr() == 4
    x.data_ptr()
    assert len(seen) == 3
