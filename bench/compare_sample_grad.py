"""Norms and gradients of samples beside torch.func.vmap(grad): time and memory.

    python bench/compare_sample_grad.py [--device cuda] [--repeats 5] [--threads 1] [--json FILE]

Every measurement is a process of its own, with the library and PyTorch on the same number of
threads: the best time of the repeats after one to warm up (also of the processor's time, which on
one thread says more where others use the machine), and the growth of the process's peak
resident memory over what it was before the first call (with model and data in place), so that the
forward pass and what it keeps are in it.  On CUDA the time is that of a call with what it has
queued, and the memory what PyTorch's allocator had more at the peak than before, which is where
gram's scratch comes from too; norms are also taken a part of the samples at a time, and from a
graph that holds the whole call.  "torch alone" is a plain forward and backward pass, "torch least"
one that makes no gradient of a weight: what norms cannot do without.  Both ways' norms are compared
first.
"""

import argparse
import functools
import gc
import json
import resource
import statistics
import subprocess
import sys
import time

WAYS = ("gram norms", "vmap norms", "gram gradients", "vmap gradients")
CUDA_WAYS = (
    *WAYS, "gram norms parts", "vmap norms parts", "gram norms graph", "vmap norms graph",
    "torch alone", "torch least",
)  # fmt: skip
PARTS = 2


def models(device):
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
    convolutions = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    blocks = [(256, 64, 32), (512, 32, 16)]
    if device == "cuda":
        blocks += [(256, 64, 256), (768, 128, 64), (1024, 64, 64)]
    found = {}
    for n in (64, 1024) if device == "cuda" else (64,):
        images, classes = torch.randn(n, 3, 32, 32), torch.arange(n) % 10
        name = f"3 convolutions, 32 x 32, {n} samples"
        found[name] = convolutions, F.cross_entropy, images, classes
    for width, words, n in blocks:
        x, y = torch.randn(n, words, width), torch.randn(n, words, width)
        name = f"transformer block, width {width}, {words} words, {n} samples"
        found[name] = Block(width, width // 64), F.mse_loss, x, y
    return {
        name: (model.to(device), loss, x.to(device), y.to(device))
        for name, (model, loss, x, y) in found.items()
    }


def run(way, problem):
    import gram.torch as gt

    who, what, *more = way.split()
    if who == "torch":
        return plain_pass(*problem, least=what == "least")
    method = "layers" if who == "gram" else "func"
    call = gt.per_sample_norms if what == "norms" else gt.per_sample_gradients
    chunk = -(-problem[2].shape[0] // PARTS) if more == ["parts"] else None
    return call(*problem, method=method, chunk=chunk)


def plain_pass(model, loss, x, y, least):
    """What both ways need, without a gradient of a sample."""
    if not least:
        return loss(model(x), y).backward()
    model.requires_grad_(False)
    try:
        loss(model(x.detach().requires_grad_()), y).backward()
    finally:
        model.requires_grad_(True)


def captured(way, problem):
    """The call as one launch of a graph, and its result."""
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run(way, problem)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run(way, problem)

    def replay():
        graph.replay()
        return found

    return replay


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def measure(way, name, repeats, threads):
    import gram
    import gram.torch as gt
    import torch

    if threads:
        gram.set_threads(threads)
    torch.set_num_threads(gram.get_threads())
    problem = models("cpu")[name]
    few = (*problem[:2], problem[2][:1], problem[3][:1])
    # what is loaded and kept once, whatever the batch
    gt.per_sample_norms(*few, method="layers" if way.startswith("gram") else "func")
    before = resident()
    found = run(way, problem)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    norms = found.tolist() if way.endswith("norms") else None
    del found
    times = []
    for _ in range(repeats):
        start = time.perf_counter(), time.process_time()
        run(way, problem)
        times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    wall, processor = (min(t) * 1e3 for t in zip(*times, strict=True))
    print(json.dumps({"ms": wall, "cpu_ms": processor, "mib": peak / 2**20, "norms": norms}))


def measure_cuda(way, problem, repeats):
    import torch

    call = functools.partial(run, way, problem)
    call()
    torch.cuda.synchronize()
    gc.collect()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    if way.endswith("graph"):
        call = captured(way, problem)
    found = call()
    torch.cuda.synchronize()
    row = {"mib": (torch.cuda.max_memory_allocated() - before) / 2**20}
    if "norms" in way:
        row["norms"] = found.tolist()
    del found
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        found = call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        del found
    return {"ms": statistics.median(times) * 1e3, **row}


def measure_apart(way, name, args):
    """In a process of its own."""
    options = ["--repeats", str(args.repeats), "--threads", str(args.threads)]
    command = [sys.executable, __file__, *options, "--one", way, name]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json")
    parser.add_argument("--one", nargs=2)
    args = parser.parse_args()
    if args.one:
        measure(*args.one, args.repeats, args.threads)
        return
    results = {}
    on_gpu = args.device == "cuda"
    for name, problem in models(args.device).items():
        results[name] = rows = {}
        for way in CUDA_WAYS if on_gpu else WAYS:
            measured = measure_cuda(way, problem, args.repeats) if on_gpu else None
            rows[way] = measured or measure_apart(way, name, args)
        want = rows["vmap norms"]["norms"]
        norms = [row.pop("norms") for row in rows.values() if "norms" in row]
        worst = max(abs(a - b) / b for each in norms for a, b in zip(each, want, strict=True))
        print(f"{name}: norms agree to {worst:.1e}")
        for way, row in rows.items():
            processor = f" {row['cpu_ms']:9.1f} CPU ms" if "cpu_ms" in row else ""
            print(f"  {way:18} {row['ms']:9.2f} ms{processor} {row['mib']:9.1f} MiB")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(results, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
