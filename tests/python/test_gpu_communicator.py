"""test_gpu_communicator.py - gram.kron_matmul_multi over NCCL: one thread and one GPU per rank"""

import functools
import threading

import gram
import numpy as np
import pytest

RNG = np.random.default_rng(13)
FACTORS = [RNG.normal(size=size) for size in [(2, 3), (4, 1), (3, 2)]]
KRON = functools.reduce(np.kron, FACTORS)  # 24 by 6


@pytest.fixture(name="torch")
def fixture_torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or len(gram.devices()) < 2:
        pytest.skip("no GPU")
    try:
        gram.nccl_id()
    except NotImplementedError as e:
        pytest.skip(str(e))
    return torch


def products(torch, ranks, device, x, stream):
    """The parts of this rank, by rows and by columns, of what stream works on."""
    found = []
    with torch.cuda.stream(stream):
        for split in ("rows", "columns"):
            part = gram.kron_matmul_part(len(x), FACTORS, ranks, split=split)
            mine = torch.from_numpy(x).to(device)[part.rows, part.columns]
            factors = [torch.from_numpy(f).to(device) for f in FACTORS]
            y = gram.kron_matmul_multi(mine, factors, ranks, split=split)
            found.append((part, y.cpu().numpy()))
    return found


def check(found, x):
    for part, y in found:
        np.testing.assert_allclose(y, (x @ KRON)[part.rows, part.outs], rtol=1e-10)


def test_one_rank_on_any_stream(torch):
    x = RNG.normal(size=(50, 24))
    with gram.Communicator(nccl=gram.nccl_id(), rank=0, size=1) as ranks:
        for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
            check(products(torch, ranks, "cuda", x, stream), x)
        with pytest.raises(ValueError, match="CUDA device 0"):
            gram.kron_matmul_multi(x, FACTORS, ranks)
        with pytest.raises(ValueError, match="50 columns"):
            gram.kron_matmul_multi(torch.ones(3, 50).cuda(), [torch.eye(2).cuda()], ranks)
    with pytest.raises(ValueError, match="rank is 3 of size 2"):
        gram.Communicator(nccl=gram.nccl_id(), rank=3, size=2)
    with pytest.raises(ValueError, match="bytes is 5"):
        gram.Communicator(nccl=b"short", rank=0, size=1)


def test_two_ranks_in_threads(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    x, number, found = RNG.normal(size=(50, 24)), gram.nccl_id(), [None, None]

    def work(rank):
        device = f"cuda:{rank}"
        torch.cuda.set_device(rank)
        with gram.Communicator(nccl=number, rank=rank, size=2, device=device) as ranks:
            found[rank] = products(torch, ranks, device, x, torch.cuda.default_stream(rank))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for parts in found:
        check(parts, x)
