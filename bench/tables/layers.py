"""tables/layers.py - gradients and norms of samples, K-FAC's factors, and K-FAC of one layer"""

import functools
import types

import gram
import numpy as np
from core.place import NotOffered, host, relative
from core.tables import Call, Operation, Problem, Row

# ---- A linear layer -----------------------------------------------------------------------------


class Linear(Operation):
    """Activations a and gradients g of n samples of so many steps through width by width."""

    def make(self, place, n, steps, width):
        return Problem(a=place.normal(n, steps, width), g=place.normal(n, steps, width))

    def words(self, q):
        name = {"sample_norms": "sample_grad"}.get(self.name, self.name)
        return (name, q.n, q.steps, q.width, q.width, "bias=0")

    def exact(self, q):
        """The first sample's gradient, in float64."""
        return host(q.g[0]).T @ host(q.a[0])


class SampleGradients(Linear):
    name, covers = "sample_gradients", ("sample_grad",)

    def ours(self, q):
        return lambda: gram.sample_grad(q.a, q.g, bias=False)[0]

    def error(self, q, got):
        return relative(got[0], self.exact(q))


class SampleNorms(Linear):
    name, covers = "sample_norms", ("sample_grad",)

    def ours(self, q):
        def run():
            found = gram.sample_grad(q.a, q.g, bias=False, output="norm")
            return found[-1] if isinstance(found, tuple) else found

        return run

    def error(self, q, got):
        return relative(got[:1], [np.linalg.norm(self.exact(q))])


class Factors(Linear):
    name, covers = "kfac_factors", ("kfac_factors",)

    def ours(self, q):
        return lambda: gram.kfac_factors(q.a, q.g, bias=False)

    def error(self, q, got):
        a = host(q.a).reshape(-1, q.width)
        return relative(got[0], a.T @ a / len(a))


# ---- K-FAC of one layer, through C --------------------------------------------------------------

DAMPING, DECAY = 1e-2, 0.9


class KfacLayer(Operation):
    """An update of the averages, a refresh of inverses or vectors, and a direction, one by one.

    The error is that of the direction, against the same formulas in float64 in NumPy.
    """

    name, limits = "kfac_layer", {"float32": 1e-2}

    def make(self, place, samples, positions, inputs, outputs, kernel=0, corrected=False,
             parts=("update", "refresh", "direction")):  # fmt: skip
        if kernel:
            a = place.normal(samples, inputs, positions, positions)
            g = place.normal(samples, outputs, positions, positions)
        else:
            steps = (positions,) if positions > 1 else ()
            a, g = (place.normal(samples, *steps, n) for n in (inputs, outputs))
        order = (kernel, kernel) if kernel else ()
        q = Problem(a=a, g=g, weight=place.normal(outputs, inputs, *order), decay=DECAY,
                    damping=DAMPING)  # fmt: skip
        q.parts_of = types.MethodType(parts_of, q)
        return q

    def tiny(self, parameters):
        small = {"samples": 3, "positions": min(parameters["positions"], 4), "inputs": 6,
                 "outputs": 5}  # fmt: skip
        return {**parameters, **small}

    def ours(self, q):
        return q.parts_of({f"state {t}": functools.partial(Layer, q, t)
                           for t in ("float64", "float32")})  # fmt: skip

    def error(self, q, got):
        """After one update and one refresh, which come before the first direction."""
        a, g = rows(q)
        a, b, weight = a.T @ a / len(a), g.T @ g / q.samples, host(q.weight).reshape(q.outputs, -1)
        if q.corrected:
            (wa, va), (wb, vb) = np.linalg.eigh(a), np.linalg.eigh(b)
            curvature = np.outer(wb.clip(0), wa.clip(0)) + q.damping
            want = vb @ ((vb.T @ weight @ va) / curvature) @ va.T
        else:
            pi = np.sqrt(np.trace(a) / len(a) / (np.trace(b) / len(b)))
            root = np.sqrt(q.damping)
            want = np.linalg.solve(b + root / pi * np.eye(len(b)), weight)
            want = np.linalg.solve(a + pi * root * np.eye(len(a)), want.T).T
        return relative(host(got).reshape(want.shape), want)


def rows(q):
    """Activations and gradients as rows of all positions, in float64."""
    a, g = host(q.a), host(q.g)
    if not q.kernel:
        return a.reshape(-1, q.inputs), g.reshape(-1, q.outputs)
    edge = q.kernel // 2
    a = np.pad(a, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
    a = np.lib.stride_tricks.sliding_window_view(a, (q.kernel, q.kernel), (2, 3))
    a = a.transpose(0, 2, 3, 1, 4, 5).reshape(-1, q.inputs * q.kernel**2)
    return a, g.transpose(0, 2, 3, 1).reshape(-1, q.outputs)


class Layer:
    """libgram's K-FAC of the problem's layer."""

    def __init__(self, q, state):
        from core.library import Kfac, Library, convolution, linear

        library = Library(q.place.build / "libgram.so", q.place.device, q.place.threads)
        layer = convolution(q.kernel) if q.kernel else linear()
        self.kfac = Kfac(library, layer, q.inputs, q.outputs, q.corrected, state, q.damping,
                         q.decay)  # fmt: skip
        self.out = q.place.empty(*q.weight.shape)
        self.update, self.refresh = self.kfac.update(q.a, q.g), self.kfac.refresh()
        self.direction = self.kfac.precondition(q.weight, self.out)


def parts_of(q, ways):
    """The calls of each part of K-FAC, of ways = {name: what makes one}, in the order of a step."""
    made = {}

    def way(name):
        if name not in made:
            made[name] = ways[name]()
            made[name].update()
            made[name].refresh()
        return made[name]

    def call(name, part):
        def run():
            getattr(way(name), part)()
            return way(name).out if part == "direction" else None

        error = None if part == "direction" else (lambda got: None)
        return Call(run, error=error, prepare=lambda: way(name))

    # The direction first: later updates change the averages.
    parts = [p for p in ("direction", "update", "refresh") if p in q.parts]
    return {f"{part}, {name}": call(name, part) for part in parts for name in ways}


# ---- Networks -----------------------------------------------------------------------------------


def network(kind, width):
    """Three convolutions, or a transformer block of a width, with its loss."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.heads = heads

        def forward(self, x):
            n, s, d = x.shape
            qkv = self.qkv(self.first(x)).view(n, s, 3, self.heads, d // self.heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            weights = torch.softmax(q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5, -1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(n, s, d))
            return x + self.down(F.gelu(self.up(self.second(x))))

    torch.manual_seed(0)
    if kind == "block":
        return Block(width, max(width // 64, 1)), F.mse_loss
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    ), F.cross_entropy  # fmt: skip


class SampleGradModel(Operation):
    """Norms and gradients of samples of a network: time and memory, forward pass included.

    The error is the largest relative difference of norms from those of one sample at a time.
    """

    name, limits = "sample_grad_model", {"float32": 1e-2}

    def make(self, place, kind, samples, width=0, words=0):
        try:
            import torch
        except ImportError:
            raise NotOffered("PyTorch is not here") from None
        model, loss = network(kind, width)
        if kind == "block":
            x, y = torch.randn(samples, words, width), torch.randn(samples, words, width)
        else:
            x, y = torch.randn(samples, 3, 32, 32), torch.arange(samples) % 10
        q = Problem(model=(model.to(place.device), loss, x.to(place.device), y.to(place.device)))
        q.captured = captured
        return q

    def tiny(self, parameters):
        return {**super().tiny(parameters), "samples": 3}

    def ours(self, q):
        from gram import torch as gt

        def call(function, **more):
            return lambda: function(*q.model, method="layers", **more)

        few = (*q.model[:2], q.model[2][:1], q.model[3][:1])
        gt.per_sample_norms(*few, method="layers")  # what is loaded once, whatever the batch
        half = -(-q.samples // 2)
        found = {
            "norms": call(gt.per_sample_norms),
            "gradients": call(gt.per_sample_gradients),
            "norms in two parts": call(gt.per_sample_norms, chunk=half),
        }
        if not q.place.on_cpu:
            found["norms as a graph"] = captured(call(gt.per_sample_norms))
        return found

    def error(self, q, got):
        import torch

        if not isinstance(got, torch.Tensor):
            return None
        model, loss, x, y = q.model
        worst = 0.0
        for i in range(min(4, q.samples)):
            value = loss(model(x[i : i + 1]), y[i : i + 1])
            grads = torch.autograd.grad(value, list(model.parameters()))
            want = torch.sqrt(sum((g.double() ** 2).sum() for g in grads)).item()
            worst = max(worst, abs(got[i].item() - want) / want)
        return worst


def captured(call):
    """The call as one launch of a graph, captured when it is first made."""
    import torch

    kept = {}

    def capture():
        if kept:
            return
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(side)
        kept["graph"] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(kept["graph"]):
            kept["found"] = call()

    def replay():
        kept["graph"].replay()
        return kept["found"]

    return Call(replay, prepare=capture)


# ---- Rows ---------------------------------------------------------------------------------------

KFAC = KfacLayer()
LAYERS = {
    "linear 1024 -> 1024, 512 samples": (512, 1, 1024, 1024),
    "linear 768 -> 3072, 8 x 512 words": (8, 512, 768, 3072),
    "convolution 256 -> 256, 3 x 3, 32 x 14 x 14": (32, 14, 256, 256, 3),
}


def kfac_rows():
    names = ("samples", "positions", "inputs", "outputs", "kernel")
    for title, sizes in LAYERS.items():
        for corrected in (False, True):
            given = {**dict(zip(names, sizes, strict=False)), "corrected": corrected}
            method = "EKFAC" if corrected else "K-FAC"
            few = {**given, "inputs": given["inputs"] // 4, "outputs": given["outputs"] // 4}
            if "convolution" not in title:
                few["samples"] = max(given["samples"] // 4, 2)
            yield Row(f"{method} of {title}", KFAC, few, given)


def layer_rows():
    cpu, cuda = ({"n": n, "steps": 16, "width": w} for n, w in ((64, 256), (256, 512)))
    yield Row("gradients of samples, a linear layer", SampleGradients(), cpu, cuda)
    yield Row("norms of samples, a linear layer", SampleNorms(), cpu, cuda)
    yield Row("K-FAC's factors of a linear layer", Factors(), cpu, cuda)


def model_rows():
    model = SampleGradModel()
    for samples in (64, 1024):
        given = {"kind": "convolutions", "samples": samples}
        title = f"3 convolutions, 32 x 32, {samples} samples"
        yield Row(title, model, given if samples == 64 else None, given, apart=True)
    for width, words, samples in ((256, 64, 32), (512, 32, 16), (256, 64, 256), (768, 128, 64),
                                  (1024, 64, 64)):  # fmt: skip
        given = {"kind": "block", "samples": samples, "width": width, "words": words}
        title = f"transformer block, width {width}, {words} words, {samples} samples"
        yield Row(title, model, given if samples < 64 else None, given, apart=True)


SUBJECTS = {
    "layers": list(layer_rows()),
    "kfac": list(kfac_rows()),
    "sample_grad": list(model_rows()),
}
