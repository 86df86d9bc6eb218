"""test_torch_samples.py - gradients of samples of a model against torch.func.vmap(grad)

Skipped without PyTorch 2.4.
"""

import weakref

import gram
import pytest

torch = pytest.importorskip("torch", minversion="2.4")
gt = pytest.importorskip("gram.torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


class Block(nn.Module):
    """A transformer block on words, whose positions are an embedding."""

    def __init__(self, words=11, width=12, heads=3):
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.places = nn.Embedding(9, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 20), nn.GELU(), nn.Linear(20, width))
        self.head = nn.Linear(width, words)
        self.heads = heads

    def forward(self, rows):
        places = torch.arange(rows.shape[1], device=rows.device)
        x = self.words(rows) + self.places(places.expand_as(rows))
        n, s, d = x.shape
        qkv = self.qkv(self.norms[0](x)).view(n, s, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, s, d))
        x = x + self.mlp(self.norms[1](x))
        return self.head(x).transpose(1, 2)


def block():
    rows = torch.randint(0, 11, (5, 7))
    return Block().double(), F.cross_entropy, rows, torch.randint(0, 11, (5, 7))


def images():
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, stride=2), nn.GroupNorm(2, 6), nn.ReLU(inplace=True),
        nn.Conv2d(6, 6, 3, groups=3, padding="same"), nn.InstanceNorm2d(6, affine=True), nn.Tanh(),
        nn.Conv2d(6, 4, (1, 1), bias=False), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    return model.double(), F.cross_entropy, torch.randn(6, 3, 8, 8).double(), torch.arange(6)


def lines():
    model = nn.Sequential(
        nn.Conv1d(2, 4, 3, dilation=2), nn.ReLU(), nn.Unflatten(2, (1, 2, 8)),
        nn.Conv3d(4, 3, (1, 2, 3), padding=(0, 1, 1)), nn.Flatten(), nn.Linear(72, 2),
    )  # fmt: skip
    return model.double(), F.mse_loss, torch.randn(4, 2, 20).double(), torch.randn(4, 2).double()


class Tied(nn.Module):
    """A layer that is called twice, and one whose weight another one has too."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4, bias=False), nn.Linear(4, 2)
        self.b.weight = self.a.weight
        self.unused = nn.Linear(2, 3)
        self.c.weight.requires_grad_(False)

    def forward(self, x):
        return self.c(self.a(self.b(torch.tanh(self.a(x)))))


def tied():
    return Tied().double(), F.mse_loss, torch.randn(3, 4).double(), torch.randn(3, 2).double()


def on(device, model, loss, x, y):
    if device == "cuda" and (len(gram.devices()) < 2 or not torch.cuda.is_available()):
        pytest.skip("no GPU")
    return model.to(device), loss, x.to(device), y.to(device)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("make", [block, images, lines, tied])
def test_against_vmap(make, device):
    model, loss, x, y = on(device, *make())
    found = gt.per_sample_gradients(model, loss, x, y, method="layers")
    want = gt.per_sample_gradients(model, loss, x, y, method="func")
    assert found.keys() == want.keys()
    for name, each in want.items():
        assert found[name].shape == each.shape
        torch.testing.assert_close(found[name], each, atol=1e-12, rtol=1e-9, msg=name)
    norms = torch.stack([g.flatten(1).square().sum(1) for g in want.values()]).sum(0).sqrt()
    torch.testing.assert_close(gt.per_sample_norms(model, loss, x, y, method="layers"), norms)
    torch.testing.assert_close(gt.per_sample_norms(model, loss, x, y, method="func"), norms)


@pytest.mark.parametrize("make", [block, images])
def test_a_gpu_waits_for_nothing(make):
    """No call of gram.sample_grad makes the host wait, and no gradient is stored for a norm."""
    model, loss, x, y = on("cuda", *make())
    gt.per_sample_norms(model, loss, x, y, method="layers")
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = gt.per_sample_norms(model, loss, x, y, method="layers")
    finally:
        torch.cuda.set_sync_debug_mode("default")
    want = gt.per_sample_norms(model, loss, x, y, method="func")
    torch.testing.assert_close(found, want)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("chunk", [1, 4, 6])
def test_a_part_at_a_time(chunk, device):
    model, loss, x, y = on(device, *images())
    found = gt.per_sample_gradients(model, loss, x, y, method="layers", chunk=chunk)
    for name, each in gt.per_sample_gradients(model, loss, x, y, method="layers").items():
        torch.testing.assert_close(found[name], each, msg=name)
    norms = gt.per_sample_norms(model, loss, x, y, method="layers")
    for method in ("layers", "func"):
        parts = gt.per_sample_norms(model, loss, x, y, method=method, chunk=chunk)
        torch.testing.assert_close(parts, norms)


def test_no_part_at_a_time():
    with pytest.raises(ValueError, match="chunk is 0, expected at least 1 sample, or None"):
        gt.per_sample_norms(*images(), chunk=0)


@pytest.mark.parametrize(
    "loss",
    [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.binary_cross_entropy_with_logits,
     nn.MSELoss(), nn.MSELoss(reduction="sum"), nn.L1Loss(), nn.SmoothL1Loss(beta=0.3)],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(), (4,)])
def test_losses_that_are_known(loss, shape):
    """They are one call for all samples, and what a call a sample gives; shapes may differ too."""
    model, x, y = nn.Linear(3, 4).double(), torch.randn(5, 3).double(), torch.rand(5, *shape, 4)
    outputs = x if shape == () else x[:, None].expand(5, 4, 3)
    found = gt.per_sample_norms(model, loss, outputs, y.double(), method="layers")
    want = gt.per_sample_norms(model, loss, outputs, y.double(), method="func")
    torch.testing.assert_close(found, want)


@pytest.mark.parametrize("classes", [[0, 1, -100, 3, 1], [2, 2, 0, 1, 3]])
def test_cross_entropy_of_classes(classes):
    model, x, y = nn.Linear(3, 4).double(), torch.randn(5, 3).double(), torch.tensor(classes)
    found = gt.per_sample_norms(model, F.cross_entropy, x, y, method="layers")
    want = gt.per_sample_norms(model, F.cross_entropy, x, y, method="func")
    torch.testing.assert_close(found, want)
    assert (found == 0).tolist() == [c == -100 for c in classes]


def test_what_went_in_is_let_go():
    """When a layer's gradients have been dealt with, what went into it is not kept for the end."""
    alive, seen = [], []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            seen.append([ref() is not None for ref in alive])
            return g

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])

        def forward(self, x):
            for layer in self.layers:
                into = torch.tanh(Watch.apply(x))
                alive.append(weakref.ref(into))
                x = layer(into)
            return x

    x = torch.randn(4, 3, requires_grad=True)
    gt.per_sample_norms(Chain(), F.mse_loss, x, torch.randn(4, 3), method="layers")
    assert seen == [[True, True, False], [True, False, False]]


@pytest.mark.parametrize("make", [block, images])
def test_norms_in_a_graph(make):
    model, loss, x, y = on("cuda", *make())
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        gt.per_sample_norms(model, loss, x, y, method="layers")
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = gt.per_sample_norms(model, loss, x, y, method="layers")
    if x.is_floating_point():
        x.copy_(torch.randn_like(x))
    graph.replay()
    torch.testing.assert_close(found, gt.per_sample_norms(model, loss, x, y, method="func"))


def test_parameters_on_two_devices():
    model, loss, x, y = lines()
    model[0].to("meta")
    with pytest.raises(ValueError, match="parameters are on cpu, meta"):
        gt.per_sample_norms(model, loss, x, y, method="layers")


def test_one_sample_at_a_time():
    model, loss, x, y = images()
    found = gt.per_sample_gradients(model, loss, x, y)
    for n in range(len(x)):
        grads = torch.autograd.grad(loss(model(x[n : n + 1]), y[n : n + 1]), model.parameters())
        for (name, _), g in zip(model.named_parameters(), grads, strict=True):
            torch.testing.assert_close(found[name][n], g, atol=1e-12, rtol=1e-9)


def test_grad_is_untouched():
    model, loss, x, y = images()
    kept = torch.ones_like(model[0].weight)
    model[0].weight.grad = kept
    with torch.no_grad():
        gt.per_sample_gradients(model, loss, x, y)
        gt.per_sample_norms(model, loss, x, y)
    assert model[0].weight.grad is kept and (kept == 1).all()
    assert all(p.grad is None for p in list(model.parameters())[1:])
    assert not any(m._forward_hooks for m in model.modules())


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.scale


def test_falls_back_and_says_why():
    model = nn.Sequential(nn.Linear(4, 4), Scale())
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    with pytest.warns(UserWarning, match="1: gram.sample_grad does not support Scale"):
        found = gt.per_sample_gradients(model, F.mse_loss, x, y)
    assert found["1.scale"].shape == (3, 4) and found["0.weight"].shape == (3, 4, 4)
    with pytest.raises(ValueError, match="does not support Scale"):
        gt.per_sample_norms(model, F.mse_loss, x, y, method="layers")
    whole = gt.per_sample_gradients(model, F.mse_loss, x, y, method="func", chunk=2)
    for name, each in found.items():
        torch.testing.assert_close(each, whole[name])


@pytest.mark.parametrize(
    "layer, words",
    [
        (nn.Conv1d(2, 2, 2, padding="same"), "padding='same'"),
        (nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular"), "padding_mode"),
        (nn.InstanceNorm1d(2, affine=True, track_running_stats=True).eval(), "InstanceNorm1d"),
        (nn.BatchNorm1d(2).eval(), "BatchNorm1d"),
    ],
)
def test_what_layers_do_not_serve(layer, words):
    x, y = torch.randn(3, 2, 5), torch.zeros(3)
    with pytest.raises(ValueError, match=words):
        gt.per_sample_gradients(layer, lambda o, y: o.sum(), x, y, method="layers")


def test_refusals():
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    layer = nn.Linear(4, 4)
    with pytest.raises(ValueError, match="mixes the samples"):
        gt.per_sample_gradients(nn.BatchNorm1d(4), F.mse_loss, x, y)
    with pytest.raises(ValueError, match="first dimensions"):
        gt.per_sample_gradients(layer, F.mse_loss, x, y[:2])
    with pytest.raises(ValueError, match="expected auto, layers or func"):
        gt.per_sample_norms(layer, F.mse_loss, x, y, method="hooks")
    layer.register_forward_hook(lambda module, args, output: output * 2)
    with pytest.warns(UserWarning, match="hooks"):
        gt.per_sample_norms(layer, F.mse_loss, x, y)


def test_samples_behind_each_other():
    """Samples that are not the first dimension of what goes into a layer are not guessed."""

    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 2)

        def forward(self, x):
            return self.inner(x.transpose(0, 1)).transpose(0, 1)

    x, y = torch.randn(3, 5, 4), torch.zeros(3)
    with pytest.raises(ValueError, match="without the samples in front"):
        gt.per_sample_gradients(Turned(), lambda o, y: o.sum(), x, y, method="layers")


@pytest.mark.parametrize("behind", [nn.Identity(), nn.Linear(4, 4)])
def test_overwritten_inputs(behind):
    class Clearing(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.inner, self.behind = nn.Embedding(5, 4), nn.Linear(4, 4), behind

        def forward(self, rows):
            x = torch.tanh(self.behind(self.words(rows)))
            out = self.inner(x)
            rows.zero_()
            return out

    rows, y = torch.tensor([[1, 2], [3, 4]]), torch.zeros(2)
    with pytest.raises(ValueError, match="the input of words was overwritten"):
        gt.per_sample_norms(Clearing(), lambda o, y: o.sum(), rows, y, method="layers")


def test_halves():
    model = nn.Linear(4, 3).to(torch.bfloat16)
    x, y = torch.randn(5, 4, dtype=torch.bfloat16), torch.zeros(5)
    found = gt.per_sample_gradients(model, lambda o, y: o.sum(), x, y, method="layers")
    assert found["weight"].dtype == torch.bfloat16
    torch.testing.assert_close(found["weight"], x[:, None, :].expand(5, 3, 4))


def test_layer_outputs_of_torch():
    a, g = torch.randn(4, 6), torch.randn(4, 5)
    weight, bias = gram.sample_grad(a, g)
    torch.testing.assert_close(weight, g[:, :, None] * a[:, None])
    torch.testing.assert_close(bias, g)
