#!/usr/bin/env python3
"""advice_second_order.py - what precision, memory formats and batching cost second-order training

    bench/advice_second_order.py [--device cuda] [--part NAME ...] [--threads N] [--json FILE]

Parts: "precision" trains a transformer on the text of include/gram by gram.optim and AdamW, whose
forward and backward passes are in float32 or under torch.autocast, with states of several dtypes;
"blocks" does it with blocks of several sizes and with merged dimensions; "formats" gives tensors of
convolutions as channels_last to optimizers, gram.sample_grad and gram.kfac_factors, and of linear
layers as transposed views; "batching" does equal work in one call and in many.  Times are of the
wall from idle to idle, the median of some runs, after some that are not counted; losses are those
of a fixed set of training samples, the mean of the seeds and how far these are apart.
"""

import argparse
import itertools
import json
import pathlib
import statistics
import time

import torch
from second_order_tasks import Letters
from torch import nn

import gram
import gram.optim

ROOT = pathlib.Path(__file__).parents[1]
SIZES = {  # of the transformer: width, layers, letters a sample, samples, steps, seeds
    "cuda": (512, 3, 64, 32, 80, 2),
    "cpu": (128, 2, 32, 8, 100, 2),
}
BF16, F16 = torch.bfloat16, torch.float16


class Table:
    """Rows as they come, in Markdown, and all of them for --json."""

    def __init__(self):
        self.rows, self.head = [], None

    def tell(self, part, what, **values):
        self.rows.append({"part": part, "what": what, **values})
        if self.head != (part, *values):
            self.head = (part, *values)
            print(f"\n| {part} | {' | '.join(values)} |\n|{'---|' * (len(values) + 1)}")
        cells = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in values.values()]
        print(f"| {what} | {' | '.join(cells)} |", flush=True)


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def milliseconds(device, work, times=1, runs=5):
    """Of one call of work: the median of the runs of so many calls, after a run that warms up."""
    taken = []
    for _ in range(runs + 1):
        wait(device)
        begin = time.perf_counter()
        for _ in range(times):
            work()
        wait(device)
        taken.append((time.perf_counter() - begin) / times * 1e3)
    return statistics.median(taken[1:])


def peak_mib(device, work):
    """What PyTorch's allocator has more at the peak of work than before; "" on the CPU."""
    if device != "cuda":
        return ""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    kept = work()
    torch.cuda.synchronize()
    del kept
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def state_mib(optimizer):
    """Of the tensors in a checkpoint."""
    tensors = [t for s in optimizer.state_dict()["state"].values() for t in s.values()]
    return sum(t.numel() * t.element_size() for t in tensors if torch.is_tensor(t)) / 2**20


# ---- A transformer that learns letters ----------------------------------------------------------


class Task:
    def __init__(self, device):
        self.device = device
        self.width, self.layers, self.length, self.batch, self.steps, self.seeds = SIZES[device]
        headers = sorted((ROOT / "include/gram").glob("*.h"))
        text = "".join(header.read_text(encoding="utf-8") for header in headers)
        number = {letter: i for i, letter in enumerate(sorted(set(text)))}
        self.letters = len(number)
        self.text = torch.tensor([number[letter] for letter in text], device=device)

    def cut(self, starts):
        rows = starts[:, None] + torch.arange(self.length + 1)
        rows = rows.to(self.device)
        return self.text[rows[:, :-1]], self.text[rows[:, 1:]]

    def loss(self, model, x, y):
        return nn.functional.cross_entropy(model(x).float().flatten(0, 1), y.flatten())

    def train(self, make, rate, autocast=None, dtype=torch.float32, seed=0):
        """The last loss, and of a step ms in all and of the optimizer, MiB of state."""
        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed)
        model = Letters(self.letters, self.width, self.width // 64, self.layers, self.length)
        model = model.to(self.device, dtype)
        optimizer = make(model.parameters(), rate)
        scaler = torch.amp.GradScaler(self.device, enabled=autocast is F16)
        late, begin = self.steps // 5, 0.0
        for step in range(self.steps):
            if step == late:
                wait(self.device)
                begin = time.perf_counter()
            share = min((step + 1) / late, (self.steps - step) / (self.steps - late))
            for group in optimizer.param_groups:
                group["lr"] = rate * share
            starts = torch.randint(
                len(self.text) - self.length - 1, (self.batch,), generator=generator
            )
            optimizer.zero_grad()
            with torch.autocast(self.device, autocast, enabled=autocast is not None):
                loss = self.loss(model, *self.cut(starts))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        wait(self.device)
        whole = (time.perf_counter() - begin) / (self.steps - late) * 1e3
        with torch.no_grad():
            held = self.cut(torch.linspace(0, len(self.text) - self.length - 2, 64).long())
            last = self.loss(model, *held).item()
        memory = state_mib(optimizer)
        own = milliseconds(self.device, optimizer.step, 10, 1) if seed == 0 else None
        return last, whole, own, memory

    def report(self, table, part, what, *given, **options):
        runs = [self.train(*given, **options, seed=seed) for seed in range(self.seeds)]
        losses, whole, own, memory = zip(*runs, strict=True)
        table.tell(part, what, **{
            "loss": statistics.mean(losses),
            "seeds apart": max(losses) - min(losses),
            "step, ms": min(whole),
            "optimizer, ms": own[0],
            "state, MiB": memory[0],
        })  # fmt: skip


def adamw(**options):
    given = {"betas": (0.9, 0.95), "weight_decay": 0.01, **options}
    return lambda params, rate: torch.optim.AdamW(params, rate, **given)


def shampoo(**options):
    given = {"betas": (0.9, 0.95), "graft": "adam", "graft_beta2": 0.95, "eps": 1e-6,
             "relative_eps": True, "root": "minimax", "merge": False, "refresh": 10, "start": 1,
             "weight_decay": 0.01, **options}  # fmt: skip
    return lambda params, rate: gram.optim.Shampoo(params, rate, **given)


def soap(**options):
    given = {"betas": (0.9, 0.95), "refresh": 10, "weight_decay": 0.01, **options}
    return lambda params, rate: gram.optim.SOAP(params, rate, **given)


RATES = {"AdamW": 2e-3, "Shampoo": 2e-3, "SOAP": 2e-3}


def precision(table, device):
    task = Task(device)
    passes = [("float32", {}), ("bfloat16", {"autocast": BF16})]
    if device == "cuda":
        passes.append(("float16, GradScaler", {"autocast": F16}))
    for name, make in (("AdamW", adamw(fused=True)), ("Shampoo", shampoo()), ("SOAP", soap())):
        for kind, options in passes:
            task.report(table, "precision", f"{name}, {kind}", make, RATES[name], **options)
        if name == "AdamW":
            continue
        build, low = {"Shampoo": shampoo, "SOAP": soap}[name], {"autocast": BF16}
        variants = [("state bfloat16", build(state_dtype=BF16), low)]
        if name == "Shampoo":
            coarse = {"state_dtype": BF16, "eps": 1e-4}
            variants.append(("state bfloat16, eps 1e-4", shampoo(**coarse), low))
        variants += [("state float64", build(state_dtype=torch.float64), low)]
        variants += [("parameters bfloat16", make, {"dtype": BF16})]
        if device == "cuda":
            variants.append(("TF32", build(precision="tf32"), low))
            if name == "Shampoo":
                both = {"precision": "tf32", "root_precision": "tf32"}
                variants.append(("TF32, roots too", shampoo(**both), low))
                careful = {"precision": "tf32", "root_precision": "tf32x3", "eps": 1e-4}
                variants.append(("TF32, roots TF32X3, eps 1e-4", shampoo(**careful), low))
        for kind, method, options in variants:
            what = f"{name}, bfloat16, {kind}" if options == low else f"{name}, {kind}"
            task.report(table, "precision", what, method, RATES[name], **options)


def blocks(table, device):
    task, low = Task(device), {"autocast": BF16}
    sides = (128, 256, 512, 1024, 2048) if device == "cuda" else (32, 64, 128, 256, 512)
    for side in sides:
        method = shampoo(block=side)
        task.report(table, "blocks", f"Shampoo, block {side}", method, RATES["Shampoo"], **low)
    method = shampoo(merge=True)
    task.report(table, "blocks", "Shampoo, merge", method, RATES["Shampoo"], **low)
    for side in (sides[-3], 10000):
        method = soap(block=side)
        task.report(table, "blocks", f"SOAP, block {side}", method, RATES["SOAP"], **low)
    for options in ({"root": "eigh"}, {"refresh": 1}, {"refresh": 100}, {"stagger": True}):
        what = "Shampoo, " + ", ".join(f"{name} {value}" for name, value in options.items())
        task.report(table, "blocks", what, shampoo(**options), RATES["Shampoo"], **low)


# ---- Memory formats -----------------------------------------------------------------------------


def parameters_of(shapes, device, dtype=torch.float32):
    torch.manual_seed(0)
    found = [nn.Parameter(torch.randn(shape, device=device, dtype=dtype)) for shape in shapes]
    for p in found:
        p.grad = torch.randn_like(p)
    return found


METHODS = {
    "Shampoo, no roots": shampoo(refresh=10**9, start=1),
    "Shampoo, merged, no roots": shampoo(refresh=10**9, start=1, merge=True),
    "SOAP, no refresh": soap(refresh=10**9),
    "Muon": lambda params, rate: gram.optim.Muon(params, rate),
}
ADAMW = {
    "AdamW": adamw(),
    "AdamW, foreach=False": adamw(foreach=False),
    "AdamW, fused": adamw(fused=True),
}


def optimizers_by_format(table, device):
    count, sides = (16, 256) if device == "cuda" else (2, 128)
    last = torch.channels_last
    for name, make in {**METHODS, "AdamW": ADAMW["AdamW"]}.items():
        values = {}
        for kind in ("contiguous", "channels_last", "gradients alone"):
            params = parameters_of([(sides, sides, 3, 3)] * count, device)
            for p in params:
                if kind == "channels_last":
                    p.data = p.data.contiguous(memory_format=last)
                if kind != "contiguous":
                    p.grad = p.grad.contiguous(memory_format=last)
            optimizer = make(params, 1e-4)
            optimizer.step()
            optimizer.step()
            values[f"{kind}, ms"] = milliseconds(device, optimizer.step, 2)
        table.tell(f"formats: {count} x ({sides}, {sides}, 3, 3)", name, **values)


def layers_by_format(table, device):
    samples, channels, side = (64, 128, 28) if device == "cuda" else (16, 32, 16)
    size = (samples, channels, side, side)
    a, g = (torch.randn(size, device=device) for _ in range(2))
    last = [t.contiguous(memory_format=torch.channels_last) for t in (a, g)]
    widths = (512, 256)
    turned = [torch.randn(64, samples, w, device=device).transpose(0, 1) for w in widths]
    kernel = {"kind": "convolution", "kernel_size": 3, "padding": 1}
    calls = {
        "sample_grad, gradient": lambda *t, **k: gram.sample_grad(*t, **k, output="gradient"),
        "sample_grad, norm": lambda *t, **k: gram.sample_grad(*t, **k, output="norm"),
        "kfac_factors": lambda *t, **k: gram.kfac_factors(*t, **k),
    }
    kinds = {
        f"convolution {size}": ((a, g), last, kernel),
        "linear, 64 positions": ([t.contiguous() for t in turned], turned, {"kind": "linear"}),
    }
    for (kind, (plain, other, options)), (name, call) in itertools.product(
        kinds.items(), calls.items()
    ):
        def copied(call=call, other=other, options=options):
            return call(*(t.contiguous() for t in other), **options)

        ways = {
            "contiguous": lambda c=call, p=plain, o=options: c(*p, **o),
            "strided": lambda c=call, p=other, o=options: c(*p, **o),
            "copied first": copied,
        }
        values = {f"{way}, ms": milliseconds(device, work, 3) for way, work in ways.items()}
        if device == "cuda":
            values |= {f"{way}, MiB": peak_mib(device, work) for way, work in ways.items()}
        table.tell("formats, layers", f"{name}, {kind}", **values)


def formats(table, device):
    layers_by_format(table, device)
    optimizers_by_format(table, device)


# ---- Batching -----------------------------------------------------------------------------------


def together(table, device):
    """One optimizer of all parameters, and one for every parameter."""
    shapes = {
        "cuda": {"48 x (512, 512)": [(512, 512)] * 48, "300 x (64, 64)": [(64, 64)] * 300,
                 "600 x (256,)": [(256,)] * 600},
        "cpu": {"12 x (128, 128)": [(128, 128)] * 12, "300 x (16, 16)": [(16, 16)] * 300,
                "600 x (256,)": [(256,)] * 600},
    }[device]  # fmt: skip
    methods = {**METHODS, "Shampoo, roots by minimax": shampoo(refresh=1), **ADAMW}
    methods["Shampoo, roots by eigh"] = shampoo(refresh=1, root="eigh")
    for (size, wanted), (name, make) in itertools.product(shapes.items(), methods.items()):
        if name == "Shampoo, merged, no roots":
            continue
        params = parameters_of(wanted, device)
        values = {"one, ms": milliseconds(device, make(params, 1e-4).step, 2, 3)}
        if "eigh" not in name:
            many = [make([p], 1e-4) for p in params]

            def each(many=many):
                for optimizer in many:
                    optimizer.step()

            values["one a parameter, ms"] = milliseconds(device, each, 1, 1)
        else:
            values["one a parameter, ms"] = ""
        table.tell("batching: optimizers", f"{name}, {size}", **values)


def batches(table, device):
    """One call for a batch of matrices, and one for every matrix."""
    count, orders = (64, (64, 512)) if device == "cuda" else (64, (32, 128))
    for n in orders:
        g = torch.randn(count, n, n, device=device)
        spd = g @ g.mT / n
        many = [m.clone() for m in spd]
        calls = {
            "matrix_power, minimax": lambda m: gram.matrix_power(
                m, -1, 4, method="minimax", ridge=1e-6, ridge_relative=True
            ),
            "matrix_power, eigh": lambda m: gram.matrix_power(
                m, -1, 4, method="eigh", ridge=1e-6, ridge_relative=True
            ),
            "matmul_batched": lambda m: gram.matmul_batched(m, m),
            "syrk_ema": lambda m: gram.syrk_ema(m, torch.zeros_like(m)),
        }
        for name, call in calls.items():
            values = {
                "one call, ms": milliseconds(device, lambda c=call, b=spd: c(b), 1, 3),
                "one a matrix, ms": milliseconds(
                    device, lambda c=call, b=many: [c(m) for m in b], 1, 3
                ),
            }
            table.tell("batching: matrices", f"{name}, {count} of order {n}", **values)


def batching(table, device):
    batches(table, device)
    together(table, device)


PARTS = {"precision": precision, "blocks": blocks, "formats": formats, "batching": batching}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=list(SIZES), default="cuda")
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--threads", type=int, default=0, help="of the CPU (as many as it has)")
    parser.add_argument("--json")
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
        gram.set_threads(given.threads)
    where = torch.cuda.get_device_name() if given.device == "cuda" else "the CPU"
    print(f"PyTorch {torch.__version__}, {where}, {gram.get_threads()} threads")
    table = Table()
    for part in given.part:
        PARTS[part](table, given.device)
    if given.json:
        facts = {"torch": torch.__version__, "device": where, "rows": table.rows}
        pathlib.Path(given.json).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
