"""optim_reference.py - Shampoo, SOAP and Muon once more, in NumPy from the papers' formulas

What test_optim.py compares gram.optim with: f64, one parameter, no care for speed.  Each class has
step(w, g), which returns the new parameter.

Sources: Gupta, Koren, Singer 2018 and Shi et al. 2023 (Shampoo), Vyas et al. 2024 (SOAP), Jordan
et al. 2024 (Muon).
"""

import numpy as np


def merged(shape, limit):
    """Sizes of 1 left out, then neighbours joined from the right while their product fits."""
    sizes = []
    for size in reversed([s for s in shape if s != 1]):
        if sizes and sizes[0] * size <= limit:
            sizes[0] *= size
        else:
            sizes.insert(0, size)
    return sizes or [1]


def blocks(shape, limit):
    """The slices of every block of a tensor whose sides are cut at multiples of limit."""
    cuts = [[slice(a, min(a + limit, s)) for a in range(0, s, limit)] for s in shape]
    grid = np.meshgrid(*[range(len(c)) for c in cuts], indexing="ij")
    return [
        tuple(c[i] for c, i in zip(cuts, at, strict=True))
        for at in zip(*[g.ravel() for g in grid], strict=True)
    ]


def contract(x, dim):
    """x with itself over all dimensions but one."""
    n = x.shape[dim]
    flat = np.moveaxis(x, dim, 0).reshape(n, x.size // max(n, 1))
    return flat @ flat.T


def along(x, matrix, dim):
    """matrix^T times x along a dimension."""
    return np.moveaxis(np.tensordot(x, matrix, axes=([dim], [0])), -1, dim)


def power(matrix, exponent, eps):
    """(A + eps I)^exponent; an A that is not quite semidefinite is lifted first."""
    values, q = np.linalg.eigh(matrix + eps * np.eye(len(matrix)))
    if values.min() < eps:
        values = values - min(values.min(), 0) + eps * (values.min() < 0)
    return q @ np.diag(values**exponent) @ q.T


class Shampoo:
    """One block's Shampoo with a graft, the parameter cut into blocks."""

    def __init__(self, shape, *, lr, beta1, beta2, beta3=None, eps, graft=None, graft_beta2=0.0,
                 graft_eps=1e-8, momentum=0.0, dampening=0.0, nesterov=False, weight_decay=0.0,
                 decoupled=True, bias_correction=True, block=1024, merge=True, start=1, refresh=1,
                 stagger=False, exponent=0.0, statistics=1, first_block=0):  # fmt: skip
        self.o = {k: v for k, v in locals().items() if k not in ("self", "shape")}
        self.o["beta3"] = beta1 if beta3 is None else beta3
        self.shape = merged(shape, block) if merge else list(shape) or [1]
        self.cuts = blocks(self.shape, block)
        self.t = 0
        self.taken = [0] * len(self.cuts)
        self.filtered = np.zeros(self.shape)
        self.second = np.zeros(self.shape)
        self.velocity = np.zeros(self.shape)
        sides = [[s.stop - s.start for s in cut] for cut in self.cuts]
        self.factors = [[np.zeros((n, n)) for n in side] for side in sides]
        self.roots = [[np.eye(n) for n in side] for side in sides]

    def graft_of(self, x, part):
        o = self.o
        if o["graft"] == "sgd":
            return x
        v = self.second[part]
        if o["graft"] == "adam":
            v = v / (1 - o["graft_beta2"] ** self.t)
        return x / (np.sqrt(v) + o["graft_eps"])

    def refreshes(self, i):
        o, t = self.o, self.t
        if t < o["start"]:
            return False
        shift = i + o["first_block"] if o["stagger"] else 0
        return t == o["start"] or (t + shift) % o["refresh"] == 0

    def direction_of(self, i, g, x):
        o, t, part = self.o, self.t, self.cuts[i]
        order = len(self.shape)
        takes = t == 1 or t % o["statistics"] == 0
        self.taken[i] += takes
        for k in range(order if takes else 0):
            new = contract(g[part], k)
            decay = o["beta2"]
            self.factors[i][k] = decay * self.factors[i][k] + (1 if decay == 1 else 1 - decay) * new
        if self.refreshes(i):
            scale = 1.0
            if o["bias_correction"] and o["beta2"] < 1:
                scale = 1 / (1 - o["beta2"] ** self.taken[i])
            p = o["exponent"] or 1 / (2 * order)
            self.roots[i] = [power(f * scale, -p, o["eps"]) for f in self.factors[i]]
        direction = x[part]
        if o["graft"] and t < o["start"]:
            return self.graft_of(direction, part)
        for k in range(order):
            direction = along(direction, self.roots[i][k], k)
        if o["graft"]:
            want = np.linalg.norm(self.graft_of(x[part], part))
            direction = direction * want / (np.linalg.norm(direction) + 1e-16)
        return direction

    def step(self, w, g):
        o = self.o
        self.t += 1
        shape = w.shape
        w, g = w.reshape(self.shape), g.reshape(self.shape)
        if not o["decoupled"]:
            g = g + o["weight_decay"] * w
        if o["graft"] == "adagrad":
            self.second += g * g
        elif o["graft"] in ("rmsprop", "adam"):
            self.second = o["graft_beta2"] * self.second + (1 - o["graft_beta2"]) * g * g
        x = g
        if o["beta1"]:
            x = o["beta3"] * self.filtered + (1 - o["beta3"]) * g
            self.filtered = o["beta1"] * self.filtered + (1 - o["beta1"]) * g
            if o["bias_correction"]:
                x = x / (1 - o["beta3"] * o["beta1"] ** (self.t - 1))
        direction = np.zeros(self.shape)
        for i, part in enumerate(self.cuts):
            direction[part] = self.direction_of(i, g, x)
        if o["decoupled"]:
            direction = direction + o["weight_decay"] * w
        if o["momentum"]:
            self.velocity = o["momentum"] * self.velocity + (1 - o["dampening"]) * direction
            moved = o["momentum"] * self.velocity
            direction = direction + moved if o["nesterov"] else self.velocity
        return (w - o["lr"] * direction).reshape(shape)


class SOAP:
    """Adam in the eigenbasis of Shampoo's factors; the first step only sets the basis."""

    def __init__(self, shape, *, lr, beta1, beta2, shampoo_beta=None, eps=1e-8, weight_decay=0.0,
                 refresh=10, block=10000, bias_correction=True):  # fmt: skip
        self.lr, self.beta1, self.beta2, self.eps = lr, beta1, beta2, eps
        self.decay = beta2 if shampoo_beta is None else shampoo_beta
        self.weight_decay, self.refresh, self.correct = weight_decay, refresh, bias_correction
        has = [len(shape) > 1 and size <= block for size in shape]
        self.factors = [np.zeros((n, n)) if h else None for n, h in zip(shape, has, strict=True)]
        self.bases = [None] * len(shape)
        self.m, self.v, self.t = np.zeros(shape), np.zeros(shape), 0

    def accumulate(self, g):
        for k, f in enumerate(self.factors):
            if f is not None:
                self.factors[k] = self.decay * f + (1 - self.decay) * contract(g, k)

    def into(self, x):
        for k, q in enumerate(self.bases):
            x = x if q is None else along(x, q, k)
        return x

    def back(self, x):
        for k, q in enumerate(self.bases):
            x = x if q is None else along(x, q.T, k)
        return x

    def turn(self):
        """A step of orthogonal iteration; the moments follow the order of the columns."""
        for k, q in enumerate(self.bases):
            if q is None:
                continue
            values = np.diag(q.T @ self.factors[k] @ q)
            order = np.argsort(-values, kind="stable")
            self.v = np.take(self.v, order, axis=k)
            self.bases[k] = np.linalg.qr(self.factors[k] @ q[:, order])[0]

    def step(self, w, g):
        self.t += 1
        if self.t == 1:
            self.accumulate(g)
            for k, f in enumerate(self.factors):
                if f is not None:
                    self.bases[k] = np.linalg.eigh(f + 1e-30 * np.eye(len(f)))[1][:, ::-1]
            return w
        t = self.t - 1  # updates so far, this one counted
        turned = self.into(g)
        self.m = self.beta1 * self.m + (1 - self.beta1) * g
        self.v = self.beta2 * self.v + (1 - self.beta2) * turned**2
        scale = np.sqrt(1 - self.beta2**t) / (1 - self.beta1**t) if self.correct else 1.0
        w = w - self.lr * scale * self.back(self.into(self.m) / (np.sqrt(self.v) + self.eps))
        w = w - self.lr * self.weight_decay * w
        self.accumulate(g)
        if t % self.refresh == 0:
            self.turn()
        return w


def newton_schulz(m, steps):
    """Nearly the orthogonal factor of m: singular values of about 0.7 to 1.2."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = m / max(np.linalg.norm(m), 1e-8)
    turned = x.shape[0] > x.shape[1]
    x = x.T if turned else x
    for _ in range(steps):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if turned else x


class Muon:
    """Momentum, made orthogonal; for matrices, and tensors seen as rows by the rest."""

    def __init__(self, shape, *, lr, momentum=0.95, nesterov=True, steps=5, weight_decay=0.0):
        self.lr, self.momentum, self.nesterov, self.steps = lr, momentum, nesterov, steps
        self.weight_decay = weight_decay
        self.velocity = np.zeros(shape)

    def step(self, w, g):
        self.velocity = self.momentum * self.velocity + (1 - self.momentum) * g
        x = self.velocity
        if self.nesterov:
            x = self.momentum * x + (1 - self.momentum) * g
        rows, columns = len(x), int(np.prod(x.shape[1:]))
        u = newton_schulz(x.reshape(rows, columns), self.steps) * max(1, rows / columns) ** 0.5
        return w - self.lr * (u.reshape(w.shape) + self.weight_decay * w)


class Adam:
    """What Muon does to vectors and scalars."""

    def __init__(self, shape, *, lr, beta1, beta2, eps, weight_decay=0.0):
        self.lr, self.beta1, self.beta2, self.eps = lr, beta1, beta2, eps
        self.weight_decay = weight_decay
        self.m, self.v, self.t = np.zeros(shape), np.zeros(shape), 0

    def step(self, w, g):
        self.t += 1
        self.m = self.beta1 * self.m + (1 - self.beta1) * g
        self.v = self.beta2 * self.v + (1 - self.beta2) * g * g
        m, v = self.m / (1 - self.beta1**self.t), self.v / (1 - self.beta2**self.t)
        return w - self.lr * (m / (np.sqrt(v) + self.eps) + self.weight_decay * w)
