"""compare_optimizers.py - time of a step of SOAP and Muon on the CPU, beside other packages

    compare_optimizers.py BENCH_OPTIMIZER [--steps 40] [--json FILE]

BENCH_OPTIMIZER is build/tests/bench_optimizer.  The others run in this process: SOAP of
pytorch_optimizer and Muon of torch.optim, both f32 with torch's threads.  Rounds alternate, so that
what else the machine does meets all of them; `cpu` is the processor's time, with --threads 1 the
figure that other work on the machine changes least.
"""

import argparse
import json
import os
import statistics
import subprocess
import time

import torch

CASES = {
    "1024x1024": [(1024, 1024)],
    # qkv, output, both of the network, and their biases and norms: GPT-2's layer
    "layer of width 768": [(2304, 768), (768, 768), (3072, 768), (768, 3072), (2304,), (768,),
                           (3072,), (768,), (768,), (768,), (768,), (768,)],
}  # fmt: skip


def torch_soap(parameters):
    import pytorch_optimizer

    return pytorch_optimizer.SOAP(parameters, precondition_frequency=10)


def torch_muon(parameters):
    return torch.optim.Muon([p for p in parameters if p.ndim == 2], lr=0.02)


OTHERS = {"soap": torch_soap, "muon": torch_muon}


def time_other(make, shapes, steps):
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.rand(s) - 0.5) for s in shapes]
    for p in parameters:
        p.grad = torch.rand_like(p) - 0.5
    optimizer = make(parameters)
    times = []
    for i in range(steps + 1):
        if i == 1:
            busy = time.process_time()
        start = time.perf_counter()
        optimizer.step()
        times.append((time.perf_counter() - start) * 1e3)
    busy = (time.process_time() - busy) * 1e3 / steps
    return {"first": times[0], **summary(times[1:]), "cpu": busy}


def summary(times):
    return {"median": statistics.median(times), "least": min(times), "most": max(times),
            "mean": statistics.fmean(times)}  # fmt: skip


def time_gram(program, method, shapes, steps):
    if method == "muon":
        shapes = [s for s in shapes if len(s) == 2]
    texts = ["x".join(map(str, s)) for s in shapes]
    command = [program, method, "10", str(steps), *texts]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="of both; 0: as they like")
    parser.add_argument("--case", choices=list(CASES))
    parser.add_argument("--json")
    arguments = parser.parse_args()
    if arguments.threads > 0:
        torch.set_num_threads(arguments.threads)
        os.environ["GRAM_NUM_THREADS"] = str(arguments.threads)
    rows = []
    for case, shapes in CASES.items():
        if arguments.case not in (None, case):
            continue
        for method, other in OTHERS.items():
            best = {}
            for _ in range(arguments.rounds):
                runs = {
                    "gram": time_gram(arguments.program, method, shapes, arguments.steps),
                    "torch": time_other(other, shapes, arguments.steps),
                }
                for name, run in runs.items():
                    if name not in best or run["mean"] < best[name]["mean"]:
                        best[name] = run
            for name, run in best.items():
                rows.append({"case": case, "method": method, "package": name, **run})
                print(f"{case:20} {method:5} {name:6} first {run['first']:8.1f}  "
                      f"median {run['median']:8.1f}  mean {run['mean']:8.1f}  "
                      f"most {run['most']:8.1f}  cpu {run['cpu']:8.1f} ms", flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"torch": torch.__version__, "threads": torch.get_num_threads(),
                       "rows": rows}, file, indent=1)  # fmt: skip


if __name__ == "__main__":
    main()
