"""core/torch_formulas.py - Shampoo and K-FAC in PyTorch's operations, for peers/torch.py

Shampoo's blocks of one shape are stacked, so that statistics and
directions are batches; its roots are torch.linalg.eigh, one matrix after the other as is usual, or
coupled Newton iterations of whole batches.  K-FAC is that of the public packages: unfold and
products for the factors, cholesky_inverse or eigh, products.
"""

import math

import torch
from core.place import tensor
from torch import nn

# ---- Shampoo ------------------------------------------------------------------------------------


def eigh_roots(factors, exponent, epsilon):
    roots = torch.empty_like(factors)
    for matrix, root in zip(factors, roots, strict=True):
        values, vectors = torch.linalg.eigh(matrix)
        values = values.clamp(min=0) + epsilon * values[-1]
        root.copy_((vectors * values**-exponent) @ vectors.mT)
    return roots


def newton_roots(factors, exponent, epsilon):
    """Coupled Newton, as many steps as the condition 1 / epsilon takes."""
    q, n = round(1 / exponent), factors.shape[-1]
    eye = torch.eye(n, device=factors.device, dtype=factors.dtype)
    x = torch.ones(factors.shape[0], n, 1, device=factors.device, dtype=factors.dtype)
    for _ in range(16):  # the largest eigenvalue
        x = factors @ (x / x.norm(dim=1, keepdim=True))
    most = x.norm(dim=1, keepdim=True)
    b = factors + epsilon * most * eye
    z = (1 + q) / (2 * (most * 1.01 + epsilon * most))
    m, root = b * z, z ** (1 / q) * eye
    for _ in range(math.ceil(math.log(1 / epsilon, (1 + 1 / q) ** q)) + 6):
        w = ((q + 1) * eye - m) / q
        root = root @ w
        power = w @ w if q > 1 else w
        for _ in range(int(math.log2(q)) - 1 if q > 1 else 0):
            power = power @ power
        m = power @ m
    return root


ROOTS = {"coupled Newton": newton_roots, "eigh": eigh_roots}


class Shampoo:
    """Parameters with gradients, blocks of at most so many rows and columns, no first moment."""

    def __init__(self, parameters, roots, beta, epsilon, block, lr=1.0):
        self.parameters, self.take_roots, self.beta = parameters, roots, beta
        self.epsilon, self.lr, self.kinds, self.roots, self.t = epsilon, lr, {}, {}, 0
        for i, p in enumerate(parameters):
            rows, cols = p.shape if p.dim() > 1 else (p.shape[0], 1)
            if p.dim() > 1 and rows * cols <= block:
                rows, cols = rows * cols, 1
            for r in range(0, rows, block):
                for s in range(0, cols, block):
                    size = (min(block, rows - r), min(block, cols - s))
                    self.kinds.setdefault(size, []).append((i, rows, cols, r, s))
        self.factors = {size: self.zeros(size, len(at)) for size, at in self.kinds.items()}

    def zeros(self, size, count):
        p = self.parameters[0]
        sides = size if size[1] > 1 else size[:1]
        return [torch.zeros(count, n, n, device=p.device, dtype=p.dtype) for n in sides]

    @torch.no_grad()
    def step(self, refresh=True):
        self.t += 1
        for size, at in self.kinds.items():
            g = torch.stack([self.parameters[i].grad.view(rows, cols)[r : r + size[0],
                                                                      s : s + size[1]]
                             for i, rows, cols, r, s in at])  # fmt: skip
            factors = self.factors[size]
            for k, factor in enumerate(factors):
                rows = g if k == 0 else g.mT
                factor.baddbmm_(rows, rows.mT, beta=self.beta, alpha=1 - self.beta)
            if refresh or size not in self.roots:
                self.roots[size] = [self.take_roots(f, 1 / (2 * len(factors)), self.epsilon)
                                    for f in factors]  # fmt: skip
            p = self.roots[size][0] @ g
            p = p @ self.roots[size][1] if len(factors) > 1 else p
            for (i, rows, cols, r, s), step in zip(at, p, strict=True):
                to = self.parameters[i].view(rows, cols)[r : r + size[0], s : s + size[1]]
                to.sub_(step, alpha=self.lr)


def shampoo_steps(q):
    found = {}
    for name, roots in ROOTS.items():
        own = Shampoo(q.leaves(), roots, q.beta, q.epsilon, q.block)
        found[f"{name}, every step"] = own.step
    own = Shampoo(q.leaves(), newton_roots, q.beta, q.epsilon, q.block)
    found["no roots"] = lambda: own.step(refresh=False)
    return found


def shampoo_directions(q):
    return {name: q.moved(lambda ps, r=roots: Shampoo(ps, r, q.beta, q.epsilon, q.n).step)
            for name, roots in ROOTS.items()}  # fmt: skip


# ---- K-FAC of one layer -------------------------------------------------------------------------


class LayerKfac:
    def __init__(self, q, state):
        self.q, self.dtype = q, getattr(torch, state)
        self.weight = tensor(q.weight)
        self.a = self.b = self.s = self.vectors = None
        self.fresh = False

    def rows(self):
        """a and g as (samples, positions, features)."""
        q = self.q
        a, g = (tensor(t).to(self.dtype) for t in (q.a, q.g))
        if q.kernel:
            a = nn.functional.unfold(a, q.kernel, padding=q.kernel // 2)
            return a.transpose(1, 2), g.flatten(2).transpose(1, 2)
        return a.view(q.samples, -1, q.inputs), g.view(q.samples, -1, q.outputs)

    def average(self, old, new):
        return new if old is None else self.q.decay * old + (1 - self.q.decay) * new

    def update(self):
        a, g = self.rows()
        flat_a, flat_g = a.flatten(0, 1), g.flatten(0, 1)
        if self.vectors:
            (_, qa), (_, qb) = self.vectors
            if a.shape[1] == 1:
                squares = (flat_g @ qb).square().T @ (flat_a @ qa).square()
            else:
                squares = sum((qb.T @ (g[i].T @ a[i]) @ qa).square() for i in range(len(a)))
            squares = squares / self.q.samples
            self.s = squares if self.fresh else self.average(self.s, squares)
            self.fresh = False
        self.a = self.average(self.a, flat_a.T @ flat_a / len(flat_a))
        self.b = self.average(self.b, flat_g.T @ flat_g / self.q.samples)

    def refresh(self):
        if self.q.corrected:
            self.vectors = [torch.linalg.eigh(x) for x in (self.a, self.b)]
            (wa, _), (wb, _) = self.vectors
            self.s, self.fresh = wb.clamp(min=0)[:, None] * wa.clamp(min=0), True
            return
        pi = (self.a.trace() / len(self.a) / (self.b.trace() / len(self.b))).sqrt()
        root = self.q.damping**0.5
        self.inverses = [
            torch.cholesky_inverse(torch.linalg.cholesky(x + shift * torch.eye(len(x)).to(x)))
            for x, shift in ((self.a, pi * root), (self.b, root / pi))
        ]

    def direction(self):
        m = self.weight.to(self.dtype).flatten(1)
        if self.q.corrected:
            (_, qa), (_, qb) = self.vectors
            out = qb @ ((qb.T @ m @ qa) / (self.s + self.q.damping)) @ qa.T
        else:
            out = self.inverses[1] @ m @ self.inverses[0]
        self.out = out.view_as(self.weight).float()


# ---- K-FAC of a network -------------------------------------------------------------------------


class PlainKfac:
    """With the formulas of gram.optim.KFAC, f32; q has damping, decay, kl_clip, rate and more."""

    def __init__(self, model, q):
        self.q, self.steps, self.data, self.state = q, 0, {}, {}
        self.sgd = torch.optim.SGD(model.parameters(), lr=q.rate, momentum=q.momentum)
        for m in model.modules():
            if isinstance(m, nn.Linear | nn.Conv2d):
                m.register_forward_hook(self.keep)

    def keep(self, m, inputs, output):
        self.data[m] = [inputs[0].detach(), None]
        output.register_hook(lambda g: self.data[m].__setitem__(1, g))

    @staticmethod
    def rows(m, a, g):
        """Rows of all positions, those of gradients for the sum of losses, and the samples."""
        n = a.shape[0]
        if isinstance(m, nn.Conv2d):
            a = nn.functional.unfold(a, m.kernel_size, m.dilation, m.padding, m.stride)
            a, g = a.transpose(1, 2).flatten(0, 1), g.flatten(2).transpose(1, 2).flatten(0, 1)
        a, g = a.flatten(0, -2), g.flatten(0, -2)
        return torch.cat([a, a.new_ones(len(a), 1)], 1), g * n, n

    @torch.no_grad()
    def step(self):
        keep = min(1 - 1 / (self.steps + 1), self.q.decay)
        for m, (a, g) in self.data.items():
            a, g, n = self.rows(m, a, g)
            new, old = [a.T @ a / len(a), g.T @ g / n], self.state.get(m)
            self.state[m] = [f if old is None else old[i].mul_(keep).add_(f, alpha=1 - keep)
                             for i, f in enumerate(new)] + ([] if old is None else old[2:])
        if self.steps % self.q.refresh == 0:
            self.invert()
        self.scale(self.directions())
        self.sgd.step()
        self.steps += 1

    def invert(self):
        for m, (a, b, *_) in self.state.items():
            pi = ((a.trace() / len(a)) / (b.trace() / len(b))).sqrt()
            self.state[m] = [a, b, *(torch.cholesky_inverse(torch.linalg.cholesky(
                f + s * self.q.damping**0.5 * torch.eye(len(f), device=f.device)))
                for f, s in ((a, pi), (b, 1 / pi)))]  # fmt: skip

    def directions(self):
        total = 0
        for m, (_, _, ia, ib) in self.state.items():
            grad = torch.cat([m.weight.grad.flatten(1), m.bias.grad[:, None]], 1)
            v = ib @ grad @ ia
            total = total + (v * grad).sum() * self.q.rate**2
            m.weight.grad.copy_(v[:, :-1].view_as(m.weight))
            m.bias.grad.copy_(v[:, -1])
        return total

    def scale(self, total):
        nu = (self.q.kl_clip / total.abs()).sqrt().clamp(max=1)
        for m in self.state:
            m.weight.grad.mul_(nu)
            m.bias.grad.mul_(nu)
