"""compare_cuda_rows.py - the problems of compare_cuda.py: inputs, contenders, sampled errors

A row has a key, a title, a target in milliseconds on an H200, and
    prepare(tools)   makes its inputs and returns {contender: call}; a call returns the output.
                     torch's takes a number of rows of x, where it can be slow
    error(got)       of an output against f64 on sampled rows, in the row's own unit
    limit            of that error; larger ones are WRONG
"""

import torch

SAMPLES = 16  # rows of the output that are checked, in full
NEAR = 4  # of them rows that have a neighbour 1e-4 away
LAPLACE, GAUSSIAN = 1, 2
EPS = 2.0**-23


def uniform(shape, seed, dtype=torch.float32):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    return torch.rand(shape, generator=generator, device="cuda", dtype=dtype)


def columns_first(t):
    """The same matrix column-major, which is kermac's fastest layout."""
    return t.t().contiguous().t()


class Distances:
    """gram_cdist [m, n, k] in row-major tensors; the first rows of y lie near rows of x."""

    unit = "relative error"

    def __init__(self, key, shape, p, target, dtype=torch.float32, symmetric=False, limit=1e-5):
        self.key, self.shape, self.p, self.target = key, shape, p, target
        self.dtype, self.symmetric, self.limit = dtype, symmetric, limit
        what = "f64 " if dtype == torch.float64 else ""
        self.title = f"{what}cdist {list(shape)} p={p:g}" + (" symmetric" if symmetric else "")

    def inputs(self):
        m, n, k = self.shape
        self.x = uniform((m, k), 1, self.dtype)
        self.y = self.x if self.symmetric else uniform((n, k), 2, self.dtype)
        if not self.symmetric:
            self.y[:NEAR] = self.x[:NEAR] + 1e-4 * (uniform((NEAR, k), 3, self.dtype) - 0.5)
        self.out = torch.empty((m, n), device="cuda", dtype=self.dtype)

    def prepare(self, tools):
        self.inputs()
        self.kept = []
        y = None if self.symmetric else self.y
        calls = {"gram": self.giving(tools.gram.cdist_of(self.x, y, self.p, self.out))}
        if self.symmetric:  # the others compute all of it
            return calls
        if tools.kermac and self.dtype == torch.float32:
            a, b = columns_first(self.x), columns_first(self.y)
            self.kept = [a, b]
            calls["kermac"] = self.giving(lambda: self.kermac(tools.kermac, a, b))
        calls["torch"] = lambda rows=None: self.torch(self.x[:rows])
        return calls

    def giving(self, call):
        def run():
            call()
            return self.out

        return run

    def kermac(self, kermac, a, b):
        kermac.cdist(a, b, out=self.out, p=float(self.p), try_to_align=True)

    def torch(self, x):
        return torch.cdist(x, self.y, p=self.p)

    def work(self):
        m, n, k = self.shape
        return m * n * k / (2 if self.symmetric else 1)

    def f(self, s, i):
        return s ** (1 / self.p)

    def error(self, got):
        rows = list(range(NEAR)) + list(range(NEAR, len(got), max(1, len(got) // SAMPLES)))
        y, worst = self.y.double(), 0.0
        for i in rows:
            sum_ = (y - self.x[i].double()).abs().pow_(self.p).sum(1)
            want = self.f(sum_, i)
            off = (got[i].double() - want).abs()
            off = torch.where(want != 0, off / want, torch.where(off != 0, torch.inf, 0.0))
            worst = max(worst, torch.nan_to_num(off, nan=torch.inf).max().item())
        return worst


class Kernels(Distances):
    """gram_kernel [m, n, k]: Laplace of the Euclidean distance, Gaussian + r I, product Laplace."""

    def __init__(self, key, shape, kind, target):
        super().__init__(key, shape, 1.3 if kind == "product" else 2.0, target, limit=1e-5)
        names = {"laplace": "Laplace-L2", "gaussian": "Gaussian + 0.5 I"}
        self.kind, self.title = kind, f"{names.get(kind, 'product Laplace p=1.3')} {list(shape)}"

    def prepare(self, tools):
        self.inputs()
        self.kept = []
        given = {
            "laplace": (LAPLACE, 2.0, 0.5, 3.0, 1.0, 0.0),
            "gaussian": (GAUSSIAN, 2.0, 1.0, 3.0, 1.0, 0.5),
            "product": (LAPLACE, 1.3, 1.0, 9.0**1.3, 1.0, 0.0),
        }[self.kind]
        calls = {"gram": self.giving(tools.gram.kernel_of(self.x, self.y, self.out, *given))}
        if tools.kermac:
            calls["kermac"] = self.giving(self.kermac_call(tools.kermac))
        if self.kind != "product":
            calls["torch"] = lambda rows=None: self.torch(self.x[:rows])
        return calls

    def kermac_call(self, kermac):
        a, b = columns_first(self.x), columns_first(self.y)
        number = {v: torch.tensor(v, device="cuda") for v in (0.5, 1.3, 3.0, 9.0**1.3)}
        power, kernel = kermac.PowerType, kermac.KernelType
        inner = power.POW if self.kind == "product" else power.SQUARE
        outer = power.SQRT if self.kind == "laplace" else power.NOOP
        function = kernel.GAUSSIAN if self.kind == "gaussian" else kernel.LAPLACE
        descriptor = kermac.KernelDescriptor(kermac.InnerOperator.DIFF, inner, outer, function)
        given = {"bandwidth": number[9.0**1.3 if self.kind == "product" else 3.0]}
        if self.kind == "product":
            given["inner_p"] = number[1.3]
        if self.kind == "gaussian":
            given["regularization"] = number[0.5]
        self.kept = [a, b, number]
        return lambda: kermac.run_kernel(
            descriptor, a, b, out=self.out, try_to_align=True, **given
        )

    def torch(self, x):
        d = torch.cdist(x, self.y)
        if self.kind == "laplace":
            return d.div_(-3.0).exp_()
        out = d.square_().div_(-18.0).exp_()
        out.diagonal().add_(0.5)
        return out

    def f(self, s, i):
        if self.kind == "laplace":
            return (s.sqrt() / -3.0).exp()
        if self.kind == "product":
            return (s / -(9.0**1.3)).exp()
        value = (s / -18.0).exp()
        value[i] += 0.5
        return value


class Gradients:
    """gram_cdist_grad: K = M = 10000 points, N features, O outputs."""

    unit = "eps of the sum of absolute terms"
    limit = 400.0
    dtype = torch.float32
    points = 10000

    def __init__(self, key, features, outputs, p, target):
        self.key, self.n, self.o, self.p, self.target = key, features, outputs, p, target
        self.title = f"cdist_grad K=M={self.points} N={features} O={outputs} p={p:g}"

    def inputs(self):
        k = m = self.points
        self.a, self.b = uniform((k, m), 1), uniform((self.n, k), 2)
        self.c, self.d = uniform((self.o, k), 3) - 0.5, uniform((self.n, m), 4)
        self.out = torch.empty((self.o, self.n, m), device="cuda")

    def prepare(self, tools):
        self.inputs()
        given = (self.a, self.b, self.c, self.d)
        calls = {"gram": self.giving(tools.gram.grad_of(*given, self.p, self.out))}
        if tools.kermac:
            p = torch.tensor(self.p, device="cuda")
            calls["kermac"] = self.giving(
                lambda: tools.kermac.cdist_grad(*given, out=self.out, p=p)
            )
        if self.p == 2:
            calls["torch"] = self.torch
        return calls

    def giving(self, call):
        def run():
            call()
            return self.out

        return run

    def torch(self):
        """Two products of matrices: d (c a) - (c b) a."""
        weighted = (self.c[:, None, :] * self.b).reshape(-1, self.points)
        out = torch.mm(weighted, self.a).view(self.o, self.n, -1)
        return torch.sub((self.c @ self.a)[:, None, :] * self.d, out, out=out)

    def work(self):
        return self.points * self.points * self.n

    def error(self, got):
        worst = 0.0
        a, b, c, d = (t.double() for t in (self.a, self.b, self.c, self.d))
        for m in range(0, self.points, self.points // SAMPLES):
            off = d[:, m, None] - b
            size = off.abs().pow_(self.p - 1)
            size = torch.where(off == 0, 0.0, size)
            weight = c * a[:, m]
            want, scale = weight @ (off.sign() * size).t(), weight.abs() @ size.t()
            error = (got[:, :, m].double() - want).abs() / (EPS * scale)
            worst = max(worst, torch.nan_to_num(error, nan=torch.inf).max().item())
        return worst


class Agop(Gradients):
    """gram_agop: its target is 1.1 times the gradient alone, which is timed beside it."""

    unit = "eps of the largest entry"
    limit = 2000.0

    def __init__(self, key, features, outputs, p):
        super().__init__(key, features, outputs, p, None)
        self.title = f"AGOP K=M={self.points} N={features} O={outputs} p={p:g}"

    def prepare(self, tools):
        self.inputs()
        given = (self.a, self.b, self.c, self.d)
        self.sum = torch.empty((self.n, self.n), device="cuda")
        agop = tools.gram.agop_of(*given, self.p, self.sum)
        self.gradient = self.giving(tools.gram.grad_of(*given, self.p, self.out))

        def run():
            agop()
            return self.sum

        return {"gram": run, "gradient": self.gradient}

    def error(self, got):
        """Against the product of the gradients, which have rows of their own, in f64."""
        if got.dim() == 3:
            return super().error(got)
        self.gradient()
        want = torch.zeros((self.n, self.n), device="cuda", dtype=torch.float64)
        for o in range(self.o):
            g = self.out[o].double()
            want += g @ g.t()
        want /= self.points
        error = (got.double() - want).abs().max() / (EPS * want.abs().max())
        return torch.nan_to_num(error, nan=torch.inf).item()


LARGE, SMALL, MIDDLE, DOUBLE = (
    (30000, 30000, 1024),
    (10000, 10000, 128),
    (20000, 20000, 256),
    (16384, 16384, 512),
)

ROWS = [
    Distances("cdist-1", LARGE, 1.0, 60),
    Distances("cdist-2", LARGE, 2.0, 12, limit=1e-6),
    Distances("cdist-1.3", LARGE, 1.3, 265, limit=2e-6),
    Distances("cdist-0.5", LARGE, 0.5, 240),
    Distances("cdist-1.5", LARGE, 1.5, 240),
    Distances("cdist-3", LARGE, 3.0, 92),
    Distances("cdist-4", LARGE, 4.0, 92),
    Distances("symmetric-1", LARGE, 1.0, 0.56 * 60, symmetric=True),
    Distances("symmetric-2", LARGE, 2.0, 0.56 * 12, symmetric=True),
    Distances("symmetric-1.3", LARGE, 1.3, 0.56 * 265, symmetric=True),
    Distances("small-1", SMALL, 1.0, 0.9),
    Distances("small-2", SMALL, 2.0, 0.4, limit=1e-6),
    Kernels("laplace", MIDDLE, "laplace", 2.5),
    Kernels("gaussian", MIDDLE, "gaussian", 2.5),
    Kernels("product", MIDDLE, "product", 31),
    Gradients("grad-128-1-1", 128, 1, 1.0, 1.7),
    Gradients("grad-128-1-2", 128, 1, 2.0, 0.5),
    Gradients("grad-128-1-1.3", 128, 1, 1.3, 4.5),
    Gradients("grad-128-10-1", 128, 10, 1.0, 6),
    Gradients("grad-128-10-2", 128, 10, 2.0, 2.5),
    Gradients("grad-128-10-1.3", 128, 10, 1.3, 9),
    Gradients("grad-768-16-1", 768, 16, 1.0, 55),
    Gradients("grad-768-16-2", 768, 16, 2.0, 20),
    Gradients("grad-768-16-1.3", 768, 16, 1.3, 80),
    *(
        Agop(f"agop-{n}-{o}-{p:g}", n, o, p)
        for n, o in ((128, 1), (128, 10), (768, 16))
        for p in (1.0, 2.0, 1.3)
    ),
    Distances("f64-1", DOUBLE, 1.0, None, dtype=torch.float64, limit=1e-13),
    Distances("f64-2", DOUBLE, 2.0, None, dtype=torch.float64, limit=1e-13),
]
