"""test_optim_ranks.py - two ranks of torch.distributed share the work of gram.optim

On the CPU over gloo, on two GPUs over NCCL. Skipped without PyTorch 1.13, or where these are not.
"""

import contextlib
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch", minversion="1.13.0a0")

import gram.optim  # noqa: E402

RANK = """
    import sys, torch, gram.optim
    rank, ranks, folder, method = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    backend = sys.argv[5]
    where = torch.device("cpu")
    if backend == "nccl":
        where = torch.device("cuda", rank)
        torch.cuda.set_device(where)
        torch.set_default_device(where)
    torch.distributed.init_process_group(
        backend, init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3),
        torch.nn.Linear(3, 3).double())
    options = {"block": 4, "merge": False, "eps": 1e-4} if method == "Shampoo" else {}
    optimizer = getattr(gram.optim, method)(
        model.parameters(), lr=0.05, process_group=torch.distributed.group.WORLD, **options)
    wide = torch.nn.parallel.DistributedDataParallel(model[:3])
    for step in range(6):
        optimizer.zero_grad()
        torch.manual_seed(100 * step + rank)
        (wide(torch.randn(8, 6)).square().mean()).backward()
        torch.manual_seed(step)
        model[3](torch.randn(8, 3).double()).square().mean().backward()
        if step == 3:
            model[0].bias.grad = None
        optimizer.step()
        if step == 3:
            middle = optimizer.consolidated_state_dict()
            weights = {k: v.clone() for k, v in model.state_dict().items()}
            mine = sum(t.numel() for s in optimizer.state_dict()["state"].values()
                       for t in s.values())
            whole = sum(t.numel() for s in middle["state"].values() for t in s.values())
            assert mine < whole or ranks == 1, (mine, whole)
    torch.save([model.state_dict(), middle, weights], f"{folder}/{method}.{ranks}.{rank}")
    optimizer = getattr(gram.optim, method)(
        model.parameters(), lr=0.05, process_group=torch.distributed.group.WORLD, **options)
    optimizer.load_state_dict(middle)
    model.load_state_dict(weights)
    for step in range(4, 6):
        optimizer.zero_grad()
        torch.manual_seed(100 * step + rank)
        (wide(torch.randn(8, 6)).square().mean()).backward()
        torch.manual_seed(step)
        model[3](torch.randn(8, 3).double()).square().mean().backward()
        optimizer.step()
    final = torch.load(f"{folder}/{method}.{ranks}.{rank}", map_location=where)[0]
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, final[name]), name
    if rank == 1:
        optimizer.param_groups[0]["weight_decay"] = float("nan")
    optimizer.zero_grad()
    model[3](torch.randn(8, 3).double()).square().mean().backward()
    try:
        optimizer.step()
    except (ValueError, RuntimeError) as e:
        print("refused", e)
    leave()
"""


KFAC = """
    import sys, torch, gram.optim
    rank, ranks, folder, method = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    backend = sys.argv[5]
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
    where = torch.device("cpu")
    if backend == "nccl":
        where = torch.device("cuda", rank)
        torch.cuda.set_device(where)
    model.to(where)
    group, wide = None, model
    if ranks > 1:
        torch.distributed.init_process_group(
            backend, init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
        group = torch.distributed.group.WORLD
        wide = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = getattr(gram.optim, method)(
        model, lr=0.05, kl_clip=0, refresh_every=3, process_group=group)
    def move(step, spoil=False):
        x, y = torch.randn(16, 6), torch.randint(3, (16,))
        mine = slice(8 * rank, 8 * rank + 8) if ranks > 1 else slice(16)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(
            wide(x[mine].to(where)), y[mine].to(where)).backward()
        if spoil:
            optimizer._learn = None
        optimizer.step()
    for step in range(8):
        move(step)
    torch.save(model.state_dict(), f"{folder}/{method}.{ranks}.{rank}")
    if ranks > 1:
        try:
            move(8, rank == 1)
        except (TypeError, RuntimeError) as e:
            print("refused", e)
        leave()
"""

# Threads of Gloo abort a process now and then that ends while they run ("terminate called without
# an active exception"), after all that is tested here.
LEAVE = """
    import os
    def leave():
        torch.distributed.barrier()
        sys.stdout.flush()
        os._exit(0)
"""


def run(text, ranks, folder, name, backend="gloo"):
    """What the ranks of a script print."""
    script = folder / "rank.py"
    script.write_text(textwrap.dedent(LEAVE) + textwrap.dedent(text))
    work = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(ranks), str(folder), name, backend],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    outputs = [process.communicate(timeout=600)[0] for process in work]
    assert [process.returncode for process in work] == [0] * ranks, outputs
    return outputs


def is_here(backend):
    if not torch.distributed.is_available():
        return False
    if backend == "gloo":
        return torch.distributed.is_gloo_available()
    return torch.distributed.is_nccl_available() and torch.cuda.device_count() > 1


@pytest.mark.parametrize("name", ["KFAC", "EKFAC"])
@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_two_ranks_average_their_factors(name, backend, tmp_path):
    """Two ranks give the parameters of one that has all samples; trouble on one is raised on
    both."""
    if not is_here(backend):
        pytest.skip(f"no {backend}, or not two GPUs for it")
    assert all("refused" in output for output in run(KFAC, 2, tmp_path, name, backend))
    run(KFAC, 1, tmp_path, name)
    expected = torch.load(tmp_path / f"{name}.1.0")
    for rank in range(2):
        found = torch.load(tmp_path / f"{name}.2.{rank}", map_location="cpu")
        for key, tensor in found.items():
            torch.testing.assert_close(tensor, expected[key], rtol=1e-4, atol=1e-5, msg=key)


@pytest.mark.parametrize("name", ["Shampoo", "SOAP", "Muon"])
@pytest.mark.parametrize("backend", ["gloo", "nccl"])
def test_two_ranks_share_the_work(name, backend, tmp_path):
    """Two ranks give the parameters of one that has the mean of their gradients; a checkpoint of
    both goes on; trouble on one is raised on both."""
    if not is_here(backend):
        pytest.skip(f"no {backend}, or not two GPUs for it")
    assert all("refused" in output for output in run(RANK, 2, tmp_path, name, backend))
    results = [torch.load(tmp_path / f"{name}.2.{rank}", map_location="cpu") for rank in range(2)]
    for key, tensor in results[0][0].items():
        assert torch.equal(tensor, results[1][0][key]), key
    with torch.device("cuda") if backend == "nccl" else contextlib.nullcontext():
        expected = {key: tensor.cpu() for key, tensor in alone(name, 6).items()}
    for key, tensor in results[0][0].items():
        torch.testing.assert_close(tensor, expected[key], rtol=1e-4, atol=1e-5, msg=key)


def alone(name, steps):
    """What the ranks do, by one process with the mean of their gradients."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3),
        torch.nn.Linear(3, 3).double(),
    )  # fmt: skip
    options = {"block": 4, "merge": False, "eps": 1e-4} if name == "Shampoo" else {}
    optimizer = getattr(gram.optim, name)(model.parameters(), lr=0.05, **options)
    for step in range(steps):
        optimizer.zero_grad()
        for rank in range(2):
            torch.manual_seed(100 * step + rank)
            (model[:3](torch.randn(8, 6)).square().mean() / 2).backward()
        torch.manual_seed(step)
        model[3](torch.randn(8, 3).double()).square().mean().backward()
        if step == 3:
            model[0].bias.grad = None
        optimizer.step()
    return model.state_dict()
