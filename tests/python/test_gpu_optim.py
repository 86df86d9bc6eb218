"""test_gpu_optim.py - gram.optim on a GPU: graphs of PyTorch, mixed precision, memory formats"""

import gram
import pytest

pytestmark = pytest.mark.skipif(len(gram.devices()) < 2, reason="no GPU")

RULES = {
    "Shampoo": {"lr": 0.05, "betas": (0.9, 0.95), "eps": 1e-3, "graft": "adam", "start": 1,
                "refresh": 1},
    "SOAP": {"lr": 0.05, "refresh": 1},
    "Muon": {"lr": 0.05, "precision": "f32"},
}  # fmt: skip


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch", minversion="2.4")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU")
    return torch


@pytest.fixture(params=RULES)
def method(request):
    import gram.optim

    return lambda params, **more: getattr(gram.optim, request.param)(
        params, **{**RULES[request.param], **more}
    )


def network(torch, dtype):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8)
    )  # fmt: skip
    return model.to("cuda", dtype)


def batch(torch, seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(64, 16, generator=generator).to("cuda", dtype)


def loss_of(model, x):
    return (model(x) - x[:, :8].square()).float().square().mean()


def test_a_whole_step_in_a_graph_of_torch(torch, method):
    """Forward pass, backward pass and step, captured once: replays do what calls do."""
    dtype = torch.float64
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        eager, model = network(torch, dtype), network(torch, dtype)
        calls, replays = method(eager.parameters()), method(model.parameters())
        x = batch(torch, 0, dtype)

        def step(model, optimizer):
            optimizer.zero_grad(set_to_none=False)
            loss_of(model, x).backward()
            optimizer.step()

        for seed in range(7):
            x.copy_(batch(torch, seed, dtype))
            step(eager, calls)
        for seed in range(3):
            x.copy_(batch(torch, seed, dtype))
            step(model, replays)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        step(model, replays)
    with torch.cuda.stream(stream):
        for seed in range(3, 7):
            x.copy_(batch(torch, seed, dtype))
            graph.replay()
    stream.synchronize()
    for p, q in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_mixed_precision(torch, method, kind):
    """Steps under autocast learn; a gradient that is not finite leaves a step out."""
    model = network(torch, torch.float32)
    optimizer = method(model.parameters())
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0, enabled=kind == "float16")
    held = batch(torch, 1000, torch.float32)
    untrained = loss_of(model, held).item()
    for seed in range(30):
        x = batch(torch, seed, torch.float32)
        optimizer.zero_grad()
        with torch.autocast("cuda", getattr(torch, kind)):
            loss = loss_of(model, x)
        scaler.scale(loss).backward()
        before = [p.detach().clone() for p in model.parameters()]
        if seed == 4:
            model[0].weight.grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        if seed == 4 and scaler.is_enabled():  # else that parameter alone rests
            assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True))
            assert scaler.get_scale() < 1024
        elif seed == 4:
            assert torch.equal(model[0].weight, before[0])
    assert all(p.isfinite().all() for p in model.parameters())
    assert loss_of(model, held).item() < 0.9 * untrained


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_formats_of_memory(torch, method, dtype):
    """channels_last of parameters, of gradients alone, or of neither: one result."""
    last, found = torch.channels_last, []
    for formats in ((False, False), (True, True), (False, True)):
        generator = torch.Generator().manual_seed(0)
        w = torch.randn(8, 8, 3, 3, generator=generator).to("cuda", getattr(torch, dtype))
        p = torch.nn.Parameter(w.contiguous(memory_format=last) if formats[0] else w)
        optimizer = method([p])
        for _ in range(3):
            g = torch.randn(8, 8, 3, 3, generator=generator).to(p)
            p.grad = g.contiguous(memory_format=last) if formats[1] else g
            optimizer.step()
        assert p.is_contiguous(memory_format=last) == formats[0]
        found.append(p.detach())
    for p in found[1:]:
        torch.testing.assert_close(p, found[0])
