"""test_communicator_made.py - gram.Communicator by PyTorch's groups, by Dask, by Ray

Over NCCL where CUDA is emulated, whose ranks are threads of one process.
"""

import concurrent.futures
import ctypes
import os
import sys
import types

import pytest

os.environ.setdefault("GRAM_FAKE_CUDA_DEVICES", "2")
EMULATED = bool(os.environ.get("GRAM_TEST_EMULATED"))
if EMULATED:  # before PyTorch, which brings a library of that name
    ctypes.CDLL(os.path.join(os.environ["GRAM_CUDA_LIB_DIR"], "libnccl.so.2"))

import gram  # noqa: E402

emulated = pytest.mark.skipif(not EMULATED, reason="needs the emulation of CUDA")
alone = pytest.mark.skipif(len(gram.devices()) > 1, reason="there is a GPU")


@pytest.fixture
def group(tmp_path):
    """PyTorch's group of this process alone, by Gloo."""
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("no Gloo")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    yield torch.distributed.group.WORLD
    torch.distributed.destroy_process_group()


def where(ranks):
    """What a rank says of itself, and whether the ranks agree."""
    ranks.agree()
    return ranks.rank, ranks.size


@emulated
def test_a_group_of_pytorch_sends_the_id(group):
    for given in (None, group):
        with gram.Communicator.from_torch(given, device="cuda:0", timeout=60) as ranks:
            assert where(ranks) == (0, 1)


def test_a_group_of_cpus_is_refused(group):
    with pytest.raises(NotImplementedError, match="backend of the group is gloo.*mpirun"):
        gram.Communicator.from_torch(group)


@alone
def test_a_group_without_gpus(group):
    with pytest.raises(NotImplementedError):
        gram.Communicator.from_torch(group, device="cuda:0")


def test_there_is_no_group_yet():
    pytest.importorskip("torch")
    with pytest.raises(RuntimeError, match="not initialised"):
        gram.Communicator.from_torch()


@pytest.fixture(scope="module")
def client():
    """Of a Dask cluster with two workers, threads of this process."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@emulated
def test_workers_of_dask_keep_their_ranks(client):
    workers = sorted(client.nthreads(), reverse=True)
    futures = gram.Communicator.from_dask(
        client, workers, device=["cuda:0", "cuda:1"], timeout=60
    )
    told = [client.submit(where, f, workers=[w]) for f, w in zip(futures, workers, strict=True)]
    assert client.gather(told) == [(0, 2), (1, 2)]
    ends = [
        client.submit(lambda ranks: ranks.close(), f, workers=[w])
        for f, w in zip(futures, workers, strict=True)
    ]
    client.gather(ends)


def test_workers_that_cannot_be(client):
    worker = next(iter(client.nthreads()))
    for workers in ([], ["nobody"], [worker, worker]):
        with pytest.raises(ValueError, match="expected different ones of"):
            gram.Communicator.from_dask(client, workers)
    with pytest.raises(ValueError, match="device has 1 names, expected 2"):
        gram.Communicator.from_dask(client, device=["cuda:0"])


@alone
def test_dask_without_gpus(client):
    with pytest.raises(NotImplementedError):
        gram.Communicator.from_dask(client)


class Actor:
    """An actor of Ray, whose calls are threads."""

    def __init__(self, threads):
        self.threads = threads

    @property
    def __ray_call__(self):
        def remote(function, *arguments):
            return self.threads.submit(function, self, *arguments)

        return types.SimpleNamespace(remote=remote)


@pytest.fixture
def actors(monkeypatch):
    def get(futures):
        many = isinstance(futures, list)
        return [f.result() for f in futures] if many else futures.result()

    monkeypatch.setitem(sys.modules, "ray", types.SimpleNamespace(get=get))
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        yield [Actor(threads), Actor(threads)]


@emulated
def test_actors_of_ray_keep_their_ranks(actors):
    gram.Communicator.from_ray(actors, device=("cuda:0", "cuda:1"), timeout=60)
    told = [a.threads.submit(where, a.communicator) for a in actors]
    assert [f.result() for f in told] == [(0, 2), (1, 2)]
    for f in [a.threads.submit(a.communicator.close) for a in actors]:
        f.result()


@alone
def test_actors_without_gpus(actors):
    with pytest.raises(NotImplementedError):
        gram.Communicator.from_ray(actors)
    with pytest.raises(ValueError, match="actors is empty"):
        gram.Communicator.from_ray([])
