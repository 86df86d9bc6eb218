"""tables/optim.py - steps of optimizers, their directions, and iterations of training with K-FAC

All of it takes PyTorch's parameters.  A step's time is that of one step, where one run makes
several: "of 10" are ten steps of which one takes roots, or refreshes a basis.
"""

import types

import numpy as np
from core.place import NotOffered, host, tensor
from core.tables import Call, Operation, Problem, Row, both

BETA, EPSILON, BLOCK = 0.95, 1e-6, 1024
# A layer of a transformer of width 768, and one of 124 million parameters (GPT-2 small).
WEIGHTS = [(2304, 768), (768, 768), (3072, 768), (768, 3072)]
LAYER = [(2304, 768), (768, 768), (3072, 768), (768, 3072), (2304,), (768,), (3072,), *[(768,)] * 5]
GPT2 = [(50257, 768), (1024, 768), *(LAYER * 12), (768,), (768,)]


def torch_of(place):
    try:
        import torch
    except ImportError:
        raise NotOffered("PyTorch is not here") from None
    torch.set_num_threads(place.threads)
    return torch


# ---- Steps --------------------------------------------------------------------------------------


class Step(Operation):
    """Steps of one method on parameters of these shapes, with random gradients that stay."""

    name = "step"
    covers = ("optim.Shampoo", "optim.SOAP", "optim.Muon")

    def make(self, place, method, shapes, variants=None, beta=BETA, epsilon=EPSILON, block=BLOCK):
        torch = torch_of(place)

        def leaves():
            generator = torch.Generator().manual_seed(0)
            made = []
            for shape in shapes:
                p, g = (torch.randn(shape, generator=generator) for _ in range(2))
                made.append(torch.nn.Parameter((0.02 * p).to(place.device)))
                made[-1].grad = g.to(place.device)
            return made

        return Problem(leaves=leaves, steps=steps)

    def tiny(self, parameters):
        few = [tuple(min(n, 20) for n in s) for s in parameters["shapes"][:4]]
        return {**parameters, "shapes": few, "block": 16} if "block" in parameters else {
            **parameters, "shapes": few}  # fmt: skip

    def ours(self, q):
        import gram.optim

        if q.method == "AdamW":
            raise NotOffered("gram.optim has no AdamW")
        make, found = getattr(gram.optim, q.method), {}
        for name, given in (q.variants or {"of 10": {}}).items():
            given = {"lr": 1e-4, **given}
            count = 10 if "of 10" in name else 1
            parameters = [p for p in q.leaves() if p.ndim == 2 or q.method != "Muon"]
            found[name] = q.steps(make(parameters, **given), count)
        return found


def steps(optimizer, count=1):
    """The call of so many steps."""

    def run():
        for _ in range(count):
            optimizer.step()

    return Call(run, units=count)


class Transformed(Operation):
    """A step through gram.optim.transform, of one array."""

    name, covers = "transform", ("optim.transform",)

    def make(self, place, n):
        return Problem(w=place.normal(n, n), g=place.normal(n, n))

    def ours(self, q):
        import gram.optim

        rule = gram.optim.transform("shampoo", lr=0.01)
        kept = [rule.init(q.w)]

        def run():
            updates, kept[0] = rule.update(q.g, kept[0], q.w)
            return updates

        return run


class Training(Operation):
    """An iteration of two layers under KFAC or EKFAC: forward, backward, step."""

    name, covers = "two_layers", ("optim.KFAC", "optim.EKFAC")

    def make(self, place, width):
        torch_of(place)
        return Problem(x=place.normal(256, 64))

    def ours(self, q):
        return {name: self.iteration(q, name) for name in ("KFAC", "EKFAC")}

    @staticmethod
    def iteration(q, name):
        import gram.optim
        import torch
        from torch import nn

        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, q.width), nn.Tanh(), nn.Linear(q.width, 10))
        model.to(q.place.device)
        optimizer = getattr(gram.optim, name)(model, lr=1e-4)
        x = tensor(q.x)
        y = torch.arange(256, device=q.place.device) % 10

        def run():
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

        return run


# ---- Directions ---------------------------------------------------------------------------------


class Direction(Operation):
    """The third direction of one block, normalised, against eigendecompositions in float64.

    The time is that of an optimizer's creation and three steps.
    """

    name = "direction"

    def make(self, place, n, method="Shampoo", beta=BETA, epsilon=EPSILON, variants=None, block=0):
        torch_of(place)
        gradients = [place.random.standard_normal((n, n)).astype(np.float32) for _ in range(3)]
        q = Problem(gradients=[tensor(g).to(place.device) for g in gradients], block=block or n)
        q.moved = types.MethodType(moved, q)
        return q

    def ours(self, q):
        import gram.optim

        def call(given):
            return q.moved(lambda ps: gram.optim.Shampoo(ps, **given).step)

        plain = {"lr": 1.0, "betas": (0.0, q.beta), "eps": q.epsilon, "graft": None, "refresh": 1,
                 "bias_correction": False, "relative_eps": False, "start": 1, "block": q.block}
        return {root: call({**plain, "root": root})
                for root in ("minimax", "coupled-newton", "eigh")}  # fmt: skip

    def error(self, q, got):
        left = right = 0
        for g in map(host, q.gradients):
            left, right = (q.beta * f + (1 - q.beta) * s
                           for f, s in ((left, g @ g.T), (right, g.T @ g)))  # fmt: skip
        roots = []
        for factor in (left, right):
            w, v = np.linalg.eigh(factor)
            roots.append((v * (w.clip(0) + q.epsilon) ** -0.25) @ v.T)
        want, got = roots[0] @ g @ roots[1], host(got)
        return float(np.linalg.norm(got / np.linalg.norm(got) - want / np.linalg.norm(want)))


def moved(q, make):
    """The call that creates an optimizer and gives the third step's change; make: its step."""
    import torch

    def run():
        p = torch.nn.Parameter(torch.zeros_like(q.gradients[0]))
        p.grad = torch.zeros_like(p)
        step = make([p])
        for gradient in q.gradients:
            p.grad.copy_(gradient)
            before = p.detach().clone()
            step()
        return before - p.detach()

    return run


class Orthogonal(Operation):
    """Muon's direction of matrices by each precision, against that of float64 gradients.

    Beside the time of one step it tells the extreme singular values of what the step moves.
    """

    name, limits = "orthogonal", {"float32": 0.05}

    def make(self, place, shapes):
        torch_of(place)
        return Problem(gradients=[tensor(place.random.standard_normal(s)).to(place.device)
                                  for s in shapes])  # fmt: skip

    def tiny(self, parameters):
        return {"shapes": [(8, 6), (1, 9), (9, 1)]}

    def ours(self, q):
        q.truth = self.call(q, "auto", wide=True)()
        return {p: Call(self.call(q, p), tell=self.tell) for p in ("auto", "tf32", "f32")}

    @staticmethod
    def call(q, precision, wide=False):
        import gram.optim
        import torch

        def run():
            ps = [torch.nn.Parameter(torch.zeros_like(g if wide else g.float()))
                  for g in q.gradients]  # fmt: skip
            for p, g in zip(ps, q.gradients, strict=True):
                p.grad = g.to(p.dtype)
            gram.optim.Muon(ps, lr=1.0, precision=precision).step()
            return [-p.detach() for p in ps]

        return run

    @staticmethod
    def tell(got):
        values = []
        for t in got:
            rows, columns = t.shape
            values += list(np.linalg.svd(host(t) / max(1, rows / columns) ** 0.5, compute_uv=False))
        return {"least": float(min(values)), "largest": float(max(values))}

    def error(self, q, got):
        pairs = zip(map(host, got), map(host, q.truth), strict=True)
        return float(max(np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in pairs))


# ---- Training with K-FAC ------------------------------------------------------------------------


def residual(width=64):
    """Convolutions of 3 x 3 with 64 to 256 channels on images of 32 x 32."""
    import torch
    from torch import nn

    class Residual(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            stride = 1 if inputs == outputs else 2
            self.short = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()
            self.body = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, 1), nn.BatchNorm2d(outputs), nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, 1, 1), nn.BatchNorm2d(outputs),
            )  # fmt: skip

        def forward(self, x):
            return torch.relu(self.short(x) + self.body(x))

    net = nn.Sequential(
        nn.Conv2d(3, width, 3, 1, 1), nn.ReLU(), Residual(width, width),
        Residual(width, 2 * width), Residual(2 * width, 4 * width), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(4 * width, 10),
    )  # fmt: skip
    return net, lambda n: (torch.randn(n, 3, 32, 32), torch.randint(10, (n,)))


def block(width=768):
    """A transformer block of width 768 with 12 heads, and a head of 64 classes."""
    import torch
    from tables.layers import network
    from torch import nn

    net = nn.Sequential(network("block", width)[0], nn.Linear(width, 64), nn.Flatten(0, 1))
    return net, lambda n: (torch.randn(n, 256, width), torch.randint(64, (n * 256,)))


NETWORKS = {"residual network": residual, "transformer block": block}


class KfacTraining(Operation):
    """An iteration of training: forward, backward, step; refresh: of inverses, every so many.

    The error is how far three iterations move the parameters from where PyTorch's formulas move
    them, relative to the way, of the ways that are K-FAC by Cholesky's factorisation.
    """

    name, limits = "training", {}

    def make(self, place, network, samples, refresh, width=None, damping=1e-2, decay=0.95,
             kl_clip=1e-3, rate=0.05, momentum=0.9):  # fmt: skip
        torch_of(place)
        q = Problem()
        q.ways = types.MethodType(ways, q)
        return q

    def tiny(self, parameters):
        return {**parameters, "samples": 2, "width": 8}

    def ours(self, q):
        import gram.optim

        def make(kind, **options):
            return lambda model: getattr(gram.optim, kind)(
                model, lr=q.rate, momentum=q.momentum, damping=q.damping, decay=q.decay,
                kl_clip=q.kl_clip, refresh_every=q.refresh, **options)  # fmt: skip

        return q.ways({
            "KFAC, state float64": make("KFAC"),
            "KFAC, state float32": make("KFAC", state_dtype="float32"),
            "KFAC exact, state float32": make("KFAC", exact=True, state_dtype="float32"),
            "EKFAC, state float64": make("EKFAC"),
            "EKFAC, state float32": make("EKFAC", state_dtype="float32"),
        })  # fmt: skip


class Trainer:
    """A network and its optimizer; the first iteration makes them."""

    def __init__(self, q, make):
        self.q, self.make, self.step = q, make, None

    def begin(self):
        import torch

        torch.manual_seed(0)
        given = {"width": self.q.width} if self.q.width else {}
        model, data = NETWORKS[self.q.network](**given)
        self.x, self.y = (t.to(self.q.place.device) for t in data(self.q.samples))
        self.model = model.to(self.q.place.device)
        self.step = self.make(self.model).step

    def iterate(self):
        import torch

        if self.step is None:
            self.begin()
        self.model.zero_grad()
        torch.nn.functional.cross_entropy(self.model(self.x), self.y).backward()
        self.step()

    def moved(self):
        """What three iterations change, from the beginning."""
        self.begin()
        start = self.flat()
        for _ in range(3):
            self.iterate()
        return self.flat() - start

    def flat(self):
        import torch

        return host(torch.cat([p.detach().flatten() for p in self.model.parameters()]))


def ways(q, made):
    """{name: Call} of {name: what makes an optimizer of a model}."""
    from core.torch_formulas import PlainKfac

    kept, found = {}, {}
    for name, make in made.items():
        trainer = Trainer(q, make)

        def error(got, trainer=trainer, name=name):
            if "KFAC, state" not in name or "EKFAC" in name:
                return None
            if "want" not in kept:
                kept["want"] = Trainer(q, lambda model: PlainKfac(model, q)).moved()
            off = trainer.moved() - kept["want"]
            return float(np.linalg.norm(off) / np.linalg.norm(kept["want"]))

        found[name] = Call(trainer.iterate, error=error)
    return found


# ---- Rows ---------------------------------------------------------------------------------------

STEP, DIRECTION, TRAIN = Step(), Direction(), KfacTraining()
PLAIN = {"lr": 1.0, "betas": (0.0, BETA), "eps": EPSILON, "graft": None, "block": BLOCK, "start": 1}
SHAMPOO = {
    **{f"{root}, every step": {**PLAIN, "root": root, "refresh": 1}
       for root in ("minimax", "coupled-newton", "eigh")},
    "no roots": {**PLAIN, "refresh": 10**6},
    "minimax, of 10": {**PLAIN, "root": "minimax", "refresh": 10},
    "minimax and statistics, of 10": {**PLAIN, "root": "minimax", "refresh": 10, "statistics": 10},
    "minimax in TF32, of 10": {**PLAIN, "root": "minimax", "refresh": 10, "precision": "tf32",
                               "root_precision": "tf32"},
}  # fmt: skip
MUON = {"": {}, "tf32": {"precision": "tf32"}, "f32": {"precision": "f32"},
        "one Newton-Schulz step": {"steps": 1}}  # fmt: skip


def step_rows():
    for title, shapes in (("1024 x 1024", [(1024, 1024)]), ("a layer of width 768", LAYER)):
        for method in ("SOAP", "Muon"):
            yield Row(f"{method}, {title}", STEP, {"method": method, "shapes": shapes})
    for method in ("Shampoo", "SOAP", "Muon"):
        cpu, cuda = ({"method": method, "shapes": [(n, n)] * 4} for n in (512, 1024))
        yield Row(f"{method}, 4 matrices", STEP, cpu, cuda)
    few = [(768, 768), (768,)]
    for title, method, shapes, variants in (
        ("124 million parameters", "Shampoo", GPT2, SHAMPOO),
        ("124 million parameters", "SOAP", GPT2, None),
        ("124 million parameters", "AdamW", GPT2, None),
        ("12 layers of width 768", "Muon", WEIGHTS * 12, MUON),
    ):
        given = {"method": method, "shapes": shapes, "variants": variants}
        cpu = {**given, "shapes": few} if method == "Shampoo" else None
        yield Row(f"{method}, {title}" if cpu is None else f"{method}, a network", STEP, cpu, given)
    matrices = [s for s in GPT2 if len(s) == 2 and s != (1024, 768)]
    small = {name: {**given, "block": 768} for name, given in SHAMPOO.items()}
    yield Row("Shampoo, matrices in blocks of 768", STEP, None,
              {"method": "Shampoo", "shapes": matrices, "variants": small, "block": 768})
    yield Row("transform, a step of Shampoo, one matrix", Transformed(), {"n": 256}, {"n": 512})
    yield Row("two layers: forward, backward, step", Training(), {"width": 256}, {"width": 512})


def direction_rows():
    yield both("Shampoo's third direction", DIRECTION, n=768)
    yield Row("Muon's direction", Orthogonal(), {"shapes": [(96, 64), (1, 9), (257, 131)]}, {
        "shapes": [*WEIGHTS, (1, 9), (9, 1), (257, 131), (131, 257), (64, 65), (1024, 1024)]})


def training_rows():
    for network, samples in (("residual network", 128), ("transformer block", 8)):
        for refresh, text in ((1, "a refresh in each"), (10, "one in 10"), (10**6, "none")):
            given = {"network": network, "samples": samples, "refresh": refresh}
            few = {**given, "samples": 2} if refresh == 10 else None
            yield Row(f"iteration, {network}, refresh: {text}", TRAIN, few, given)


SUBJECTS = {
    "optimizers": [*step_rows(), *direction_rows()],
    "training": list(training_rows()),
}
