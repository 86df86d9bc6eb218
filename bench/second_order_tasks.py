"""second_order_tasks.py - networks and optimizers of train_second_order.py, and its transformer for
advice_second_order.py"""

import math
import pathlib

import torch
from torch import nn

import gram.optim

ROOT = pathlib.Path(__file__).parents[1]


# ---- Tasks --------------------------------------------------------------------------------------


def digits():
    from sklearn.datasets import load_digits

    data = load_digits()
    x = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    return x, torch.tensor(data.target)


class Digits:
    """A classifier of 8 x 8 images."""

    def __init__(self, build, batch):
        self.x, self.y = digits()
        self.build, self.batch = build, batch

    def model(self):
        return self.build()

    def draw(self, generator):
        rows = torch.randint(len(self.x), (self.batch,), generator=generator)
        return self.x[rows], self.y[rows]

    def held(self):
        return self.x, self.y

    def loss(self, outputs, y):
        return nn.functional.cross_entropy(outputs, y)


def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
        nn.Linear(128, 10),
    )  # fmt: skip


def conv():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, d = x.shape
        qkv = self.qkv(self.first(x)).view(n, t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(n, t, d))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


class Letters(nn.Module):
    def __init__(self, letters, width=64, heads=4, layers=2, length=32):
        super().__init__()
        self.embedding = nn.Embedding(letters, width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.position = nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, letters)

    def forward(self, x):
        h = self.embedding(x) + self.position
        for block in self.blocks:
            h = block(h)
        return self.head(self.last(h))


class Text:
    """The next letter of the project's documents and of its header's comments."""

    batch, length = 8, 32

    def __init__(self):
        paths = sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "include/gram").glob("*.h"))
        text = "".join(path.read_text(encoding="utf-8") for path in paths)
        letters = sorted(set(text))
        number = {letter: i for i, letter in enumerate(letters)}
        self.letters = len(letters)
        self.text = torch.tensor([number[letter] for letter in text])

    def model(self):
        return Letters(self.letters, length=self.length)

    def cut(self, starts):
        rows = starts[:, None] + torch.arange(self.length + 1)
        return self.text[rows[:, :-1]], self.text[rows[:, 1:]]

    def draw(self, generator):
        last = len(self.text) - self.length
        return self.cut(torch.randint(last, (self.batch,), generator=generator))

    def held(self):
        return self.cut(torch.linspace(0, len(self.text) - self.length - 1, 128).long())

    def loss(self, outputs, y):
        return nn.functional.cross_entropy(outputs.flatten(0, 1), y.flatten())


# Of each what makes it, what it multiplies rates by, the full schedule's steps.
TASKS = {
    "mlp": (lambda: Digits(mlp, 128), 1.0, 300),
    "conv": (lambda: Digits(conv, 64), 0.5, 400),
    "text": (Text, 0.25, 300),
}


# ---- Methods ------------------------------------------------------------------------------------
# Each draws a setting with random numbers r, given the scale of a task's rates, and returns what
# makes the optimizers of a model.


def spread(r, low, high):
    """A number between low and high, its logarithm uniform, with two digits."""
    return float(f"{math.exp(r.uniform(math.log(low), math.log(high))):.2g}")


def betas(r):
    return r.choice((0.8, 0.9, 0.95)), r.choice((0.95, 0.99, 0.999))


def adamw(r, scale):
    o = {"lr": scale * spread(r, 1e-2, 1e-1), "betas": betas(r)}
    o["weight_decay"] = r.choice((0, 0.01, 0.1))
    return o, lambda model: [torch.optim.AdamW(model.parameters(), **o)]


def shampoo(r, scale):
    """With the step lengths of Adam; convolutions as matrices (merge) or along each dimension."""
    o = {"lr": scale * spread(r, 1e-2, 1e-1), "betas": (betas(r)[0], r.choice((0.9, 0.95, 0.99)))}
    o |= {"graft": "adam", "graft_beta2": r.choice((0.95, 0.99, 0.999)), "relative_eps": True}
    o |= {"eps": r.choice((1e-8, 1e-6, 1e-4)), "merge": r.choice((False, True)), "start": 1}
    o |= {"weight_decay": r.choice((0, 0.01, 0.1)), "exponent": r.choice((None, 0.5))}
    return o, lambda model: [gram.optim.Shampoo(model.parameters(), **o)]


def soap(r, scale):
    o = {"lr": scale * spread(r, 1e-2, 1e-1), "betas": betas(r), "refresh": 1}
    o |= {"shampoo_beta": r.choice((0.9, 0.95, 0.99))}
    o |= {"one_dimensional": r.choice((False, True)), "weight_decay": r.choice((0, 0.01, 0.1))}
    return o, lambda model: [gram.optim.SOAP(model.parameters(), **o)]


def muon(r, scale):
    """Muon for the hidden matrices, AdamW for the rest, as its author advises."""
    o = {"lr": scale * spread(r, 1e-2, 3e-1), "momentum": r.choice((0.9, 0.95))}
    rest = {"lr": scale * spread(r, 1e-2, 1e-1), "betas": betas(r)}
    o["weight_decay"] = rest["weight_decay"] = r.choice((0, 0.01, 0.1))

    def make(model):
        named = [(name, p) for name, p in model.named_parameters() if p.ndim >= 2]
        outer = ("embedding", "position", named[-1][0])
        hidden = [p for name, p in named if not name.startswith(outer)]
        others = [p for p in model.parameters() if all(p is not h for h in hidden)]
        return [gram.optim.Muon(hidden, **o), torch.optim.AdamW(others, **rest)]

    return {**o, **{f"rest_{name}": value for name, value in rest.items()}}, make


def kfac(r, scale):
    """K-FAC, of the digits with the exact Fisher or targets drawn, of letters with these."""
    o = {"lr": spread(r, 5e-2, 1), "momentum": r.choice((0.5, 0.7, 0.8, 0.9)), "refresh_every": 1}
    o |= {"damping": spread(r, 3e-4, 1e-2), "kl_clip": spread(r, 3e-5, 1e-3)}
    o |= {"decay": r.choice((0.9, 0.95, 0.99)), "exact": r.choice((False, True))}
    o |= {"fisher": r.choice(("mc", "type2" if scale > 0.3 else "mc")), "others": "adamw"}
    o["others_lr"] = scale * spread(r, 1e-2, 1e-1)
    outer = scale < 0.3 and r.choice((False, True))

    def make(model):
        skip = [model.embedding, model.head] if outer else []
        generator = torch.Generator().manual_seed(0)
        return [gram.optim.KFAC(model, generator=generator, skip_layers=skip, **o)]

    return {**o, "outer layers AdamW": outer}, make


# The share of the steps that a method is tuned for.
METHODS = {
    "adamw": (adamw, 1.0),
    "shampoo": (shampoo, 0.6),
    "soap": (soap, 0.6),
    "muon": (muon, 0.6),
    "kfac": (kfac, 0.6),
}
