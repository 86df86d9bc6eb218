"""train_second_order.py - training curves of gram.optim beside AdamW, as CSV and as pictures

  bench/train_second_order.py train [--task NAME ...] [--method NAME ...] -o FILE.csv
  bench/train_second_order.py report FILE.csv...                       a table in Markdown
  bench/train_second_order.py plot FILE.csv... -o docs/second-order    docs/second-order-NAME.svg

Tasks: "mlp" and "conv" learn scikit-learn's handwritten digits, "text" predicts the next letter of
this project's own documents.  Every method sees the same batches from the same weights, with a
learning rate that rises for a twentieth of the steps and then falls to 0 in a line.  Its highest
value is the best of a grid for every method, by the last loss of the first seed on the full
schedule.  With that rate every method runs schedules of 40 to 100 % of the steps with some seeds.
The loss is that of a fixed set of training samples.

Reported: the shortest schedule whose last loss (median of the seeds) is that of AdamW's full one or
lower, and the first such step on the full schedule (median too).
"""

import argparse
import csv
import io
import pathlib
import statistics
import time

import torch
from torch import nn

import gram.optim

ROOT = pathlib.Path(__file__).parents[1]
FIELDS = ["task", "method", "rate", "steps", "seed", "step", "loss", "seconds"]
SHARES = [0.4, 0.5, 0.6, 0.8, 1.0]


# ---- Tasks -------------------------------------------------------------------------------------


def digits():
    from sklearn.datasets import load_digits

    data = load_digits()
    x = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    return x, torch.tensor(data.target)


class Digits:
    """A classifier of 8 x 8 images."""

    every, scale = 5, 1.0

    def __init__(self, build, steps, batch):
        self.x, self.y = digits()
        self.build, self.steps, self.batch = build, steps, batch

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

    steps, batch, every, scale, length = 300, 8, 10, 0.25, 32

    def __init__(self):
        paths = sorted((ROOT / "docs").glob("*.md")) + [ROOT / "include/gram/gram.h"]
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


TASKS = {
    "mlp": lambda: Digits(mlp, 300, 128),
    "conv": lambda: Digits(conv, 200, 64),
    "text": Text,
}


# ---- Methods -----------------------------------------------------------------------------------


def adamw(model, rate):
    return [torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.01)]


def shampoo(model, rate):
    return [
        gram.optim.Shampoo(
            model.parameters(), lr=rate, betas=(0.9, 0.95), graft="adam", graft_beta2=0.95,
            graft_eps=1e-8, eps=1e-6, relative_eps=True, merge=False, refresh=5, start=1,
            weight_decay=0.01,
        )
    ]  # fmt: skip


def soap(model, rate):
    return [
        gram.optim.SOAP(
            model.parameters(), lr=rate, betas=(0.9, 0.95), refresh=5, weight_decay=0.01
        )
    ]


def muon(model, rate):
    """Muon for the hidden matrices, AdamW for the rest, as its author advises."""
    hidden, rest = [], []
    names = [name for name, p in model.named_parameters() if p.ndim >= 2]
    for name, p in model.named_parameters():
        inner = p.ndim >= 2 and "embedding" not in name and "position" not in name
        (hidden if inner and name != names[-1] else rest).append(p)
    return [
        gram.optim.Muon(hidden, lr=rate, weight_decay=0.01),
        torch.optim.AdamW(rest, lr=3e-3, betas=(0.9, 0.95), weight_decay=0.01),
    ]


def kfac(model, rate):
    """K-FAC with targets drawn from the model's own predictions."""
    return [
        gram.optim.KFAC(
            model, lr=rate, damping=3e-2, kl_clip=1e-3, refresh_every=5, fisher="mc",
            generator=torch.Generator().manual_seed(0),
        )
    ]  # fmt: skip


# Highest rates to choose from; a task multiplies them by its scale.
METHODS = {
    "adamw": (adamw, [8e-3, 1.6e-2, 3.2e-2, 6.4e-2, 1.28e-1]),
    "shampoo": (shampoo, [8e-3, 1.6e-2, 3.2e-2, 6.4e-2, 1.28e-1]),
    "soap": (soap, [8e-3, 1.6e-2, 3.2e-2, 6.4e-2, 1.28e-1]),
    "muon": (muon, [2e-2, 4e-2, 8e-2, 1.6e-1, 3.2e-1]),
    "kfac": (kfac, [3.13e-3, 6.25e-3, 1.25e-2, 2.5e-2, 5e-2, 1e-1, 2e-1]),
}


# ---- Training ----------------------------------------------------------------------------------


def share(step, steps):
    """The learning rate as a share of its highest value."""
    rise = max(1, steps // 20)
    return min((step + 1) / rise, (steps - step) / (steps - rise))


def train(task, method, rate, seed, steps):
    """The losses, as (step, loss, seconds so far)."""
    torch.manual_seed(seed)
    model, generator = task.model(), torch.Generator().manual_seed(seed)
    optimizers = METHODS[method][0](model, rate)
    highest = [[group["lr"] for group in o.param_groups] for o in optimizers]
    held, curve, seconds = task.held(), [], 0.0
    for step in range(steps + 1):
        if step % task.every == 0 or step == steps:
            with torch.no_grad():
                loss = task.loss(model(held[0]), held[1]).item()
                curve.append((step, loss, seconds))
        if step == steps:
            return curve
        begin = time.perf_counter()
        x, y = task.draw(generator)
        for o, rates in zip(optimizers, highest, strict=True):
            o.zero_grad()
            for group, most in zip(o.param_groups, rates, strict=True):
                group["lr"] = most * share(step, steps)
        outputs = model(x)
        for o in optimizers:
            if isinstance(o, gram.optim.KFAC):
                o.curvature(outputs)
        task.loss(outputs, y).backward()
        for o in optimizers:
            o.step()
        seconds += time.perf_counter() - begin


def last(curve):
    loss = curve[-1][1]
    return loss if loss == loss else float("inf")


def tune(name, task, method, seeds):
    """The best rate, and the curves of that by steps and seed."""
    rates = [task.scale * rate for rate in METHODS[method][1]]
    curves = {rate: train(task, method, rate, 0, task.steps) for rate in rates}
    best = min(curves, key=lambda rate: last(curves[rate]))
    grid = ", ".join(f"{rate:g}: {last(curve):.4g}" for rate, curve in curves.items())
    print(f"{name} {method}: last losses {grid}", flush=True)
    found = {(task.steps, 0): curves[best]}
    for steps in (round(share * task.steps) for share in SHARES):
        for seed in range(seeds):
            if (steps, seed) not in found:
                found[steps, seed] = train(task, method, best, seed, steps)
    return best, found


def run(arguments):
    torch.set_num_threads(arguments.threads)
    gram.set_threads(arguments.threads)
    rows = []
    for name in arguments.task:
        task = TASKS[name]()
        for method in arguments.method:
            rate, curves = tune(name, task, method, arguments.seeds)
            for (steps, seed), curve in curves.items():
                for step, loss, seconds in curve:
                    rows.append([name, method, f"{rate:g}", steps, seed, step])
                    rows[-1] += [f"{loss:.5g}", f"{seconds:.3f}"]
            with open(arguments.output, "w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([FIELDS, *rows])


# ---- Reports and pictures ----------------------------------------------------------------------


def read(paths):
    """{task: {method: (rate, {steps: [[(step, loss, seconds)] of a seed]})}}"""
    tasks = {}
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                methods = tasks.setdefault(row["task"], {})
                _, runs = methods.setdefault(row["method"], (float(row["rate"]), {}))
                curves = runs.setdefault(int(row["steps"]), {})
                point = int(row["step"]), float(row["loss"]), float(row["seconds"])
                curves.setdefault(int(row["seed"]), []).append(point)
    return tasks


def final(curves):
    """The last loss, the median of the seeds."""
    return statistics.median(last(curve) for curve in curves.values())


def shortest(runs, goal):
    """The fewest steps of a schedule that ends at that loss or lower; None: none does."""
    return next((steps for steps in sorted(runs) if final(runs[steps]) <= goal), None)


def first(curves, goal):
    """The first step at that loss or lower, the median of the seeds; None: some never are."""
    steps = [next((s for s, loss, _ in c if loss <= goal), None) for c in curves.values()]
    return None if None in steps else statistics.median(steps)


def report(arguments):
    print(
        "| task | method | rate | last loss | shortest schedule to AdamW's | "
        "first step there, full schedule | ms a step |\n|---|---|---|---|---|---|---|"
    )
    for name, methods in read(arguments.files).items():
        most = max(methods["adamw"][1])
        goal = final(methods["adamw"][1][most])
        for method, (rate, runs) in methods.items():
            full = runs[most]
            took = statistics.median(c[-1][2] for c in full.values()) / most * 1e3
            texts = [
                "-" if at is None else f"{at:.0f} ({100 * at / most:.0f} %)"
                for at in (shortest(runs, goal), first(full, goal))
            ]
            line = [name, method, f"{rate:g}", f"{final(full):.3g}", *texts, f"{took:.1f}"]
            print(f"| {' | '.join(line)} |")


def draw(name, methods, path):
    from matplotlib import pyplot

    import gram.plot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    most = max(methods["adamw"][1])
    goal, curves = final(methods["adamw"][1][most]), {}
    for method, (rate, runs) in methods.items():
        steps = most if method == "adamw" else shortest(runs, goal) or most
        curves[f"{method}, rate {rate:g}"] = [
            (points[0][0], statistics.median(loss for _, loss, _ in points))
            for points in zip(*runs[steps].values(), strict=True)
        ]
    gram.plot.training(curves, axes)
    axes.axhline(goal, color="grey", linestyle=":")
    axes.set_title(name)
    figure.tight_layout()
    picture = io.StringIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    with open(path, "w") as file:
        file.writelines(line.rstrip() + "\n" for line in picture.getvalue().splitlines())


def plot(arguments):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "gram"  # the same picture from the same numbers
    for name, methods in read(arguments.files).items():
        draw(name, methods, f"{arguments.output}-{name}.svg")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train")
    training.add_argument("--task", nargs="+", choices=list(TASKS), default=list(TASKS))
    training.add_argument("--method", nargs="+", choices=list(METHODS), default=list(METHODS))
    training.add_argument("--seeds", type=int, default=3)
    training.add_argument("--threads", type=int, default=1)
    training.add_argument("-o", "--output", required=True)
    training.set_defaults(run=run)
    reporting = commands.add_parser("report")
    reporting.add_argument("files", nargs="+")
    reporting.set_defaults(run=report)
    plotting = commands.add_parser("plot")
    plotting.add_argument("files", nargs="+")
    plotting.add_argument("-o", "--output", required=True)
    plotting.set_defaults(run=plot)
    given = parser.parse_args()
    given.run(given)
