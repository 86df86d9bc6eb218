"""test_gpu_kfac.py - gram.optim.KFAC and EKFAC of models on a GPU: as on the CPU, and no wait"""

import copy
import io

import gram
import pytest

pytestmark = pytest.mark.skipif(len(gram.devices()) < 2, reason="no GPU")
torch = pytest.importorskip("torch", minversion="2.4")
if not torch.cuda.is_available():
    pytest.skip("PyTorch has no GPU", allow_module_level=True)

import gram.optim  # noqa: E402


class Net(torch.nn.Module):
    """A table, a convolution of two groups, a norm and two linear layers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(9, 8, padding_idx=0)
        self.convolution = torch.nn.Conv2d(2, 6, 3, stride=2, padding=1, groups=2)
        self.norm = torch.nn.LayerNorm(6)
        self.hidden = torch.nn.Linear(6, 40)
        self.last = torch.nn.Linear(40, 4, bias=False)

    def forward(self, rows):
        h = self.table(rows)  # samples, 4, 8
        h = self.convolution(h.unflatten(1, (2, 2))).flatten(2).mean(-1)
        return self.last(self.hidden(self.norm(h)).tanh())


def data(step, device):
    generator = torch.Generator().manual_seed(step)
    rows = torch.randint(0, 9, (96, 4), generator=generator)
    return rows.to(device), (rows.sum(1) % 4).to(device)


def train(model, optimizer, steps, begin=0, cast=None):
    device = next(model.parameters()).device
    for step in range(begin, begin + steps):
        rows, y = data(step, device)
        optimizer.zero_grad()
        with torch.autocast(device.type, cast or torch.bfloat16, enabled=cast is not None):
            outputs = model(rows)
        optimizer.curvature(outputs)
        torch.nn.functional.cross_entropy(outputs.float() if cast else outputs, y).backward()
        optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]


def make(kind, model, **options):
    options = {"lr": 0.05, "refresh_every": 2, **options}
    try:
        return getattr(gram.optim, kind)(model, **options)
    except NotImplementedError as e:
        pytest.skip(str(e))


def close(mine, other, bound):
    for p, q in zip(mine, other, strict=True):
        assert (p - q).abs().max() <= bound * max(1.0, float(q.abs().max()))


# EKFAC wants more samples than the widest layer has features, and in f32 damping above what
# rounding makes of small eigenvalues: where eigenvectors are not unique, neither is its step.
ROWS = {
    "factored": ("KFAC", {}),
    "exact, short": ("KFAC", {"exact": True, "kl_clip": 1e-5}),
    "reduce, type2": ("KFAC", {"setting": "reduce", "fisher": "type2"}),
    "AdamW": ("KFAC", {"others": "adamw", "weight_decay": 0.01}),
    "corrected": ("EKFAC", {"damping": 0.1}),
    "corrected, type2": ("EKFAC", {"damping": 0.1, "fisher": "type2"}),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["f64", "f32"])
@pytest.mark.parametrize("row", ROWS)
def test_it_is_that_of_the_cpu(row, dtype):
    kind, options = ROWS[row]
    here = Net().to(dtype)
    there = copy.deepcopy(here).cuda()
    want = train(here, make(kind, here, **options), 5)
    optimizer = make(kind, there, **options)
    close(train(there, optimizer, 5), want, 1e-7 if dtype == torch.float64 else 1e-5)
    info = optimizer.info()
    assert info["skipped"] == info["failed"] == 0 and 0 < info["nu"] <= 1


@pytest.mark.parametrize("kind", ["KFAC", "EKFAC"])
def test_state_in_float32(kind):
    results = []
    for state in (None, torch.float32):
        model = Net().double().cuda()
        optimizer = make(kind, model, damping=0.1, state_dtype=state)
        results.append(train(model, optimizer, 4))
        assert optimizer.info()["failed"] == 0
        found = optimizer.state_dict()["kfac"]["0.b"]
        assert found.is_cuda and found.dtype == (state or torch.float64)
    close(*results, 1e-3)


@pytest.mark.parametrize("kind", ["KFAC", "EKFAC"])
@pytest.mark.parametrize("fisher", ["empirical", "mc", "type2"])
def test_nothing_waits(kind, fisher):
    """Factors, directions and the refresh of inverses, which steps 0 and 2 have."""
    model = Net().cuda()
    optimizer = make(kind, model, fisher=fisher, others="adamw")
    train(model, optimizer, 2)
    batches = [data(step, "cuda") for step in (2, 3)]
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for rows, y in batches:
            optimizer.zero_grad()
            outputs = model(rows)
            optimizer.curvature(outputs)
            torch.nn.functional.cross_entropy(outputs, y).backward()
            optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert optimizer.info()["skipped"] == 0


@pytest.mark.parametrize("kind", ["KFAC", "EKFAC"])
@pytest.mark.parametrize("refresh", [1, 1000])
def test_a_graph_captures_a_step(kind, refresh):
    """With a refresh in it, and without; replays do what steps do. Nothing in it can wait."""
    model = Net().cuda()
    twin = copy.deepcopy(model)
    options = {"refresh_every": refresh, "others": "adamw"}
    optimizer, other = make(kind, model, **options), make(kind, twin, **options)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        train(model, optimizer, 2)
    rows, y = data(2, "cuda")
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        torch.nn.functional.cross_entropy(model(rows), y).backward()
        optimizer.step()
    for step in range(2, 5):
        for kept, new in zip((rows, y), data(step, "cuda"), strict=True):
            kept.copy_(new)
        optimizer.zero_grad(set_to_none=False)
        graph.replay()
    torch.cuda.synchronize()
    want = train(twin, other, 5)
    close([p.detach().cpu() for p in model.parameters()], want, 1e-5)
    with torch.cuda.stream(stream):
        assert optimizer.info()["skipped"] == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["f16", "bf16"])
@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_halves(place, dtype):
    """Of half parameters, and under autocast; steps are about those of float32."""
    exact = Net().to(place)
    start = [p.detach().cpu().clone() for p in exact.parameters()]
    want = train(exact, make("KFAC", exact), 3)
    moved = torch.cat([(p - q).flatten() for p, q in zip(want, start, strict=True)])
    half = Net().to(place, dtype)
    optimizer = make("KFAC", half)
    results = [[p.float() for p in train(half, optimizer, 3)]]
    assert optimizer.state[half.hidden.weight]["momentum_buffer"].dtype == torch.float32
    mixed = Net().to(place)
    results.append(train(mixed, make("KFAC", mixed), 3, cast=dtype))
    for found in results:
        mine = torch.cat([(p - q).flatten() for p, q in zip(found, start, strict=True)])
        assert mine.isfinite().all() and (mine - moved).norm() < 0.3 * moved.norm()


@pytest.mark.parametrize("places", [("cpu", "cuda"), ("cuda", "cpu"), ("cuda", "cuda")])
def test_checkpoints_go_from_device_to_device(places):
    for kind in ("KFAC", "EKFAC"):
        model = Net().to(places[0], torch.float64)
        options = {"others": "adamw", "exact": kind == "KFAC", "damping": 0.1}
        optimizer = make(kind, model, **options)
        train(model, optimizer, 3)
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        twin = copy.deepcopy(model).to(places[1])
        other = make(kind, twin, **options)
        other.load_state_dict(torch.load(file, map_location=places[1]))
        close(train(twin, other, 3, 3), train(model, optimizer, 3, 3), 1e-7)


def test_trouble():
    model = Net().cuda()
    optimizer = make("KFAC", model, momentum=0.0, others="adamw")
    train(model, optimizer, 2)
    kept = [p.detach().clone() for p in model.parameters()]
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    model.hidden.weight.grad[1, 2] = float("nan")
    model.norm.bias.grad[0] = float("inf")
    optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), kept, strict=True))
    assert optimizer.info()["skipped"] == 1 and optimizer.info()["nu"] == 0
    close(train(model, optimizer, 1, 2), [p.cpu() for p in kept], 1.0)
    with torch.cuda.stream(torch.cuda.Stream()), pytest.raises(ValueError, match="stays there"):
        optimizer.info()
    split = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2).cuda())
    with pytest.raises(NotImplementedError, match="expected cpu as others"):
        gram.optim.KFAC(split)
