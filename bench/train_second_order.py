"""train_second_order.py - training curves of gram.optim beside AdamW, as CSV and as pictures

  bench/train_second_order.py tune [--task NAME ...] [--method NAME ...] -o TRIALS.csv
  bench/train_second_order.py curves TRIALS.csv -o CURVES.csv
  bench/train_second_order.py report CURVES.csv                        a table in Markdown
  bench/train_second_order.py plot CURVES.csv -o second-order

Tasks: "mlp" and "conv" learn scikit-learn's handwritten digits, "text" predicts the next letter of
this project's own documents.  Every method sees the same batches from the same weights; its rates
rise in a line and then fall to 0 in one.

tune tries as many settings for every method: rates, betas, weight decay, the length of the rise and
what else the method has, drawn at random from its space.  AdamW's are judged by the last loss of
the full schedule, the others' by that of 60 % of it: all of them with one seed, the best with two
more, and what is chosen has the lowest median.  curves then trains the chosen ones with new seeds:
AdamW on the full schedule and on 60 % of it, the others on 40 to 60 %.  The loss is that of a fixed
set of training samples.  A trial's setting is made from its number, so files hold numbers alone.
"""

import argparse
import csv
import functools
import io
import itertools
import math
import multiprocessing
import os
import random
import statistics

import torch
from second_order_tasks import METHODS, TASKS

import gram.optim

FIELDS = ["task", "method", "trial", "seed", "steps", "step", "loss"]
SHARES = [0.4, 0.5, 0.6]
SEEDS, BEST = 3, 3  # seeds of tuning, and how many settings see all of them


# ---- Training -----------------------------------------------------------------------------------


def setting(name, method, trial):
    """The rise of the rate as a share of the steps, options, and what makes the optimizers."""
    r = random.Random(f"{name} {METHODS[method][0].__name__} {trial}")
    return r.choice((0.02, 0.05, 0.1, 0.2)), *METHODS[method][0](r, TASKS[name][1])


@functools.cache
def task(name):
    torch.set_num_threads(1)
    gram.set_threads(1)
    return TASKS[name][0]()


def train(name, method, trial, seed, steps, every):
    """The losses, as (step, loss), every so many steps."""
    data, (warm, _, make) = task(name), setting(name, method, trial)
    torch.manual_seed(seed)
    model, generator = data.model(), torch.Generator().manual_seed(seed)
    optimizers = make(model)
    groups = [group for o in optimizers for group in o.param_groups]
    highest, rise = [group["lr"] for group in groups], max(1, round(warm * steps))
    held, curve = data.held(), []
    for step in range(steps + 1):
        if step % every == 0 or step == steps:
            with torch.no_grad():
                curve.append((step, data.loss(model(held[0]), held[1]).item()))
        if step == steps or not math.isfinite(curve[-1][1]):
            return curve
        x, y = data.draw(generator)
        share = min((step + 1) / rise, (steps - step) / (steps - rise))
        for group, most in zip(groups, highest, strict=True):
            group["lr"] = most * share
        for o in optimizers:
            o.zero_grad()
        outputs = model(x)
        for o in optimizers:
            if isinstance(o, gram.optim.KFAC):
                o.curvature(outputs)
        data.loss(outputs, y).backward()
        for o in optimizers:
            o.step()


def job(name, method, trial, seed, steps, every):
    try:
        return name, method, trial, seed, steps, train(name, method, trial, seed, steps, every)
    except gram.LinAlgError:  # gradients overflow: the rate is too high
        return name, method, trial, seed, steps, [(steps, math.inf)]


def last(curve):
    return curve[-1][1] if math.isfinite(curve[-1][1]) else math.inf


def spawn(jobs, processes, path):
    """Does jobs in processes and appends their curves to a file as they come."""
    new = not os.path.exists(path)
    with multiprocessing.get_context("spawn").Pool(processes) as pool, open(path, "a") as file:
        if new:
            file.write(",".join(FIELDS) + "\n")
        for *what, curve in pool.imap_unordered(star, jobs):
            for step, loss in curve:
                file.write(",".join(map(str, [*what, step, f"{loss:.4g}"])) + "\n")
            file.flush()


def star(arguments):
    return job(*arguments)


def tune(arguments):
    """Last losses of all trials with seed 0, then of the best of them with two seeds more."""
    pairs = list(itertools.product(arguments.task, arguments.method))
    steps = {pair: round(METHODS[pair[1]][1] * TASKS[pair[0]][2]) for pair in pairs}
    done = trials(arguments.output)
    for seeds, count in ((1, arguments.trials), (SEEDS, BEST)):
        jobs = []
        for pair in pairs:
            of = done.get(pair, {})
            order = sorted(range(arguments.trials), key=lambda t: of[t][0] if seeds > 1 else t)
            jobs += [
                (*pair, t, seed, steps[pair], steps[pair])
                for t in order[:count]
                for seed in range(seeds)
                if seed not in of.get(t, {})
            ]
        jobs.sort(key=lambda j: (j[2], j[0]))
        spawn(jobs, arguments.processes, arguments.output)
        done = trials(arguments.output)


def trials(path):
    """{(task, method): {trial: {seed: last loss}}}"""
    found = {}
    for (name, method, trial, seed, _), curve in read([path]).items():
        found.setdefault((name, method), {}).setdefault(trial, {})[seed] = last(curve)
    return found


def chosen(path):
    """{(task, method): trial}: the lowest median among those that most seeds have tried."""
    return {
        pair: min(of, key=lambda t: (-len(of[t]), statistics.median(of[t].values())))
        for pair, of in trials(path).items()
    }


def curves(arguments):
    """Schedules of shares of the steps with new seeds, of what was chosen."""
    jobs = []
    for (name, method), trial in chosen(arguments.trials).items():
        steps = TASKS[name][2]
        for share in [0.6, 1.0] if method == "adamw" else SHARES:
            for seed in range(SEEDS, SEEDS + arguments.seeds):
                jobs.append((name, method, trial, seed, round(share * steps), steps // 30))
    jobs.sort(key=lambda j: (-j[4] / TASKS[j[0]][2], j[0]))
    spawn(jobs, arguments.processes, arguments.output)


# ---- Reports and pictures -----------------------------------------------------------------------


def read(paths):
    """{(task, method, trial, seed, steps): [(step, loss)]}"""
    found = {}
    for path in paths:
        if os.path.exists(path):
            with open(path, newline="") as file:
                for row in csv.DictReader(file):
                    key = row["task"], row["method"], *(int(row[f]) for f in FIELDS[2:5])
                    found.setdefault(key, []).append((int(row["step"]), float(row["loss"])))
    return found


def grouped(path):
    """{task: {method: (trial, {steps: [curve of a seed]})}}"""
    tasks = {}
    for (name, method, trial, _, steps), curve in sorted(read([path]).items()):
        _, runs = tasks.setdefault(name, {}).setdefault(method, (trial, {}))
        runs.setdefault(steps, []).append(curve)
    return {n: {m: tasks[n][m] for m in METHODS if m in tasks[n]} for n in TASKS if n in tasks}


def final(curves):
    """The last loss, the median of the seeds."""
    return statistics.median(last(curve) for curve in curves)


def shortest(runs, goal):
    """The fewest steps of a schedule that ends at that loss or lower; None: none does."""
    return next((steps for steps in sorted(runs) if final(runs[steps]) <= goal), None)


def report(arguments):
    print("| task | method | last loss at 60 % | full | shortest schedule to AdamW's | setting |")
    print("|---|---|---|---|---|---|")
    for name, methods in grouped(arguments.curves).items():
        most = TASKS[name][2]
        goal = final(methods["adamw"][1][most])
        for method, (trial, runs) in methods.items():
            at = shortest(runs, goal)
            warm, options, _ = setting(name, method, trial)
            shown = (round(0.6 * most), most)
            line = [name, method, *(f"{final(runs[n]):.3g}" if n in runs else "" for n in shown)]
            line.append("none" if at is None else f"{at} ({100 * at / most:.0f} %)")
            line.append(", ".join(f"{k} {v}" for k, v in {"rise": warm, **options}.items()))
            print(f"| {' | '.join(line)} |")


def draw(name, methods, path):
    from matplotlib import pyplot

    import gram.plot

    figure, axes = pyplot.subplots(figsize=(6, 4))
    most = TASKS[name][2]
    goal, shown = final(methods["adamw"][1][most]), {}
    for method, (_, runs) in methods.items():
        steps = shortest(runs, goal) or max(runs)
        shown[f"{method}, {steps} steps"] = [
            (points[0][0], statistics.median(loss for _, loss in points))
            for points in zip(*runs[steps], strict=False)
        ]
    gram.plot.training(shown, axes)
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
    for name, methods in grouped(arguments.curves).items():
        draw(name, methods, f"{arguments.output}-{name}.svg")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    tuning = commands.add_parser("tune")
    tuning.add_argument("--task", nargs="+", choices=list(TASKS), default=list(TASKS))
    tuning.add_argument("--method", nargs="+", choices=list(METHODS), default=list(METHODS))
    tuning.add_argument("--trials", type=int, default=40)
    training = commands.add_parser("curves")
    training.add_argument("trials")
    training.add_argument("--seeds", type=int, default=3)
    for command, function in ((tuning, tune), (training, curves)):
        command.add_argument("--processes", type=int, default=os.cpu_count())
        command.add_argument("-o", "--output", required=True)
        command.set_defaults(run=function)
    reporting = commands.add_parser("report")
    reporting.add_argument("curves")
    reporting.set_defaults(run=report)
    plotting = commands.add_parser("plot")
    plotting.add_argument("curves")
    plotting.add_argument("-o", "--output", required=True)
    plotting.set_defaults(run=plot)
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
