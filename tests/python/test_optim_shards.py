"""test_optim_shards.py - gram.optim on parameters of fully_shard, as if they were whole

Over gloo, with processes on one CPU. Skipped without a PyTorch that has fully_shard.
"""

import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch", minversion="2.6.0a0")

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("no gloo", allow_module_level=True)

BEGIN = """
    import copy, os, sys, torch, gram.optim
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    rank, ranks, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet{ranks}", rank=rank, world_size=ranks)
    lines = init_device_mesh("cpu", (ranks,))
    grids = init_device_mesh("cpu", (1, ranks), mesh_dim_names=("replicas", "shards"))

    def leave():
        torch.distributed.barrier()
        sys.stdout.flush()
        os._exit(0)

    def layers(method):
        torch.manual_seed(0)
        if "KFAC" in method:
            return torch.nn.Sequential(
                torch.nn.Conv1d(1, 1, 3), torch.nn.Flatten(), torch.nn.Linear(4, 5),
                torch.nn.Tanh(), torch.nn.Linear(5, 3), torch.nn.LayerNorm(3)).double()
        made = torch.nn.Sequential(
            torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3), torch.nn.LayerNorm(3))
        return made if method == "Shampoo" else made.double()

    def shard(model, method):
        mesh = grids if method == "Muon" else lines
        for layer in model:
            if list(layer.parameters()):
                fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    def optimizer_of(method, model):
        if "KFAC" in method:
            others = "adamw" if method == "KFAC" else "sgd"
            return getattr(gram.optim, method)(
                model, lr=0.05, kl_clip=0, refresh_every=2, others=others)
        options = {"refresh": 2, "block": 4} if method == "Shampoo" else {}
        return getattr(gram.optim, method)(model.parameters(), lr=0.05, **options)

    def loss(model, method, step, rows):
        torch.manual_seed(step)
        if "KFAC" not in method:
            x = torch.randn(8, 6)
            return model(x if method == "Shampoo" else x.double()).square().mean()
        x, y = torch.randn(12, 1, 6).double(), torch.randint(3, (12,))
        return torch.nn.functional.cross_entropy(model(x[rows]), y[rows])

    def share():
        return slice(12 // ranks * rank, 12 // ranks * (rank + 1))

    def move(model, optimizer, method, step):
        optimizer.zero_grad()
        loss(model, method, step, share()).backward()
        optimizer.step()

    def whole(model):
        return [p.full_tensor().detach() for p in model.parameters()]

    def parts(model, optimizer):
        return {"model": dict(model.named_parameters()), "optimizer": optimizer}

    def resumed(method):
        model = shard(layers(method), method)
        optimizer = optimizer_of(method, model)
        dcp.load(parts(model, optimizer), checkpoint_id=f"{folder}/{method}")
        for step in range(3, 6):
            move(model, optimizer, method, step)
        return whole(model)

    METHODS = "Shampoo SOAP Muon KFAC EKFAC".split()
"""

TRAIN = """
    def train(method):
        plain = layers(method)
        model = shard(copy.deepcopy(plain), method)
        optimizer, other = optimizer_of(method, model), optimizer_of(method, plain)
        for step in range(6):
            move(model, optimizer, method, step)
            other.zero_grad()
            loss(plain, method, step, slice(12)).backward()
            if "KFAC" not in method:  # those of fully_shard differ by rounding
                for p, q in zip(model.parameters(), plain.parameters()):
                    q.grad.copy_(p.grad.full_tensor())
            other.step()
            for p, q in zip(whole(model), plain.parameters()):
                if "KFAC" in method:
                    torch.testing.assert_close(p, q.detach(), rtol=1e-8, atol=1e-10)
                else:
                    assert torch.equal(p, q), (method, step)
            if step == 2:
                dcp.save(parts(model, optimizer), checkpoint_id=f"{folder}/{method}")
        if rank == 0:
            torch.save(whole(model), f"{folder}/{method}.pt")
        else:
            whole(model)
        return model, optimizer, other, plain

    for method in METHODS:
        model, optimizer, other, plain = train(method)
        final = whole(model)
        for p, q in zip(resumed(method), final):
            assert torch.equal(p, q), method
        if "KFAC" in method:
            continue
        mine = sum(t.numel() for s in optimizer.state_dict()["state"].values() for t in s.values())
        middle = optimizer.consolidated_state_dict()
        all_of_it = sum(t.numel() for s in middle["state"].values() for t in s.values())
        assert 0 < mine < all_of_it, (mine, all_of_it)
        # What was sharded goes on whole, and what was whole sharded.
        again = optimizer_of(method, plain)
        again.load_state_dict(middle)
        optimizer.load_state_dict(other.state_dict())
        move(model, optimizer, method, 9)
        for p, q in zip(model.parameters(), plain.parameters()):
            q.grad.copy_(p.grad.full_tensor())
        again.step()
        for p, q in zip(whole(model), plain.parameters()):
            assert torch.equal(p, q), method
    print("trained")

    # What is wrong on one rank is raised on all, and changes nothing.
    before = whole(model)
    model = shard(layers("Shampoo"), "Shampoo")
    optimizer = gram.optim.Shampoo(model.parameters(), not_finite="raise")
    loss(model, "Shampoo", 0, None).backward()
    before = whole(model)
    for p in model.parameters():
        p.grad.to_local().fill_(float("nan"))
        break
    try:
        optimizer.step()
    except (gram.LinAlgError, RuntimeError) as e:
        print("refused", type(e).__name__)
    assert all(torch.equal(p, q) for p, q in zip(whole(model), before))
    try:
        gram.optim.Muon(
            model.parameters(), process_group=torch.distributed.group.WORLD).state_dict()
    except ValueError as e:
        print("refused", e)
    from torch.distributed.tensor import Shard, distribute_tensor
    square = torch.nn.Parameter(distribute_tensor(torch.ones(4, 4), grids, [Shard(1), Shard(0)]))
    square.grad = torch.zeros_like(square)
    try:
        gram.optim.Muon([square]).step()
    except NotImplementedError as e:
        print("refused", e)
    leave()
"""

RESUME = """
    for method in METHODS:
        for p, q in zip(resumed(method), torch.load(f"{folder}/{method}.pt")):
            torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5, msg=method)
    print("resumed")
    leave()
"""


def run(text, ranks, folder):
    """What the ranks of a script print."""
    script = folder / f"rank{ranks}.py"
    script.write_text(textwrap.dedent(BEGIN) + textwrap.dedent(text))
    work = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(ranks), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    outputs = [process.communicate(timeout=600)[0] for process in work]
    assert [process.returncode for process in work] == [0] * ranks, "\n".join(outputs)
    return outputs


def test_shards_are_stepped_as_whole_parameters(tmp_path):
    """Two ranks give the bits of one that has whole parameters, go on from a checkpoint, and so do
    three."""
    outputs = run(TRAIN, 2, tmp_path)
    assert all("trained" in output for output in outputs)
    assert all("process_group is given" in output for output in outputs)
    assert all("expected one Shard and else" in output for output in outputs)
    raised = sorted(line for output in outputs for line in output.split("\n") if "Error" in line)
    assert raised == ["refused LinAlgError", "refused RuntimeError"]
    assert all("resumed" in output for output in run(RESUME, 3, tmp_path))
